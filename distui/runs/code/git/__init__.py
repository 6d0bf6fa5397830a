"""Code of a commit: a remote repository kept here, its files as a folder, and what a folder tells of its own."""
