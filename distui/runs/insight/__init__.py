"""Where the ranks of a run are, and who holds the others up.

In: what each host answered about the processes of its tasks. Out: who waits for whom, in which collective, and why.
"""
