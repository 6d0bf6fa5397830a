"""What the lines of a failed rank say: where its last words begin, torchrun's reports of ranks, and causes in words.

Comes in: lines with their times. Goes out: headlines, causes and hints, and how torchrun says that each rank ended.
"""
