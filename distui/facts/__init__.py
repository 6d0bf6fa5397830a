"""What the hosts are: text of their commands in, facts out."""
