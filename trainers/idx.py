"""Reads IDX files, the format of MNIST and of the sets shaped like it. Needs only the standard library.

The format (http://yann.lecun.com/exdb/mnist/): two zero bytes, a type byte (8: unsigned bytes), the number of
dimensions, each dimension as a big-endian 32-bit number, then the data, last dimension fastest.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

_UNSIGNED_BYTE = 8


class DataError(Exception):
    """A data file is missing or is not what it should be: says which file, what is wrong, what to do."""


def find(folder: Path, name: str) -> Path:
    """The file `name` in `folder`, plain or with `.gz` at its end.

    Raises:
        DataError: neither is there.
    """
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    what = "there is no such folder" if not folder.is_dir() else f"it holds no {name} or {name}.gz"
    raise DataError(f"no data in {folder} on this host: {what}; --data names a folder with four IDX files")


def read(path: Path, dimensions: int) -> tuple[tuple[int, ...], bytes]:
    """The shape and the bytes of the IDX file at `path`, which must have that many dimensions.

    Raises:
        DataError: the file can't be read, is not an IDX file of unsigned bytes, has another number of
            dimensions, or is shorter or longer than its header says.
    """
    content = _content(path)
    try:
        return parse(content, dimensions)
    except ValueError as problem:
        raise DataError(f"{path}: {problem}; fetch the file again") from None


def parse(content: bytes, dimensions: int) -> tuple[tuple[int, ...], bytes]:
    """The shape and the data of `content`, the bytes of an uncompressed IDX file.

    Raises:
        ValueError: says what is wrong with it.
    """
    header = 4 + 4 * dimensions
    if content[:3] != bytes((0, 0, _UNSIGNED_BYTE)) or len(content) < 4:
        raise ValueError(f"not an IDX file of unsigned bytes: it starts with {content[:4].hex(' ') or 'nothing'}")
    if content[3] != dimensions:
        raise ValueError(f"it has {content[3]} dimensions where {dimensions} are expected")
    if len(content) < header:
        raise ValueError(f"cut short inside its header, after {len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = math.prod(shape)
    if len(content) - header != expected:
        raise ValueError(f"it holds {len(content) - header} bytes of data where its header says {expected}")
    return shape, content[header:]


def check_labels(path: Path, labels: bytes, images: int, classes: int) -> None:
    """Every image must have a label, each below `classes`.

    Raises:
        DataError: says what is wrong with the labels at `path`.
    """
    if not images or len(labels) != images:
        raise DataError(f"{path}: {len(labels)} labels for {images} images; fetch the images and labels together")
    if max(labels) >= classes:
        raise DataError(f"{path}: a label is {max(labels)} where 0 to {classes - 1} are expected")


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise DataError(f"{path}: not a whole gzip file ({problem}); fetch the file again") from None
    except OSError as problem:
        raise DataError(f"{path}: {problem.strerror or problem}") from None
