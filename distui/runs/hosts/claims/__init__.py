"""What a run has of a host for itself: its name, GPUs and ports, and who else has them."""
