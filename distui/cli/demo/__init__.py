"""`distui demo`: a job, and hosts made for it on this machine.

In: the caller's settings. Out: an inventory and a run on it, shown or printed.
"""
