"""Hosts made on this machine, to try distui on without a cluster: embedded ssh servers that run real commands."""
