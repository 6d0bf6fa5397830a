"""Trains a small convolutional network on handwritten digits with DistributedDataParallel.

Copy this folder as the start of your own. Run it, one process per rank, as

    python mnist.py --rank R --world-size N --init-method tcp://HOST:PORT --backend gloo

or with nothing but the environment that torchrun and distui set. README.md has all arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, data, group, network, signals
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import data
    import group
    import network
    import signals

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main() -> int:
    """Train as the command line says; exit codes are in README.md."""
    options = arguments.parse(arguments.training("Train a small network on handwritten digits."), arguments.Options)
    signals.end_at_once(options.place.name)
    with group.told_in_words(options.place):
        digits = data.load(options.data)
        backend, device = group.choose(options.backend, options.device, options.place.local_rank)
        with group.joined(options.place, backend, device):
            train(options, digits, device)
    return 0


def train(options: arguments.Options, digits: data.Data, device: torch.device) -> None:
    """Train on this rank's share of the data; say how the loss falls, and how good the network is."""
    place = options.place
    network.make_deterministic(options.seed, options.threads)
    place.say(f"rendezvous {place.meeting_text} backend {dist.get_backend()} device {device}")
    model = DistributedDataParallel(network.build(digits.train.tensors[0], data.CLASSES).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, options.epochs)
    sampler = DistributedSampler(digits.train, place.world_size, place.rank, seed=options.seed)
    batches = DataLoader(digits.train, options.batch_size, sampler=sampler)
    loss = 0.0
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)  # another order in every epoch
        loss = train_epoch(options, epoch, model, optimizer, batches, device)
        schedule.step()
    place.say(f"final loss {loss:.4f} params {network.fingerprint(model.module)}")
    if place.rank == 0:
        place.say(f"test accuracy {network.accuracy(model.module, digits.test, device):.1%}")
    dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves


def train_epoch(
    options: arguments.Options,
    epoch: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: DataLoader[tuple[Tensor, ...]],
    device: torch.device,
) -> float:
    """One pass over this rank's share of the data; the mean loss over all ranks, the same on each."""
    losses = []
    for step, (images, classes) in enumerate(batches, (epoch - 1) * len(batches) + 1):
        losses.append(take_step(model, optimizer, images.to(device), classes.to(device)))
        if step == 1 or step % options.log_every == 0:
            options.place.say(f"epoch {epoch} step {step} loss {losses[-1].item():.4f}")
    loss = mean_over_ranks(torch.stack(losses).mean())
    options.place.say(f"epoch {epoch} mean loss {loss:.4f}")
    return loss


def take_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, classes: Tensor) -> Tensor:
    """One step down the gradient, which DistributedDataParallel averages over the ranks; this rank's loss."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), classes)
    loss.backward()
    optimizer.step()
    return loss.detach()


def mean_over_ranks(value: Tensor) -> float:
    """The same number on every rank."""
    dist.all_reduce(value)
    return float(value / dist.get_world_size())


if __name__ == "__main__":
    sys.exit(main())
