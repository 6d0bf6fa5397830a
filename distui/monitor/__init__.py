"""Figures of hosts that no run asked for.

In: probes and samples. Out: what screens and `top` show.
"""
