"""What the followers of all hosts say, taken together.

In: their events. Out: events of the run, and what is known of it.
"""
