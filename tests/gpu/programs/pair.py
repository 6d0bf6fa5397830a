"""Two ranks over NCCL that share one GPU; what is named on the command line happens at rank 1's 21st collective."""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

# NCCL refuses two ranks on one GPU of one host: each says that it is on a host of its own.
os.environ["NCCL_HOSTID"] = f"host-{os.environ['RANK']}"
way = sys.argv[1]
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=timedelta(seconds=8 if way == "timeout" else 600))
rank, x, steps = dist.get_rank(), torch.ones(1000, device="cuda"), 20 if way == "ends" else 1 << 30


def load() -> None:
    """What rank 1 does in the place of going on."""
    if way in ("sleeps", "timeout"):
        time.sleep(600)
    elif way == "spins":
        while True:
            pass
    elif way == "order":
        dist.broadcast(x, 0)
    elif way == "shape":
        dist.all_reduce(torch.ones(100000, device="cuda"))
    elif way == "kernel":
        for _ in range(600):
            torch.cuda._sleep(1_500_000_000)  # cycles of the GPU's clock


for step in range(steps):
    if step == 20 and rank == 1:
        load()
    if way == "late" and rank == 1:
        time.sleep(0.2)
    dist.all_reduce(x)
    if step < 20 or step % 50 == 0:
        torch.cuda.synchronize()
        print("step", step, flush=True)
    if step > 20:
        time.sleep(0.02)
torch.cuda.synchronize()
print("sum", x.max().item() > 0, flush=True)
dist.destroy_process_group()
