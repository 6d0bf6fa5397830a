"""Every problem of all hosts and runs in one list."""
