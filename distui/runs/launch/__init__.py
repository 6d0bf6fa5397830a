"""From a plan to started tasks, and back when that fails.

In: an attempt. Out: running tasks, or why there are none.
"""
