"""Multiplies matrices until it is stopped, and says when the GPU is warm."""

import time

import torch

a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
began = time.monotonic()
warm = False
while True:
    for _ in range(50):
        a = (a @ a).clamp(-1, 1)
    torch.cuda.synchronize()
    if not warm and time.monotonic() - began > 5:
        warm = True
        print("warm", flush=True)
