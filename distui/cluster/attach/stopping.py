"""Stopping a run that another distui of this machine follows: its ranks from here, the rest by that one."""

from __future__ import annotations

from collections.abc import Mapping

from distui.cluster.attach.live_run import Live
from distui.errors import CheckFailed
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.control.stopping import stop_found
from distui.runs.store.runs import StoredRun
from distui.session import Connector


@frozen
class StoppedBeside:
    """What became of the ranks of a run that somebody else follows."""

    unasked: str
    """Why whoever follows it could not be asked for a stop; empty when that was done."""
    failed: Mapping[str, str]
    """Hosts where ranks could not be stopped, and why."""


async def stop_beside(connector: Connector, stored: StoredRun, live: Live, grace: float | None) -> StoppedBeside:
    """Ask the distui here that follows the run for a stop, and stop its ranks, which that one drains and cleans up.

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
    report = await stop_found(connector, live.found, live.plan, who=owner(), grace=seconds, remove=False)
    unreached = {host: trouble.message for host, trouble in live.unreachable.items() if host in live.plan.hosts}
    return StoppedBeside(unasked, {**unreached, **report.errors})
