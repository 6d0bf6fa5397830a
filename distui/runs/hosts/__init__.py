"""Hosts as a run knows them: links to them, and what is found and left there.

In: a session. Out: found runs, claims, leases, marks.
"""
