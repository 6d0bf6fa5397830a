"""One distui at a time fetches into a repository that is kept, and what a git that was killed left locked is freed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from distui.errors import CheckFailed
from distui.files import lock_alone, open_fd, reason

PATIENCE = 120.0
"""Seconds for which somebody else's fetch is waited for."""
_PAUSE = 0.2


class GivenUp(Exception):
    """Nobody waits any more for what git is to say, or is read."""


def go_on(given_up: threading.Event | None) -> None:
    """Raise GivenUp once that is set."""
    if given_up is not None and given_up.is_set():
        raise GivenUp


@contextlib.contextmanager
def fetching_alone(repository: Path, url: str, given_up: threading.Event) -> Iterator[None]:
    """Nobody else fetches into `repository`, a bare one or one to be, in this process or another. Blocking.

    git's own locks in it are then of one that was killed, or of before a power cut, and go: git waits for them for
    ever. Where files can't be locked (NFS) it is as if nobody else did, and git's locks stay. Raises CheckFailed where
    somebody else is at it for long, GivenUp once that is set meanwhile.
    """
    try:
        handle = open_fd(str(repository.with_name(f"{repository.name}.lock")), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise CheckFailed(f"code: {error.filename or repository} {reason(error)}") from None
    try:
        if _locked(handle, url, given_up):
            _free(repository)
        yield
    finally:
        os.close(handle)


def _locked(handle: int, url: str, given_up: threading.Event) -> bool:
    until = time.monotonic() + PATIENCE
    while not given_up.is_set():
        try:
            lock_alone(handle, tries=1, pause=0.0)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                raise CheckFailed(
                    f"code: another distui has been fetching {url} for more than {PATIENCE:g} s",
                    hint="wait until it has ended, or end it",
                ) from None
        except OSError:
            return False
        given_up.wait(_PAUSE)
    raise GivenUp


def _free(repository: Path) -> None:
    """Remove git's locks. No ref's name ends as they do."""
    for lock in chain(repository.glob("*.lock"), (repository / "refs").rglob("*.lock")):
        with contextlib.suppress(OSError):
            lock.unlink()
