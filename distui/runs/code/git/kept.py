"""What is kept of repositories from one start to the next is bounded: what was not used for long goes, but nothing that
a distui reads.

Who reads a commit's files holds a shared lock on their folder; who removes it has to get it alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from distui.files import lock_alone, open_fd

MOST_TREES = 8
"""Folders with a commit's files that nobody reads; those that were used longest ago go first."""
TREE_DAYS, REPOSITORY_DAYS, PART_DAYS = 30, 90, 1
"""Days without use after which such a folder goes, a repository, and what a distui that was killed left half made or
half removed.
"""
MOST_AT_ONCE = 2
"""How many of them a start removes, which waits for it: each adds one at most."""
_DAY = 86400.0


class HeldTree:
    """A folder that nobody removes while this object is there."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._handle)


def hold(tree: Path) -> HeldTree | None:
    """Keep others from removing a folder, and note that it is used; None where it was just removed. Raises OSError.

    Where folders can't be locked (NFS), nobody removes any.
    """
    held = HeldTree(handle := _open(tree))
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_SH)
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(tree.stat(), os.fstat(handle)):
            os.utime(handle)
            return held
    return None


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def tidy(place: Path) -> None:
    """Remove what was not used for long of all repositories below `place`, a little at a time. Raises OSError."""
    removed = 0
    for path in (*_parts(place), *_old_trees(place), *_old_repositories(place)):
        if removed == MOST_AT_ONCE:
            return
        with contextlib.suppress(OSError):
            removed += remove(path)


def _parts(place: Path) -> Iterator[Path]:
    return (path for path in (*place.glob("*.trees/.*"), *place.glob(".*")) if _days(path) > PART_DAYS)


def _old_trees(place: Path) -> Iterator[Path]:
    """From the one that was used longest ago."""
    found = sorted((_days(path), path) for path in place.glob("*.trees/*") if not path.name.startswith("."))
    for number, (days, path) in enumerate(reversed(found)):
        if days > TREE_DAYS or number < len(found) - MOST_TREES:
            yield path


def _old_repositories(place: Path) -> Iterator[Path]:
    """Those of which no commit's files are there any more."""
    for path in place.iterdir():
        trees = path.with_name(f"{path.name}.trees")
        if "." not in path.name and _days(path) > REPOSITORY_DAYS and not any(trees.glob("*")):
            yield path


def _days(path: Path) -> float:
    try:
        return (time.time() - path.stat().st_mtime) / _DAY
    except OSError:
        return 0.0


def remove(path: Path) -> bool:
    """Remove a folder unless somebody reads it, or fetches into it; whether that was done. Raises OSError."""
    fetched = path.with_name(f"{path.name}.lock")  # beside a repository
    alone = open_fd(fetched, os.O_RDWR) if fetched.exists() else _open(path)
    try:
        before = _days(path)
        lock_alone(alone, tries=1, pause=0.0)
        if _days(path) < before:  # somebody has used it meanwhile
            return False
        going = Path(tempfile.mkdtemp(prefix=".old-", dir=path.parent))
        path.rename(going / "it")
    finally:
        os.close(alone)
    shutil.rmtree(going, ignore_errors=True)
    return True
