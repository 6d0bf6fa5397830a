"""What the ranks of a run printed, from the files here or from the hosts.

In: a run's folder, or a run as it was found on its hosts, and which lines are wanted. Out: lines into a sink.
"""
