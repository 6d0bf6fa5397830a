"""The owner of a run.

In: a plan, or a run found on its hosts. Out: batches of events to its end.
"""
