"""The end of a run: judged, recorded, cleaned up, and whether another attempt follows.

In: an attempt. Out: RunEnded, and nothing left on hosts.
"""
