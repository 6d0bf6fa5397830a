"""Removing what an ended run, or a launch of it that was killed, has left on its hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from distui.cluster.attach.leftover import refuse_unlisted
from distui.cluster.attach.live_run import Live, attach
from distui.cluster.attach.places import RunLocation, find
from distui.cluster.attach.sweeping import SweptRun, sweep_run
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, UsageError
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.control.onlooker import read_by
from distui.runs.control.stopping import stop_found
from distui.runs.hosts.claims.launches import find_launches, under_way, whose
from distui.runs.hosts.readers import reader_id
from distui.runs.store.end_record import launch_here
from distui.runs.store.runs import StoredRun
from distui.session import Connector


@frozen
class RemovedRun:
    """What became of what a run had left on its hosts."""

    live: Live | None
    """The run as it was found; None where no task of it was."""
    errors: Mapping[str, str]
    """Hosts where it could not be removed, and why."""
    leftovers: tuple[str, ...]
    """What is still there, in words."""
    swept: SweptRun
    """What became of its folders."""
    unreachable: Mapping[str, Trouble]
    """Hosts that did not answer."""

    @property
    def whole(self) -> bool:
        """Whether all of it is gone, as far as hosts answered."""
        return not (self.errors or self.leftovers) and self.swept.whole


async def remove_run(
    settings: ClusterSettings,
    connector: Connector,
    place: RunLocation,
    may_lose: Callable[[Live], Awaitable[bool]] | None = None,
) -> RemovedRun | None:
    """Remove what is left of a run on the hosts that answer; safe to repeat. None when `may_lose` says no.

    `may_lose` is asked before tasks of it are removed, with their logs. Raises UsageError for a run, or a launch of it,
    that is alive or that somebody reads, ContactLost where a host of it that is asked does not answer, NameTaken where
    what is recorded here is older than what the hosts have.
    """
    found, unreachable = await find(connector, place)
    if found is None:
        swept = await _sweep_launches(connector, place, unreachable)
        return RemovedRun(None, {}, (), swept, unreachable)
    live = await attach(settings, connector, place, (found, unreachable), disputed=True)
    if live.runs or any(task.running for task in found.others):
        raise UsageError(f"run {place.run} still runs", hint=f"`distui stop {place.run}` first")
    await _nobody_needs(settings, connector, place, live)
    if may_lose is not None and not await may_lose(live):
        return None
    report = await stop_found(connector, live.found, live.plan, who=owner(), grace=0, remove=True)
    swept = await sweep_run(connector, place.run, place.hosts, (live.token,), spare=unreachable)
    return RemovedRun(live, report.errors, report.leftovers, swept, live.unreachable)


async def _nobody_needs(settings: ClusterSettings, connector: Connector, place: RunLocation, live: Live) -> None:
    """Raise where ranks may live on a host that does not answer, or where somebody reads the run, or is to judge it:
    what goes now that one could not read.
    """
    run, plan = place.run, live.plan
    asked = [host.name for host in place.hosts if host.name in plan.hosts]
    silent = list(live.unreachable)
    stored = place.stored or StoredRun(settings.store.root / run)
    seen = await read_by(connector, plan, [name for name in asked if name not in silent], reader_id(stored))
    if silent := [*silent, *seen.unasked]:
        which = ",".join(name for name in asked if name not in silent)
        others = f"; `distui rm -H {which} {run}` removes what the others have" if which else ""
        message = f"{', '.join(silent)}: no answer; ranks of {run} may still run there, so nothing was removed"
        raise ContactLost(message, hint=f"try again when it is back{others}")
    if seen.count:
        who = " and ".join(sorted(seen.names)) or "somebody who waits for its end"
        hint = f"try again when that is done (one that was killed counts for a minute), or `distui stop {run}`"
        raise UsageError(f"run {run} is still read by {who}, so nothing was removed", hint=hint)


async def _sweep_launches(connector: Connector, place: RunLocation, unreachable: Mapping[str, Trouble]) -> SweptRun:
    """No task of the run was found: what launches left that were killed. Raises UsageError when one is under way, and
    OtherEngine where tasks of it may live that are not listed: they need its folders.
    """
    up = [host for host in place.hosts if host.name not in unreachable]
    launches = await find_launches(connector, up, place.run)
    refuse_unlisted(place.run, launches)
    recorded = launch_here(place.stored)
    if alive := under_way(launches, recorded):
        hint = f"`distui stop {place.run}` ends it, and removes what it left if it was killed"
        raise UsageError(f"run {place.run} is being started by {whose(alive[0])}", hint=hint)
    tokens = dict.fromkeys((recorded, *(one.token for one in launches)))
    return await sweep_run(connector, place.run, place.hosts, tokens, place.stored, spare=unreachable)
