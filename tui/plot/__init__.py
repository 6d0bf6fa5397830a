"""Curves over an axis, in cells: scales, ticks, bins, smoothing, and how they are painted.

In: points and a palette. Out: painted rows. Everything that is drawn over time or steps is drawn here.
"""
