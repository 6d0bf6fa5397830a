"""Hosts from files of other tools: OpenSSH's client configuration, Ansible's inventories, hostfiles.

In: their files. Out: hosts and groups as entries of hosts.yaml, and what of them could not be imported.
"""
