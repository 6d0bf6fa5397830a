"""What a run measured over time, as a page of plots over one time axis.

In: the files of `runs/series` of a run, live or ended. Out: the screen.
"""
