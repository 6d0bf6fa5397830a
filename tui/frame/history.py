"""Commands typed in the `:` row, kept from one session to the next in a file only their user can read."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from distui.files import make_private, read_text, write_private

MOST, LONGEST = 200, 500
"""Commands kept, and characters of one: what is longer was pasted by mistake."""


def load(path: Path | None) -> list[str]:
    """The commands in the file, the newest last; none when there is no file, or it can't be read."""
    if path is None:
        return []
    try:
        return _bounded(read_text(path, errors="replace").splitlines())
    except OSError:
        return []


def added(history: Sequence[str], command: str) -> list[str]:
    """The history with a command at its end, where it stands once."""
    return _bounded([*(old for old in history if old != command), command])


def save(path: Path | None, command: str) -> None:
    """Add a command to the file, after what other sessions wrote there. On a full disk only the history is lost."""
    if path is None:
        return
    with contextlib.suppress(OSError):
        make_private(path.parent)
        write_private(path, "".join(f"{line}\n" for line in added(load(path), command)).encode())


def _bounded(commands: Sequence[str]) -> list[str]:
    return [c for c in commands if c.strip() and len(c) <= LONGEST and c.isprintable()][-MOST:]
