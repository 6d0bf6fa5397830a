"""Patterns of usual last words, each with its cause. They are tried in the order of `causes.RULES`."""
