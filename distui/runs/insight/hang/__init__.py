"""Who holds the others up: one pure function over where all ranks stand in their collectives, by torch or by NCCL.

Comes in: ranks as they were seen. Goes out: an explanation with its evidence and its certainty.
"""
