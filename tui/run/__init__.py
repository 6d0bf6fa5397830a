"""One run: panes of logs, failures, ranks, time."""
