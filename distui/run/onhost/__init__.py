"""Runs on the hosts, not here: Python 3.6, standard library only."""
