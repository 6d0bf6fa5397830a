"""Who launches what and when: what labels every container of a run."""

from __future__ import annotations

import getpass
import os
import secrets
from datetime import UTC, datetime
from typing import TypedDict

from distui.version import __version__


def owner() -> str:
    """`user@machine`, which labels every container of a run."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{os.uname().nodename}"


class Identity(TypedDict):
    """What `plan` needs to know of who launches what and when."""

    run_id: str
    owner: str
    version: str
    started: str
    launch: str


def identity(run_id: str) -> Identity:
    """What tells a launch from all others: for `plan`."""
    return {
        "run_id": run_id,
        "owner": owner(),
        "version": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "launch": secrets.token_hex(4),
    }
