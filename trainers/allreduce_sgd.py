"""Gradient descent that adds up the ranks' gradients by hand, with nothing but all_reduce.

Copy this folder as the start of your own. The ranks may be started one by one, from anywhere and in any order; each
waits for the others:

    python allreduce_sgd.py --rank R --world-size N --init-method tcp://HOST:PORT --backend gloo

N ranks with a batch of B take the same steps as one process with a batch of N x B: the parameters differ by the
rounding of sums alone, and they are in double precision, so that the losses printed are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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


def main() -> int:
    """Train as the command line says; exit codes are in README.md."""
    parser = arguments.training("Train with gradients added up by hand.")
    parser.set_defaults(lr=0.3)
    options = arguments.parse(parser, arguments.Options)
    place = options.place
    signals.end_at_once(place.name)
    with group.told_in_words(place):
        digits = data.load(options.data)
        backend, device = group.choose(options.backend, options.device, place.local_rank)
        place.say(f"waits for all {place.world_size} ranks at {place.meeting_text}")
        with group.joined(place, backend, device):
            place.say(f"all ranks are here, backend {backend} device {device}")
            train(options, digits, device)
    return 0


def train(options: arguments.Options, digits: data.Data, device: torch.device) -> None:
    """Take every step together with the other ranks; say how the loss falls, and how good the network is."""
    place = options.place
    network.make_deterministic(options.seed, options.threads)
    images, classes = (tensor.to(device) for tensor in digits.train.tensors)
    model = network.build(images, data.CLASSES).to(device).double()
    take_from_rank_0(model)
    step, loss = 0, torch.zeros(())
    for epoch in range(1, options.epochs + 1):
        for batch in batches(len(images), options.batch_size * place.world_size, options.seed + epoch):
            mine = share(batch, place.rank, place.world_size).to(device)
            loss = gradient(model, images[mine].double(), classes[mine], total=len(batch))
            add_over_ranks([loss, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)])
            descend(model, options.lr)
            step += 1
            if step == 1 or step % options.log_every == 0:
                place.say(f"epoch {epoch} step {step} loss {loss.item():.6f}")
    place.say(f"final loss {loss.item():.6f} params {network.fingerprint(model)}")
    if place.rank == 0:
        place.say(f"test accuracy {network.accuracy(model.float(), digits.test, device):.1%}")
    dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves


def batches(count: int, size: int, seed: int) -> Iterator[Tensor]:
    """The numbers 0 to `count` - 1 in the order of `seed`, `size` at a time, the rest last: the same on every rank."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    yield from order.split(size)


def share(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """What of a batch is this rank's; all shares together are the batch. Of a short one it may be nothing."""
    return batch[rank::world_size]


def gradient(model: nn.Module, images: Tensor, classes: Tensor, total: int) -> Tensor:
    """Put this share's part of a batch's mean gradient into the parameters' grad; its part of the mean loss.

    Args:
        model: the network.
        images, classes: this rank's share (n, 1, rows, columns) and (n).
        total: images of the whole batch. Dividing by it here, and adding over the ranks, gives the mean over the
            batch also when the ranks' shares are not of one size.
    """
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(images), classes, reduction="sum") / total
    loss.backward()
    return loss.detach()


def add_over_ranks(tensors: list[Tensor]) -> None:
    """Replace each tensor by its sum over all ranks. One message for all of them: each message costs a round trip."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def descend(model: nn.Module, lr: float) -> None:
    """One step down the gradient, of the length `lr` times the gradient."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= lr * parameter.grad


def take_from_rank_0(model: nn.Module) -> None:
    """Start from one network, even where the ranks' versions of torch draw other numbers."""
    for value in model.state_dict().values():
        dist.broadcast(value, src=0)


if __name__ == "__main__":
    sys.exit(main())
