"""Each byte of each task once, over lost connections.

In: a host and where its logs stand. Out: lines, ends, figures as events of the follower.
"""
