"""What is known of each rank: what its host answered, which process it is, what it does, and its GPUs, as values."""
