"""Stopping a run that another distui of this machine follows: by that one, or its ranks from here where it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from distui.cluster.attach.live_run import Live
from distui.cluster.attach.places import RunLocation, find_again
from distui.errors import CheckFailed
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.control.stopping import StopReport, stop_found
from distui.runs.hosts.discover import FoundRun
from distui.runs.store.runs import StoredRun
from distui.session import Connector

TAKEN_SECONDS = 3.0
"""Within which whoever follows the run takes a stop, unless it hangs: it looks five times a second."""

ACT_SECONDS = 10.0
"""Beyond the grace, within which the ranks of a stop that was taken have ended, unless that one hangs."""


@frozen
class StoppedBeside:
    """What became of the ranks of a run that somebody else follows."""

    unasked: str
    """Why whoever follows it could not be asked for a stop; empty when that was done."""
    failed: Mapping[str, str]
    """Hosts where ranks could not be stopped, and why."""
    taken: bool = False
    """Whether that one has taken the stop, and nothing was done from here."""


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
    unreached = {host: trouble.words(host) for host, trouble in live.unreachable.items() if host in live.plan.hosts}
    if seconds > 0 and not unasked and await _taken(stored):
        return StoppedBeside(unasked, unreached, taken=True)
    report = await _stop(connector, live, live.found, seconds)
    return StoppedBeside(unasked, {**unreached, **report.errors})


async def stop_rest(connector: Connector, place: RunLocation, live: Live, grace: float | None) -> Mapping[str, str]:
    """Stop the ranks from here that still run though whoever follows the run has taken the stop: it may hang, or have
    lost hosts that are reached from here. Nothing is removed: that one reads it. Hosts where it failed, and why.
    """
    found, _ = await find_again(connector, place)
    if found is None or not any(task.running for task in found.tasks):
        return {}
    return (await _stop(connector, live, found, live.plan.stop_grace if grace is None else grace)).errors


async def _stop(connector: Connector, live: Live, found: FoundRun | None, grace: float) -> StopReport:
    return await stop_found(connector, found, live.plan, who=owner(), grace=grace, remove=False)


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
