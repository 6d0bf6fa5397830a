"""The first start: hosts are picked, hosts.yaml is written."""
