"""Asks the hosts of a run, over the connections that are there: one look, or watching for some seconds."""
