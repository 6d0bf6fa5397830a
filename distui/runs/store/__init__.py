"""Runs on this machine: a private folder each.

In: plans, events, lines. Out: files that outlive this process, and values read back from them.
"""
