"""`distui wait`: until a run has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from distui.cli import console as consoles
from distui.cli import runs, settings, wiring
from distui.cli.options import RUN, verb
from distui.cli.results import Promise
from distui.cli.verbs.attach import ended_before
from distui.errors import ContactLost, ExitCode

if TYPE_CHECKING:
    from distui.cli.console import Console
    from distui.cli.settings import Settings
    from distui.session import Connector

POLL_SECONDS = 1.0

REST_SECONDS = 90.0
"""How long a run that has further attempts may show no life: its longest pause, and what a start takes."""


@verb("wait", outputs=("json", "ndjson"))
@click.argument("run", type=RUN)
@click.option("--for", "goal", type=click.Choice(["finished", "running"]), default="finished", help="[finished]")
@click.pass_context
def command(ctx: click.Context, run: str, goal: str) -> int:
    """Wait until a run has ended, and exit as it did; --for running: until all its ranks run.

    Your own run that nobody follows is taken up: its logs are read into this machine's folder, a failed rank stops
    the others, and it is cleaned up. Other runs are only watched. --timeout ends the wait with 124.
    """
    told = settings.of(ctx)
    out = consoles.of(told)
    promise = Promise(told, out, run)

    def work() -> int:
        place = runs.locate(told, run)
        promise.stored = place.stored
        return wiring.run_async(_wait(told, out, place, goal), limit=told.timeout)

    return promise.keep(work)


async def _wait(told: Settings, out: Console, place: runs.Place, goal: str) -> int:
    from distui.cli.attaching import adopt, take_up
    from distui.cli.follow import follow
    from distui.cli.launching import owner
    from distui.cli.printer import LogView, printer

    if place.stored is not None and place.stored.is_followed:
        return await _beside(out, place, goal)
    if (code := ended_before(out, place)) is not None:
        return code
    async with wiring.connected(told, place.hosts) as connector:
        live = await take_up(told, connector, place)
        mine = place.stored is not None and live.plan.owner == owner()
        if goal == "running" or not mine:
            return await _watch(told, connector, out, place, goal)
        sink = printer(out, told.output, LogView(stdout=False), verbose=told.verbose)
        return (await follow(adopt(told, connector, place, live), sink, out, leash=False)).exit


async def _beside(out: Console, place: runs.Place, goal: str) -> int:
    """Another distui on this machine follows it: wait for what that one writes down."""
    from asyncio import sleep

    stored = place.stored
    assert stored is not None
    while stored.is_followed:
        if goal == "running" and _all_running(place):
            return ExitCode.OK
        await sleep(0.2)
    code = ended_before(out, place)
    if code is None:
        raise ContactLost(f"the distui that followed {place.run} is gone", hint=f"`distui attach {place.run}`")
    return code


def _all_running(place: runs.Place) -> bool:
    from distui.run.events import RankChanged, RunOpened
    from distui.run.recorded import stored_events

    assert place.stored is not None
    states: dict[int, str] = {}
    ranks = 0
    for event in stored_events(place.stored):
        if isinstance(event, RunOpened):
            states, ranks = {}, len(event.ranks)
        elif isinstance(event, RankChanged):
            states[event.rank] = event.state
    begun = [s for s in states.values() if s not in ("waiting", "starting")]
    return bool(ranks) and len(begun) == ranks


async def _watch(told: Settings, connector: Connector, out: Console, place: runs.Place, goal: str) -> int:
    """Ask the hosts again and again, and touch nothing."""
    from asyncio import sleep

    codes: dict[int, int | None] = {}
    more, over_since = False, 0.0
    while True:
        found, unreachable = await runs.find(told, connector, place)
        if found is not None:
            codes = {t.labels.task: t.exit for t in found.tasks}
            if goal == "running" and (found.state == "running" or found.state not in ("running", "partial")):
                return ExitCode.OK
        live = found is not None and found.state in ("running", "partial")
        if found is not None:
            more = found.attempt < found.attempts and (live or any(codes.values()))
        over_since = 0.0 if live or unreachable else over_since or time.monotonic()
        rests = more and time.monotonic() - over_since < REST_SECONDS  # another attempt may begin
        if over_since and not rests:
            if found is not None:
                return ExitCode.RANK_FAILED if any(codes.values()) else ExitCode.OK
            raise ContactLost(
                f"{place.run} was cleaned up by whoever follows it; how it ended is known there",
                hint="`distui ps -a` on the machine that started it",
            )
        await sleep(POLL_SECONDS)
