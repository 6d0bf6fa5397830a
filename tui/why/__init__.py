"""The Why panel of a run: what its ranks answered when they were asked, and asking them again."""
