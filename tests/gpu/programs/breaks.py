"""Ends in a real failure of CUDA: `oom` or `assert`; only the rank that is named does."""

import os
import sys
import time

import torch

if os.environ["RANK"] != sys.argv[2]:
    time.sleep(600)
if sys.argv[1] == "oom":
    held = []
    while True:
        held.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
else:
    table = torch.randn(10, 4, device="cuda")
    torch.nn.functional.embedding(torch.tensor([11], device="cuda"), table)
    torch.cuda.synchronize()
