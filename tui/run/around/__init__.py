"""What stands around the logs of a run: its state, failure or hang, loss, hosts; and who gives way for whom."""
