"""Where a run keeps its files on a host."""

from __future__ import annotations

import re


def run_folder(home: str, host: str, run_id: str) -> str:
    """The run's private folder on a host; hosts may share a home or be one machine, so their names are in it."""
    safe = re.sub(r"[^A-Za-z0-9._@-]", "_", host)
    return f"{home.rstrip('/')}/.local/state/distui/hosts/{safe if safe.strip('.') else '_'}/{run_id}"
