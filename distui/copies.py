"""Folders for copies of a run's files that go with the process which made them, also when that one is killed.

What a killed process left is removed by the next one that makes such a folder: whoever uses one holds a lock in it. In
a folder that others may write to (`/tmp`) only what is ours is looked at, through descriptors: no name there can be
made to mean anything else meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from threading import Thread

PREFIX = "distui-copy-"

LOCK = "in-use"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def copy_folder() -> Iterator[Path]:
    """A new private folder that is removed when the block ends; what killed processes left is removed beside that."""
    Thread(target=sweep, name="copies that were left", daemon=True).start()
    folder = Path(mkdtemp(prefix=PREFIX))
    try:
        with _in_use(folder):
            yield folder
    finally:
        rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """The lock has its name once it is held: one without is of somebody who is about to take it."""
    taken = folder / f".{LOCK}"
    handle = os.open(taken, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: then nobody can take it either
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken.rename(folder / LOCK)
        yield
    finally:
        os.close(handle)


def sweep(place: str | None = None) -> None:
    """Remove the folders in `place` ($TMPDIR) whose process is gone. What can't be removed is left."""
    with contextlib.suppress(OSError), _opened(place or gettempdir()) as within:
        for name in _names(within):
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_left(name, within)


def _remove_if_left(name: str, within: int) -> None:
    with _opened(name, within) as folder:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            return
        lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(folder)
            os.rmdir(name, dir_fd=within)
        finally:
            os.close(lock)


def _empty(folder: int) -> None:
    """The lock goes last: who is killed here leaves a folder that is found again."""
    for name in sorted(_names(folder), key=lambda name: name == LOCK):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@contextlib.contextmanager
def _opened(path: str, within: int | None = None) -> Iterator[int]:
    """A descriptor of a folder that is no link."""
    handle = os.open(path, _FOLDER if within is not None else os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)
