"""Hashes of a folder's files by what `stat` tells of each, kept from one run to the next: what did not change is not
read again.

A file is known again by device, inode, size and both times. Nobody can set the time of the last change (ctime), so a
content that was written with its old time and size is noticed too. One that changed moments ago may change again
within the same tick of the file system's clock, and is not kept.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from distui import files

Key = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of the last write and the last change."""

_FRESH_SECONDS = 2.0
_HEAD = b"distui-hashes-1\n"
_KEY = struct.Struct("<3Q2q")
_MOST_FILES = 32
"""Of such files, two for each folder in a repository; those used longest ago go first."""


def key_of(status: os.stat_result) -> Key:
    """By what a file is known again."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Hashes:
    """The hashes of one folder, of `width` bytes each, in `file` between two runs; without one only in memory."""

    def __init__(self, file: Path | None = None, width: int = 32) -> None:
        self._file = file
        self._known: dict[Key, str] = {}
        self._new = False
        self._used: set[Key] = set()
        if file is not None:
            self._known.update(_rows(file, width))

    def get(self, key: Key) -> str | None:
        """The hash of a file, None when it must be read."""
        if self._file is not None:
            self._used.add(key)
        return self._known.get(key)

    def add(self, key: Key, digest: str) -> None:
        """Keep the hash of a file, unless it is known already, or too young."""
        if self._known.get(key) != digest and time.time() - max(key[3:]) / 1e9 > _FRESH_SECONDS:
            self._known[key] = digest
            self._new = True

    def save(self) -> None:
        """Keep what was asked for since the last time; it is written if anything of it is new, where it can be."""
        if self._new and self._file is not None:
            self._known = {key: known for key, known in dict(self._known).items() if key in self._used}
            with suppress(OSError, struct.error):
                files.make_private(self._file.parent)
                body = b"".join(_KEY.pack(*key) + bytes.fromhex(known) for key, known in self._known.items())
                files.write_private(self._file, _HEAD + hashlib.sha256(body).digest() + body)
                _tidy(self._file.parent)
        elif self._file is not None:
            with suppress(OSError):
                os.utime(self._file, follow_symlinks=False)
        self._new = False
        self._used.clear()


def hashes_of(cache: Path, folder: Path, kind: str = "", width: int = 32) -> Hashes:
    """What is kept of a folder below `cache`; by another `kind` of hash if it is named."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    return Hashes(cache / "hashes" / f"{name}{kind}", width)


def _rows(file: Path, width: int) -> Iterator[tuple[Key, str]]:
    """What is in a file; nothing of one that is not there, not ours, or not whole."""
    try:
        files.check_folder(file.parent)
        data = files.read_bytes(file, ours=True)
    except OSError:
        return
    start = len(_HEAD) + 32
    body = data[start:]
    if data[:start] != _HEAD + hashlib.sha256(body).digest() or len(body) % (_KEY.size + width):
        return
    for *key, known in struct.iter_unpack(f"{_KEY.format}{width}s", body):
        yield tuple(key), known.hex()


def _tidy(folder: Path) -> None:
    old = sorted(folder.iterdir(), key=lambda path: -path.stat().st_mtime)
    for path in old[_MOST_FILES:]:
        path.unlink()
