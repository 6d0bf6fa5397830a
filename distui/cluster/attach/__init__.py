"""Runs that are there already: found by name, followed, attached to, and what is left of them removed.

In: settings, a connector, a run's name. Out: where it is, the controller that follows it, or what could not be done.
"""
