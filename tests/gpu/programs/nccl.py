"""One rank of DistributedDataParallel over NCCL; with an argument it stays for so many seconds."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + float(sys.argv[1])
step = 0
while step < 20 or time.monotonic() < end:
    loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        torch.cuda.synchronize()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step > 20:
        time.sleep(0.02)
print("backend", dist.get_backend(), "version", ".".join(map(str, torch.cuda.nccl.version())), flush=True)
dist.destroy_process_group()
