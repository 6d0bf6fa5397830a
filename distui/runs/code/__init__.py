"""The job's code on its way: from a folder or a repository here to one tree on every host.

In: what the job says of its code. Out: a tree on each host, and what differs from its commit.
"""
