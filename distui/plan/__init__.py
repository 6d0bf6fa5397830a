"""What will run: job x inventory x facts -> plan, pure."""
