"""What verbs that end or remove a run do about a launch of it that was killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distui.cli.console import Console

if TYPE_CHECKING:
    from distui.run.store import StoredRun
    from distui.session import Connector
    from distui.spec.inventory import Host


async def sweep_run(connector: Connector, out: Console, run: str, hosts: Sequence[Host], token: str) -> bool:
    """Remove what a killed launch left where none of its tasks runs; returns whether there was something."""
    from distui.run.sweep import sweep

    swept = await sweep(connector, hosts, run, token)
    if swept:
        out.say(f"distui: removed what a killed launch of {run} had left on {', '.join(swept)}")
    return bool(swept)


def recorded_token(stored: StoredRun) -> str:
    """The token of the launch that is recorded here."""
    from distui.plan.labels import task_from_labels
    from distui.run.folder import token_of

    tasks = (stored.read_plan() or {}).get("tasks") or [{}]
    return token_of(task_from_labels(tasks[0].get("labels") or {}))
