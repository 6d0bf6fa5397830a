"""Trains a small convolutional network on handwritten digits with DistributedDataParallel.

Copy this folder as the start of your own. Run it, one process per rank, as

    python mnist.py --rank R --world-size N --init-method tcp://HOST:PORT --backend gloo

or with nothing but the environment that torchrun and distui set. README.md has all arguments.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # what goes wrong is raised, so not logged as well
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

if TYPE_CHECKING or __package__:
    from trainers import arguments, digits, group, idx, signals
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import digits
    import group
    import idx
    import signals

CLASSES = 10


class Data(NamedTuple):
    """Images (n, 1, rows, columns) of 0.0 to 1.0, each with its class."""

    train: TensorDataset
    test: TensorDataset


def main() -> int:
    """Train as the command line says; exit code 0, 1 if the ranks did not join, 2 for a wrong request."""
    options = arguments.parse(arguments.training("Train a small network on handwritten digits."), arguments.Options)
    place = options.place
    signals.end_at_once(place.name)
    try:
        data = load(options.data)
        backend, device = group.choose(options.backend, options.device, place.local_rank)
        with group.joined(place, backend, device):
            train(options, data, device)
    except (idx.DataError, group.NotAvailable, group.JoinFailed) as problem:
        print(f"{place.name} error: {problem}\n", end="", file=sys.stderr, flush=True)
        return 1 if isinstance(problem, group.JoinFailed) else 2
    return 0


def train(options: arguments.Options, data: Data, device: torch.device) -> None:
    """Train on this rank's share of the data; say how the loss falls, and how good the network is."""
    place = options.place
    make_deterministic(options.seed, options.threads)
    place.say(f"rendezvous {place.meeting_text} backend {dist.get_backend()} device {device}")
    model = DistributedDataParallel(network(data.train.tensors[0]).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, options.epochs)
    sampler = DistributedSampler(data.train, place.world_size, place.rank, seed=options.seed)
    batches = DataLoader(data.train, options.batch_size, sampler=sampler)
    loss = 0.0
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)  # another order in every epoch
        loss = train_epoch(options, epoch, model, optimizer, batches, device)
        schedule.step()
    place.say(f"final loss {loss:.4f} params {fingerprint(model.module)}")
    if place.rank == 0:
        place.say(f"test accuracy {accuracy(model.module, data.test, device):.1%}")
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


def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Share of the images whose class the network names."""
    model.eval()
    right = 0
    with torch.no_grad():
        for images, classes in DataLoader(data, batch_size=1000):
            right += int((model(images.to(device)).argmax(1) == classes.to(device)).sum())
    return right / len(data)


def network(images: Tensor) -> nn.Sequential:
    """Two convolutions and two layers, for images of that size."""
    rows, columns = images.shape[-2] // 2, images.shape[-1] // 2
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * rows * columns, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


def fingerprint(model: nn.Module) -> str:
    """A hash of every parameter: equal on two ranks only if they hold the same network to the last bit."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(bytes(value.cpu().flatten().view(torch.uint8).tolist()))
    return digest.hexdigest()[:12]


def make_deterministic(seed: int, threads: int) -> None:
    """Same seed, same number of ranks: the same losses."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)


def load(folder: Path | None) -> Data:
    """MNIST, or a set in its format, from `folder`; the digits beside this file when there is none.

    Raises:
        idx.DataError: a file is missing or is not what it should be.
    """
    if folder is None:
        return Data(*map(from_digits, digits.split(from_this_folder())))
    return Data(from_idx(folder, "train"), from_idx(folder, "t10k"))


def from_this_folder() -> list[bytes]:
    """The digits that lie beside this file."""
    try:
        return digits.read()
    except ValueError as problem:
        raise idx.DataError(f"{problem}; copy digits.csv.gz along with this program, or give --data") from None


def from_digits(images: list[bytes]) -> TensorDataset:
    """The digits as tensors."""
    table = torch.frombuffer(bytearray(b"".join(images)), dtype=torch.uint8).view(len(images), -1)
    pixels = table[:, :-1].float().view(-1, 1, digits.SIDE, digits.SIDE)
    return TensorDataset(pixels / digits.PEAK, table[:, -1].long())


def from_idx(folder: Path, part: str) -> TensorDataset:
    """One part, `train` or `t10k`, of a set in MNIST's format, under MNIST's file names."""
    labels = idx.find(folder, f"{part}-labels-idx1-ubyte")
    (count, rows, columns), pixels = idx.read(idx.find(folder, f"{part}-images-idx3-ubyte"), dimensions=3)
    _, classes = idx.read(labels, dimensions=1)
    idx.check_labels(labels, classes, count, CLASSES)
    shaped = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(count, 1, rows, columns)
    return TensorDataset(shaped / 255, torch.frombuffer(bytearray(classes), dtype=torch.uint8).long())


if __name__ == "__main__":
    sys.exit(main())
