"""What the ranks of a run printed, wherever that is: in the files here, on its hosts, or what is left of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from distui.cluster.attach import places
from distui.cluster.attach.leftover import OtherEngine
from distui.cluster.attach.live_run import Live, attach
from distui.cluster.attach.places import RunLocation
from distui.cluster.hosts.connecting import Connect
from distui.cluster.logs import from_files, from_hosts
from distui.cluster.logs.sink import LogSink, Tell
from distui.cluster.logs.wanted import Wanted
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import NotFound, UsageError
from distui.plan.labels import named_ranks
from distui.runs.lines.events import Level
from distui.runs.store.held_folder import HeldFolder
from distui.runs.store.masking import stored_secrets
from distui.runs.store.runs import StoredRun
from distui.session import Connector


async def read_run(
    settings: ClusterSettings,
    connect: Connect,
    place: RunLocation,
    out: LogSink,
    tell: Tell,
    *,
    tell_plain: Callable[[str], None] | None = None,
    follow: bool = False,
    merge: bool = False,
) -> bool:
    """Write the wanted lines of a run into `out`, with `follow` until it is over; whether all of them could be read.

    `tell_plain` takes what is not hidden, in words, where that is not reported like everything else. With `merge` lines
    come in the order they were said. Raises NotFound, ContactLost when there may be something on a host that did not
    answer, NameTaken as `places.find`, and UsageError for ranks or lines that can't be had.
    """
    if place.is_complete and not out.wanted.stderr_only:
        assert place.stored is not None
        held = HeldFolder(place.stored)
        if follow and place.hosts and not place.stored.is_followed:  # what is followed is what lives under the name
            async with connect(place.hosts) as connector:
                await places.find(connector, place)
        good = await read_here(settings, place.stored, out, tell, follow=follow, merge=merge)
        return not (follow and _left_early(replace(place, stored=held.find()), out, tell)) and good
    async with connect(place.hosts) as connector:
        try:
            live = await attach(settings, connector, place)
        except (NotFound, OtherEngine):
            if place.stored is None:
                raise
            if out.wanted.stderr_only:
                raise UsageError(
                    f"the containers of {place.run} are gone, and its files here do not tell stderr from stdout",
                    hint="leave out --stderr",
                ) from None
            return await read_here(settings, place.stored, out, tell, merge=merge)  # it is all there is
        out.wanted.refuse_unknown({*_planned(live), *_unfound(live)})
        out.mask = mask_of(settings, live.plan.secret_names, place.stored)
        for words in out.mask.warnings:
            tell_plain(words) if tell_plain is not None else tell(words, "warning")
        return await _read_hosts(connector, live, out, tell, follow=follow, merge=merge)


async def read_here(
    settings: ClusterSettings,
    stored: StoredRun,
    out: LogSink,
    tell: Tell,
    *,
    follow: bool = False,
    merge: bool = False,
) -> bool:
    """The same from the files of a run, or of an earlier attempt, on this machine."""
    out.wanted.refuse_unknown(f.rank for f in from_files.rank_files(stored))
    out.mask = mask_of(settings, stored_secrets(stored))  # what was followed here was hidden by then
    troubles = await from_files.show(stored, out, follow=follow, merge=merge)
    for words in troubles:
        tell(words, "error")
    return not troubles


def _left_early(place: RunLocation, out: LogSink, tell: Tell) -> bool:
    """Say so where whoever followed the run here is gone before all that it prints was written."""
    early = not (out.closed or place.is_complete)
    if early and place.stored is None:
        tell(f"{place.run} was removed here: another run has its name", "warning")
    elif early and place.stored is not None and place.stored.run_id != place.run:
        words = "is not followed here any more: another run has its name, and its logs here"
        tell(f"{place.run} {words}, kept as {place.stored.run_id}, are not whole", "warning")
    elif early:
        words = "is not followed here any more, and its logs here are not whole"
        tell(f"{place.run} {words}: `distui logs -f {place.run}` reads on from its hosts", "warning")
    return early


async def _read_hosts(
    connector: Connector,
    live: Live,
    out: LogSink,
    tell: Tell,
    *,
    follow: bool,
    merge: bool,
) -> bool:
    """From the hosts of a run that is not followed here, and whose files here are not whole."""
    whole, live = live, _asked_for(live, out.wanted)
    for name in live.unreachable:
        tell(f"{name} did not answer; its ranks are missing here", "warning")
    if follow and merge:
        raise UsageError(
            f"{live.plan.run_id} is not followed on this machine, and -f gives its lines as they come, not in order",
            hint=f"leave out -f or --merge, or follow it here first: `distui attach {live.plan.run_id}`",
        )
    if follow:
        gone = _tell_unfound(whole, out, tell)
        good = await from_hosts.follow(connector, live, out, tell)
        _tell_next(live, out, tell)
        return out.closed or (good and not gone)
    stamps = bool(out.timestamps or out.wanted.until)
    good = await from_hosts.show(connector, live, out, partial(_say, tell, "warning"), stamps=stamps, merge=merge)
    good = not _tell_unfound(whole, out, tell) and good
    return good and not live.unreachable


def _asked_for(live: Live, wanted: Wanted) -> Live:
    """The run with those tasks alone whose lines are wanted: nobody fetches what the others say, or waits for them.

    A rank of which nobody knows where it is may be on any host that did not answer and of which nothing is known.
    """
    if wanted.ranks is None:
        return live
    plan = replace(live.plan, tasks=tuple(task for task in live.plan.tasks if any(map(wanted.rank, task.ranks))))
    hosts = set(plan.hosts)
    if not wanted.ranks <= {rank for task in plan.tasks for rank in task.ranks}:
        hosts |= live.unreachable.keys() - live.plan.hosts
    return replace(live, plan=plan, unreachable={h: why for h, why in live.unreachable.items() if h in hosts})


def _say(tell: Tell, level: Level, words: str) -> None:
    tell(words, level)


def _tell_unfound(live: Live, out: LogSink, tell: Tell) -> bool:
    """Say which ranks of a run that has ended, or that were asked for, are on no host, where only the hosts knew of
    them; whether there are.
    """
    unfound = _unfound(live) if out.wanted.ranks is not None or not live.runs else []
    if gone := [rank for rank in unfound if out.wanted.rank(rank)]:
        tell(f"nothing of {named_ranks(gone)} is on the hosts that answered", "warning")
    return bool(gone)


def _tell_next(live: Live, out: LogSink, tell: Tell) -> None:
    """Say that another attempt may come: one is followed, as it was found."""
    found = live.found
    if found is not None and found.attempt < found.attempts and not out.closed:
        which, again = f"attempt {found.attempt} of {found.attempts}", f"`distui logs -f {found.run}`"
        tell(f"that was {which}: if it failed, {again} shows the next one once that has begun", "info")


def _planned(live: Live) -> set[int]:
    return {rank for task in live.plan.tasks for rank in task.ranks}


def _unfound(live: Live) -> list[int]:
    """The run's ranks that no host that answered has, where only the hosts know of them."""
    planned = _planned(live)
    return [rank for rank in (live.found.unfound if live.found is not None else ()) if rank not in planned]
