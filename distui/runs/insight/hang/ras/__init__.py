"""Who holds the others up as NCCL's RAS counts it: what it answers, read and explained. Pure."""
