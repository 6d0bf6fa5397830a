"""Job files: their keys, the forms of their values, and what keys must be to each other.

In: nodes, flags that replace keys, variables and placeholders. Out: a Job.
"""
