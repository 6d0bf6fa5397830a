"""How each rank ended, taken by itself: when, by its own failure, by a stop or by something outside.

Comes in: the evidence. Goes out: a part per container or per rank of torchrun, with its time and the error of that.
"""
