"""The network that the trainers train, and what is said about it. Replace it by your own."""

from __future__ import annotations

import hashlib
import os

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def build(images: Tensor, classes: int) -> nn.Sequential:
    """Two convolutions and two layers, for images (n, 1, rows, columns): a score for each class, (n, classes)."""
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
        nn.Linear(64, classes),
    )


def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Share of the images, 0 to 1, whose class the network names."""
    model.eval()
    right = 0
    with torch.no_grad():
        for images, classes in DataLoader(data, batch_size=1000):
            right += int((model(images.to(device)).argmax(1) == classes.to(device)).sum())
    return right / len(data)


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
