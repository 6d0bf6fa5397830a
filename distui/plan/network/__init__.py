"""Which network the ranks use: addresses and interfaces of each host, routes between them, where ranks meet.

Comes in: what the probe found of each host. Goes out: an interface per host with the reason, and the rendezvous.
"""
