"""What events add up to: the one reducer and what is folded beside it.

In: events. Out: the state that printers, screens and replay show.
"""
