"""The images to train on, as bytes: MNIST, or any set in its format, or the digits beside this file.

data.py makes torch tensors of them, tf_data.py TensorFlow's. Needs only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from distui.trainers import digits, idx
else:  # run as a script: the modules beside this file, whatever its folder is called
    import digits
    import idx

CLASSES = 10


@dataclass(frozen=True, slots=True)
class Pixels:
    """Images of one size, pixel by pixel, and the class of each."""

    count: int
    rows: int
    columns: int
    peak: int
    """The value of a pixel that is all ink; 0 is paper."""
    pixels: bytes
    """One byte a pixel, row by row, image by image."""
    classes: bytes
    """One byte an image, below CLASSES."""


def load(folder: Path | None) -> tuple[Pixels, Pixels]:
    """Those to train on and those held out for the test, from `folder`; the digits when there is none.

    Raises:
        idx.DataError: a file is missing or is not what it should be.
    """
    if folder is None:
        train, test = digits.split(_from_this_folder())
        return _of_digits(train), _of_digits(test)
    return _of_idx(folder, "train"), _of_idx(folder, "t10k")


def _from_this_folder() -> list[bytes]:
    """The digits that lie beside this file."""
    try:
        return digits.read()
    except ValueError as problem:
        raise idx.DataError(f"{problem}; copy digits.csv.gz along with this program, or give --data") from None


def _of_digits(images: list[bytes]) -> Pixels:
    """Each image is its pixels, then its digit."""
    pixels = b"".join(image[:-1] for image in images)
    return Pixels(len(images), digits.SIDE, digits.SIDE, digits.PEAK, pixels, bytes(image[-1] for image in images))


def _of_idx(folder: Path, part: str) -> Pixels:
    """One part, `train` or `t10k`, of a set in MNIST's format, under MNIST's file names."""
    labels = idx.find(folder, f"{part}-labels-idx1-ubyte")
    (count, rows, columns), pixels = idx.read(idx.find(folder, f"{part}-images-idx3-ubyte"), dimensions=3)
    _, classes = idx.read(labels, dimensions=1)
    idx.check_labels(labels, classes, count, CLASSES)
    return Pixels(count, rows, columns, 255, pixels, classes)
