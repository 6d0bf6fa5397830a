"""Fully sharded training: every rank holds a part of each layer's parameters, gradients and optimizer state.

Learns the sign of a sum. Started by torchrun, or by anything that sets RANK, LOCAL_RANK, WORLD_SIZE and the address.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, BATCH, WIDTH = 60, 64, 32


def network() -> nn.Sequential:
    """Layers to shard, each on its own: only one is whole at a time."""
    torch.manual_seed(0)
    hidden = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, 2))


def main() -> None:
    """Join the others, shard, train, leave."""
    cuda = torch.cuda.is_available()
    kind = "cuda" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    model = network().to(kind)
    mesh = init_device_mesh(kind, (size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    whole = sum(parameter.numel() for parameter in model.parameters())
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    print(f"rank {rank} of {size} holds {held} of {whole} parameters", flush=True)

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, STEPS + 1):
        x = torch.randn(BATCH, WIDTH, generator=generator).to(kind)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step == 1 or step % 20 == 0):
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
