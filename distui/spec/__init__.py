"""What you wrote: `hosts.yaml` and job files, read strictly into values."""
