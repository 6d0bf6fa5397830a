"""The 1,797 handwritten digits that lie beside this file (DATA.md says where they come from).

Each line of digits.csv.gz is one 8x8 image, 64 values of 0 to 16, and the digit it shows.
Needs only the standard library.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

SIDE = 8
"""Rows, and columns, of one image."""
PEAK = 16
"""The value of a pixel that is all ink."""

_FILE = Path(__file__).with_name("digits.csv.gz")
_INKS = frozenset(range(PEAK + 1))
_TEST_EVERY = 5


def read(path: Path = _FILE) -> list[bytes]:
    """Every image as 65 bytes: 64 pixels by row, then the digit.

    Raises:
        ValueError: the file is missing or is not what is described above.
    """
    try:
        with gzip.open(path, "rt", encoding="ascii") as lines:
            return [_image(line) for line in lines]
    except (OSError, EOFError, zlib.error, ValueError) as problem:
        raise ValueError(f"{path} can't be read: {problem}") from None


def split(images: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The images to train on and those held out for the test: every fifth, whatever the seed."""
    train = [image for place, image in enumerate(images, 1) if place % _TEST_EVERY]
    return train, images[_TEST_EVERY - 1 :: _TEST_EVERY]


def _image(line: str) -> bytes:
    *pixels, digit = (int(value) for value in line.split(","))
    if len(pixels) != SIDE * SIDE or not set(pixels) <= _INKS or digit not in range(10):
        raise ValueError(f"not {SIDE * SIDE} pixels of 0 to {PEAK} and a digit: {line[:40].strip()!r}")
    return bytes((*pixels, digit))
