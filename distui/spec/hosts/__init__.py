"""`hosts.yaml` and hostfiles: hosts, their groups, and sets of their names.

In: nodes, hostfiles, expressions such as `node[01-04]`. Out: an Inventory, also in the forms of other tools.
"""
