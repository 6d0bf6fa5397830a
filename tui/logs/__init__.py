"""Lines of ranks on a screen: buffers, folds, search, panes, all ranks merged.

In: lines of a run. Out: panes.
"""
