"""How a run ended and which rank explains it: one pure function, `judge(evidence)`, over all that is known."""
