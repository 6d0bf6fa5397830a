"""One rank over NCCL whose 21st collective waits for kernels that spin for about as many seconds as are given."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
x = torch.ones(1000, device="cuda")
for _ in range(20):
    dist.all_reduce(x)
torch.cuda.synchronize()
for _ in range(int(sys.argv[1])):
    torch.cuda._sleep(1_500_000_000)  # cycles of the GPU's clock
print("spins", flush=True)
dist.all_reduce(x)
torch.cuda.synchronize()
print("through", flush=True)
dist.destroy_process_group()
