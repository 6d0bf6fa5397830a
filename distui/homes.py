"""The home folder, and paths that begin with `~`: an error in words where there is no such login, or no home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from distui.errors import UsageError


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The caller's home: HOME, else that of the login. Raises UsageError for a login that has none.

    That is what a container with `--user 1234` or a bare service has: no HOME and no entry among the logins.
    """
    environ = os.environ if environ is None else environ
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError as exc:
        message = f"there is no home folder: HOME is not set, and uid {os.getuid()} is no login of this machine"
        hint = "set HOME to a folder of yours: it holds keys, settings and the logs of runs"
        raise UsageError(message, hint=hint) from exc


def expanded(written: str | Path) -> Path:
    """A path with `~` and `~login` at its beginning made a folder. Raises UsageError where there is no such login."""
    try:
        return Path(written).expanduser()
    except RuntimeError as exc:
        named = Path(written).parts[0]
        if named == "~":
            home()
        raise UsageError(f"{written}: there is no login '{named[1:]}' on this machine") from exc
