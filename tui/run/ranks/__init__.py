"""The ranks of a run at the left of its view, and when each followed the first failure."""
