"""How a run ended and which rank explains it: one pure function, `judge(evidence)`, over all that is known.

In: ends of containers, lines with their times, stops, silences, what the network answered. Out: an `Outcome` with an
end for each rank, and words for it.
"""
