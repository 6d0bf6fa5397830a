"""The list of runs, with a preview."""
