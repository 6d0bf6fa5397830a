"""`distui rm`: remove what an ended run left, on its hosts and here."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console, confirm, confirm_async
from distui.cli.printing.run_rows import each_named
from distui.cli.printing.sweeping import tell_swept
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.attach.live_run import Live
from distui.cluster.attach.removing import RemovedRun, remove_run
from distui.errors import ExitCode, UsageError
from distui.plan.labels import named_ranks
from distui.runs.report.history import stored_row
from distui.runs.store.end_record import end_here
from distui.runs.store.journal import Journal
from distui.runs.store.runs import StoredRun


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
        done = await remove_run(settings.cluster, connector, place, lambda live: _may_lose(settings, out, place, live))
    if done is None:
        return ExitCode.INTERRUPTED
    tell_swept(out, place.run, done.swept)
    if done.live is None:
        return _no_task(settings, out, place, done)
    for host, text in done.errors.items():
        out.warn(f"distui: {host}: {text}", "red")
    for text in done.leftovers:
        out.warn(f"distui: left: {text}", "yellow")
    if done.unreachable:
        out.warn(f"distui: not reached: {', '.join(done.unreachable)}", "red")
    if done.unreachable or not done.whole:
        return ExitCode.CONTACT_LOST
    out.say(f"distui: {place.run}: removed from {counted(len(done.live.plan.hosts), 'host')}")
    return ExitCode.OK


def _no_task(settings: Settings, out: Console, place: places.RunLocation, done: RemovedRun) -> int:
    """No task of the run was found. Raises NotFound, and ContactLost when there may be something on a host that did
    not answer.
    """
    nothing = not done.swept.hosts and done.whole
    if done.unreachable or (nothing and place.stored is None):
        places.there(settings.cluster, place, None, done.unreachable)
    if nothing:
        out.say(f"distui: {place.run}: nothing of it is on its hosts")
    return ExitCode.OK if done.whole else ExitCode.CONTACT_LOST


async def _may_lose(settings: Settings, out: Console, place: places.RunLocation, live: Live) -> bool:
    """Whether logs that were not read to their end here may go with their containers.

    Raises UsageError when there is nobody to ask.
    """
    ranks = [rank for task in (live.found.tasks if live.found is not None else ()) for rank in task.labels.ranks]
    if not ranks or place.is_complete:
        return True
    who = named_ranks(ranks)
    out.say(
        f"distui: `distui attach {place.run}` reads the log of {who} of {place.run}, which is not whole here",
        "yellow",
    )
    return await confirm_async(out, settings, f"Delete the log of {who} of {place.run}, unread?")
