"""The hosts: the list, one host, its containers and processes."""
