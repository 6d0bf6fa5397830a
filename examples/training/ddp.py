"""The plain DistributedDataParallel loop: fits y = 3x + 1 from noisy points. Nothing in it knows of distui.

It reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment, as every DDP program does.
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn  # before the group is there: imported later, as DDP does, it would hold it to the end
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH = 6, 32


def points() -> TensorDataset:
    """The data: the same on every rank, whose sampler takes its share of it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2048, 1, generator=generator)
    return TensorDataset(x, 3 * x + 1 + 0.01 * torch.randn(2048, 1, generator=generator))


def main() -> None:
    """Join the others, train, leave: without a model that holds the group, leaving it ends its threads, too."""
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    local = int(os.environ["LOCAL_RANK"])
    if cuda:
        torch.cuda.set_device(local)
    train(torch.device("cuda", local) if cuda else torch.device("cpu"))
    dist.destroy_process_group()


def train(device: torch.device) -> None:
    """Fit the line, and say which it is."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(1, 1).to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data = points()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler)

    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader, 1):
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()  # averages the gradient over all ranks
            optimizer.step()
            if rank == 0 and step % 16 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.5f}", flush=True)

    weight, bias = (parameter.item() for parameter in model.parameters())
    print(f"rank {rank} of {dist.get_world_size()}: y = {weight:.3f} x + {bias:.3f}", flush=True)


if __name__ == "__main__":
    main()
