"""`distui attach`: follow a run that was started elsewhere, or detached."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from distui.amounts import duration
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing.printer import LogView, printer
from distui.cli.printing.ranks import refuse_unknown
from distui.cli.printing.results import Promise
from distui.cli.runs import opening
from distui.cli.runs.follow import follow
from distui.cli.runs.launching import exit_code
from distui.cli.runs.leftover import clean_up, tell
from distui.cli.settings import Settings
from distui.cluster.attach.following import GoesOn, Leftover, Over, follow_run, open_run
from distui.cluster.attach.places import RunLocation
from distui.config import Value
from distui.copies import copy_folder
from distui.facts.troubles import shared
from distui.runs.lines.events import RunEnded
from distui.session import Connector


def act(settings: Settings, out: Console, run: str, **flags: Any) -> int:
    """See `attach --help`."""
    if flags["view"]:
        settings = settings.with_flags(readonly=Value(value=True, origin="--view"))
    exit_first = bool(flags["exit_first"])
    promise = Promise(settings.output, out, run, settings=settings.cluster)
    view = LogView.of(flags)

    def work(place: RunLocation) -> int:
        promise.stored = place.stored
        return wiring.run_async(_attach(settings, out, place, view, exit_first=exit_first), limit=settings.timeout)

    def show(place: RunLocation) -> int:
        shown = opening.attach(settings, out, place, exit_first=exit_first)
        if isinstance(shown, int):
            return shown
        following = _left(settings, out, place, shown, exit_first=exit_first)
        return wiring.run_async(following, limit=settings.timeout)

    if opening.wanted(settings, headless=flags["headless"]):
        return settings.places.at(out.tell, run, show)
    return promise.keep(lambda: settings.places.at(out.tell, run, work))


async def _attach(settings: Settings, out: Console, place: RunLocation, view: LogView, *, exit_first: bool) -> int:
    """Follow it without the app."""
    async with wiring.connected(settings, place.hosts) as connector:
        run = await open_run(settings.cluster, connector, out.tell, place)
        if isinstance(run, Over):
            return tell_over(out, run)
        if isinstance(run, Leftover):
            return exit_code(await _end_of(settings, connector, out, place, run), exit_first=exit_first)
        for one in shared(run.live.unreachable if run.live is not None else {}):
            out.warn(f"distui: {one.message}", "yellow")
        refuse_unknown(view.ranks, range(run.plan.world_size))
        return exit_code(await _followed(settings, connector, out, place, view, run), exit_first=exit_first)


async def _followed(
    settings: Settings, connector: Connector, out: Console, place: RunLocation, view: LogView, run: GoesOn
) -> RunEnded:
    sink = printer(out, settings.output, view, verbose=settings.verbose)
    with contextlib.ExitStack() as kept:
        return await follow_run(
            settings.cluster,
            connector,
            place,
            run,
            lambda controller: follow(controller, sink, out, stop_on_exit=False),
            connect=partial(wiring.connected, settings),
            folder=lambda: kept.enter_context(copy_folder()),
        )


async def _left(settings: Settings, out: Console, place: RunLocation, left: Leftover, *, exit_first: bool) -> int:
    async with wiring.connected(settings, place.hosts) as connector:
        return exit_code(await _end_of(settings, connector, out, place, left), exit_first=exit_first)


async def _end_of(
    settings: Settings, connector: Connector, out: Console, place: RunLocation, left: Leftover
) -> RunEnded:
    """How the run ended of which only folders are left; they are removed, but for `--readonly`."""
    if settings["readonly"]:
        return await tell(settings, out, left.launch)
    return await clean_up(settings, connector, out, place, left.launch, left.unreachable)


def tell_over(out: Console, over: Over) -> int:
    """Say how a run ended that is recorded here; its exit code."""
    row = over.row
    assert row.exit is not None
    took = f" after {duration(row.took)}" if row.took is not None else ""
    out.say(f"distui: {row.run} has ended: {row.state}{took}; `distui logs {row.run}` prints its logs")
    return row.exit
