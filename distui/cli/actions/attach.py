"""`distui attach`: follow a run that was started elsewhere, or detached."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

from distui.amounts import duration
from distui.cli import console as consoles
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
from distui.cluster.attach import places
from distui.cluster.attach.leftover import Rest
from distui.cluster.attach.places import Asked
from distui.cluster.attach.taking_up import Live, adopt, beside, owned_plan, reader_of, take_up
from distui.cluster.attach.taking_up import view as viewer
from distui.cluster.backend.backend_runs import Looked
from distui.config import Value
from distui.copies import copy_folder
from distui.errors import ContactLost, NotFound
from distui.facts.troubles import shared
from distui.runs.report import history
from distui.runs.store.runs import AlreadyFollowed
from distui.session import Connector


def act(settings: Settings, out: Console, run: str, **flags: Any) -> int:
    """See `attach --help`."""
    if flags["view"]:
        settings = settings.with_flags(readonly=Value(value=True, origin="--view"))
    exit_first = bool(flags["exit_first"])
    promise = Promise(settings.output, out, run)
    looked: Looked | None = None
    if opening.wanted(settings, headless=flags["headless"]):
        shown = settings.places.at(
            out.tell, run, lambda place: opening.attach(settings, out, place, exit_first=exit_first)
        )
        if isinstance(shown, int):
            return shown
        looked = shown  # what only folders tell of has nothing to look at: it is reported
    view = LogView.of(flags)

    def work(place: places.RunLocation, asked: Asked | None = None) -> int:
        promise.stored = place.stored
        work = _attach(settings, out, place, view, asked, exit_first=exit_first)
        return wiring.run_async(work, limit=settings.timeout)

    return promise.keep(lambda: work(*looked) if looked is not None else settings.places.at(out.tell, run, work))


async def _attach(
    settings: Settings,
    out: consoles.Console,
    place: places.RunLocation,
    view: LogView,
    asked: Asked | None = None,
    *,
    exit_first: bool,
) -> int:
    """Follow it without the app. What the hosts said, where they were `asked` just now, is not asked again."""
    reader = reader_of(settings.cluster, place)
    ends = place.stored is not None and place.stored.is_followed
    if (ends or not place.hosts) and (code := ended_before(out, place)) is not None:
        return code
    sink = printer(out, settings.output, view, verbose=settings.verbose)
    async with wiring.connected(settings, place.hosts) as connector:
        plan = owned_plan(place.stored)
        if plan is None:
            if place.stored is not None:
                await places.not_followed(place.stored)
            asked = asked or await places.find(connector, place)
            if (code := ended_before(out, place)) is not None:
                return code
            asked, left = await Rest().over(settings.cluster, connector, out.tell, place, asked)
            if left is not None and settings["readonly"]:
                return exit_code(await tell(settings, out, left), exit_first=exit_first)
            if left is not None:
                end = await clean_up(settings, connector, out, place, left, asked[1])
                return exit_code(end, exit_first=exit_first)
            live = await going_on(settings, connector, out, place, asked)
            if isinstance(live, int):
                return live
            for one in shared(live.unreachable):
                out.warn(f"distui: {one.message}", "yellow")
            plan = live.plan
            refuse_unknown(view.ranks, range(plan.world_size))
            if settings["readonly"]:
                with copy_folder() as folder:
                    looked = viewer(settings.cluster, connector, place, live, folder)
                    return exit_code(await follow(looked, sink, out, stop_on_exit=False), exit_first=exit_first)
            with contextlib.suppress(AlreadyFollowed):
                ended = await follow(adopt(settings.cluster, connector, place, live), sink, out, stop_on_exit=False)
                return exit_code(ended, exit_first=exit_first)
        refuse_unknown(view.ranks, range(plan.world_size))
        with contextlib.ExitStack() as kept:

            def copy() -> Path:
                return kept.enter_context(copy_folder())

            other = beside(settings.cluster, place, plan, reader, partial(wiring.connected, settings), copy)
            return exit_code(await follow(other, sink, out, stop_on_exit=False), exit_first=exit_first)


async def going_on(
    settings: Settings, connector: Connector, out: consoles.Console, place: places.RunLocation, asked: Asked
) -> Live | int:
    """The run as the hosts that were `asked` have it; its exit code when it has ended meanwhile, and that is recorded.

    Raises NotFound and ContactLost as `take_up` does.
    """
    try:
        return await take_up(settings.cluster, connector, place, asked)
    except (NotFound, ContactLost):
        if (code := ended_before(out, place)) is not None:  # whoever followed it here has just cleaned up
            return code
        raise


def ended_before(out: consoles.Console, place: places.RunLocation) -> int | None:
    """The exit code of a run that has ended and is recorded here; None when it may go on."""
    if place.stored is None:
        return None
    row = history.stored_row(place.stored)
    if not row.over or row.exit is None:
        return None
    took = f" after {duration(row.took)}" if row.took is not None else ""
    out.say(f"distui: {row.run} has ended: {row.state}{took}; `distui logs {row.run}` prints its logs")
    return row.exit
