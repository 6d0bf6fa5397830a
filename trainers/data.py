"""The images to train on (pixels.py), as torch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.utils.data import TensorDataset

if TYPE_CHECKING or __package__:
    from distui.trainers import pixels
else:  # run as a script: the modules beside this file, whatever its folder is called
    import pixels

CLASSES = pixels.CLASSES


class Data(NamedTuple):
    """Images (n, 1, rows, columns) of 0.0 to 1.0 in float32, each with its class (n) of 0 to 9 in int64."""

    train: TensorDataset
    test: TensorDataset


def load(folder: Path | None) -> Data:
    """MNIST, or a set in its format, from `folder`; the digits beside this file when there is none.

    Raises:
        idx.DataError: a file is missing or is not what it should be.
    """
    return Data(*map(_tensors, pixels.load(folder)))


def _tensors(images: pixels.Pixels) -> TensorDataset:
    shape = (images.count, 1, images.rows, images.columns)
    shaped = torch.frombuffer(bytearray(images.pixels), dtype=torch.uint8).view(shape)
    classes = torch.frombuffer(bytearray(images.classes), dtype=torch.uint8).long()
    return TensorDataset(shaped.float() / images.peak, classes)
