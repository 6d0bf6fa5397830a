"""What would break: checks made before anything is started."""
