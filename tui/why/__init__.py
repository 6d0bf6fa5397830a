"""The Why panel of a run: what its ranks told when they were asked, and asking them again."""
