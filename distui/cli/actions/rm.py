"""`distui rm`: remove what an ended run left, on its hosts and here."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace

from distui.cli import wiring
from distui.cli.console import Console, confirm, confirm_async
from distui.cli.run_rows import each_named
from distui.cli.settings import Settings
from distui.cli.sweeping import sweep_run
from distui.cluster.attach import places
from distui.cluster.attach.sweeping import under_way, whose
from distui.cluster.attach.taking_up import Live, take_up
from distui.errors import ExitCode, UsageError
from distui.facts.host import Trouble
from distui.identity import owner
from distui.plan.labels import format_ranks
from distui.runs.control.stopping import stop_found
from distui.runs.hosts.launches import find_launches
from distui.runs.report.history import stored_row
from distui.runs.store.end_record import end_here, launch_here
from distui.runs.store.journal import Journal
from distui.runs.store.runs import StoredRun
from distui.session import Connector


def act(settings: Settings, out: Console, names: tuple[str, ...], purge: bool) -> int:
    """See `rm --help`."""
    settings.refuse_readonly("rm")
    for name in names:
        places.check_name(name)
    if purge and not confirm(out, settings, f"Delete the logs of {', '.join(names)} on this machine?"):
        return ExitCode.INTERRUPTED

    def remove(name: str) -> int:
        return settings.places.at(out.tell, name, lambda place: _remove(settings, out, place, purge=purge))

    return each_named(out, names, remove)


def _remove(settings: Settings, out: Console, place: places.RunLocation, *, purge: bool) -> int:
    name = place.run
    if place.stored is not None and place.stored.is_followed:
        raise UsageError(f"run {name} is followed on this machine", hint=f"`distui stop {name}` first")
    code = (
        wiring.run_async(_remove_remote(settings, out, place), limit=settings.timeout) if place.hosts else ExitCode.OK
    )
    if not purge and place.stored is not None and code == ExitCode.OK:
        _note_cleaned(out, place.stored, [host.name for host in place.hosts])
    if purge and place.stored is not None and code == ExitCode.OK:
        settings.cluster.store.remove(name)
        out.say(f"distui: {name}: deleted here")
    return code


def _note_cleaned(out: Console, stored: StoredRun, asked: Collection[str]) -> None:
    """Record here that nothing of an ended run is left, when all its hosts were `asked`: whoever had it was killed."""
    row, record = stored_row(stored), end_here(stored)
    if record is None or row.over or not set(row.hosts) <= set(asked):
        return
    try:
        with stored.followed(), closing(Journal(stored)) as journal:
            journal.write([replace(record.ended, at=time.time())])
    except OSError as exc:
        out.warn(f"distui: {stored.path} can't be written: {exc.strerror}; `distui ps` lists it on", "yellow")


async def _remove_remote(settings: Settings, out: Console, place: places.RunLocation) -> int:
    async with wiring.connected(settings, place.hosts) as connector:
        found, unreachable = await places.find(connector, place)
        if found is None:
            return await _remove_launch(settings, connector, out, place, unreachable)
        live = await take_up(settings.cluster, connector, place, (found, unreachable))
        if live.runs:
            raise UsageError(f"run {place.run} still runs", hint=f"`distui stop {place.run}` first")
        if not await _may_lose(settings, out, place, live):
            return ExitCode.INTERRUPTED
        report = await stop_found(connector, live.found, live.plan, who=owner(), grace=0, remove=True)
        _, whole = await sweep_run(connector, out, place.run, place.hosts, (live.token,), spare=unreachable)
    for host, text in report.errors.items():
        out.warn(f"distui: {host}: {text}", "red")
    for text in report.leftovers:
        out.warn(f"distui: left: {text}", "yellow")
    if unreachable:
        out.warn(f"distui: not reached: {', '.join(unreachable)}", "red")
    if report.errors or report.leftovers or unreachable or not whole:
        return ExitCode.CONTACT_LOST
    out.say(f"distui: {place.run}: removed from {len(live.plan.hosts)} hosts")
    return ExitCode.OK


async def _may_lose(settings: Settings, out: Console, place: places.RunLocation, live: Live) -> bool:
    """Whether logs that were never read here may go with their containers.

    Raises UsageError when there is nobody to ask.
    """
    ranks = [rank for task in (live.found.tasks if live.found is not None else ()) for rank in task.labels.ranks]
    if not ranks or place.is_complete:
        return True
    who = f"rank{'s' * (len(ranks) != 1)} {format_ranks(tuple(sorted(ranks)))}"
    out.say(
        f"distui: `distui attach {place.run}` reads the log of {who} of {place.run}, which was never read here",
        "yellow",
    )
    return await confirm_async(out, settings, f"Delete the log of {who} of {place.run}, unread?")


async def _remove_launch(
    settings: Settings,
    connector: Connector,
    out: Console,
    place: places.RunLocation,
    unreachable: Mapping[str, Trouble],
) -> int:
    """No task of the run was found: remove what a launch that was killed has left.

    Raises UsageError for a launch that may be under way, NotFound, and ContactLost when there may be something on a
    host that did not answer.
    """
    up = [host for host in place.hosts if host.name not in unreachable]
    launches = (await find_launches(connector, up, place.run)).all
    recorded = launch_here(place.stored)
    if alive := under_way(launches, recorded):
        hint = f"`distui stop {place.run}` ends it, and removes what it left if it was killed"
        raise UsageError(f"run {place.run} is being started by {whose(alive[0])}", hint=hint)
    tokens = dict.fromkeys((recorded, *(one.token for one in launches)))
    swept, whole = await sweep_run(connector, out, place.run, place.hosts, tokens, place.stored, spare=unreachable)
    if unreachable or (not swept and whole and place.stored is None):
        places.there(settings.cluster, place, None, unreachable)
    if not swept and whole:
        out.say(f"distui: {place.run}: nothing of it is on its hosts")
    return ExitCode.OK if whole else ExitCode.CONTACT_LOST
