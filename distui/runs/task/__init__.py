"""One host's part of a run: start, stop, find and remove its tasks, fetch its data.

In: a plan and a link. Out: what the host answered.
"""
