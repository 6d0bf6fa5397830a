"""The images to train on: MNIST, or any set in its format, or the digits beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.utils.data import TensorDataset

if TYPE_CHECKING or __package__:
    from trainers import digits, idx
else:  # run as a script: the modules beside this file, whatever its folder is called
    import digits
    import idx

CLASSES = 10


class Data(NamedTuple):
    """Images (n, 1, rows, columns) of 0.0 to 1.0 in float32, each with its class (n) of 0 to 9 in int64."""

    train: TensorDataset
    test: TensorDataset


def load(folder: Path | None) -> Data:
    """MNIST, or a set in its format, from `folder`; the digits beside this file when there is none.

    Raises:
        idx.DataError: a file is missing or is not what it should be.
    """
    if folder is None:
        return Data(*map(_from_digits, digits.split(_from_this_folder())))
    return Data(_from_idx(folder, "train"), _from_idx(folder, "t10k"))


def _from_this_folder() -> list[bytes]:
    """The digits that lie beside this file."""
    try:
        return digits.read()
    except ValueError as problem:
        raise idx.DataError(f"{problem}; copy digits.csv.gz along with this program, or give --data") from None


def _from_digits(images: list[bytes]) -> TensorDataset:
    """The digits as tensors."""
    table = torch.frombuffer(bytearray(b"".join(images)), dtype=torch.uint8).view(len(images), -1)
    pixels = table[:, :-1].float().view(-1, 1, digits.SIDE, digits.SIDE)
    return TensorDataset(pixels / digits.PEAK, table[:, -1].long())


def _from_idx(folder: Path, part: str) -> TensorDataset:
    """One part, `train` or `t10k`, of a set in MNIST's format, under MNIST's file names."""
    labels = idx.find(folder, f"{part}-labels-idx1-ubyte")
    (count, rows, columns), pixels = idx.read(idx.find(folder, f"{part}-images-idx3-ubyte"), dimensions=3)
    _, classes = idx.read(labels, dimensions=1)
    idx.check_labels(labels, classes, count, CLASSES)
    shaped = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(count, 1, rows, columns)
    return TensorDataset(shaped / 255, torch.frombuffer(bytearray(classes), dtype=torch.uint8).long())
