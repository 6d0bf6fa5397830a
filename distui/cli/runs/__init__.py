"""A run from the command line: plan, confirm, start, follow with or without the terminal UI; commands in its ranks.

In: a request, or a run's name and place. Out: the run's end and an exit code.
"""
