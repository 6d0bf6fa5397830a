"""Stopping a run that another distui of this machine follows: by that one, or its ranks from here where it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from distui.cluster.attach.live_run import Live
from distui.errors import CheckFailed
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.control.stopping import stop_found
from distui.runs.store.runs import StoredRun
from distui.session import Connector

TAKEN_SECONDS = 3.0
"""Within which whoever follows the run takes a stop, unless it hangs: it looks five times a second."""


@frozen
class StoppedBeside:
    """What became of the ranks of a run that somebody else follows."""

    unasked: str
    """Why whoever follows it could not be asked for a stop; empty when that was done."""
    failed: Mapping[str, str]
    """Hosts where ranks could not be stopped, and why."""


async def stop_beside(connector: Connector, stored: StoredRun, live: Live, grace: float | None) -> StoppedBeside:
    """Ask the distui here that follows the run for a stop, which stops, drains and cleans up.

    Its ranks are stopped from here where that one does not take the request, and to kill them: a second SIGTERM, right
    after the first one, tells many programs to leave at once, whatever they were saving.

    Raises CheckFailed when it can't be asked and nothing of the run was seen to run, so that nothing else ends it.
    """
    unasked = ""
    try:
        stored.ask_stop(grace)
    except CheckFailed as exc:
        if not live.runs:
            raise
        unasked = f"{exc.message}; its ranks are stopped all the same"
    seconds = live.plan.stop_grace if grace is None else grace
    unreached = {host: trouble.message for host, trouble in live.unreachable.items() if host in live.plan.hosts}
    if seconds > 0 and not unasked and await _taken(stored):
        return StoppedBeside(unasked, unreached)
    report = await stop_found(connector, live.found, live.plan, who=owner(), grace=seconds, remove=False)
    return StoppedBeside(unasked, {**unreached, **report.errors})


async def _taken(stored: StoredRun) -> bool:
    """Whether whoever follows the run has taken the stop."""
    until = time.monotonic() + TAKEN_SECONDS
    while stored.is_followed:
        if not stored.stop_waits:
            return True
        if time.monotonic() >= until:
            break
        await asyncio.sleep(0.05)
    return False
