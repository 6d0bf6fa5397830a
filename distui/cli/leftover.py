"""Runs that have ended and of which only folders are left on hosts: their clean-up was killed. From any machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from distui.cli import runs
from distui.cli.settings import Settings

if TYPE_CHECKING:
    from distui.cli.attaching import Asked
    from distui.cli.console import Console
    from distui.runs.hosts.launches import Launch
    from distui.runs.lines.events import RunEnded
    from distui.runs.store.end_record import EndRecord
    from distui.session import Connector

POLL_SECONDS = 1.0

REST_SECONDS = 90.0
"""How long a run that has further attempts may show no life: its longest pause, and what a start takes."""

CLOCKS_SECONDS = 300.0
"""How far the clock of whoever recorded an end may be from ours."""


def hidden(settings: Settings, launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """The same, with values of secrets hidden in how their runs ended: whoever wrote it may not have known them."""
    return tuple(
        launch if launch.record is None else replace(launch, record=_hidden(settings, launch.record))
        for launch in launches
    )


def _hidden(settings: Settings, record: EndRecord) -> EndRecord:
    from distui.runs.store.masking import Mask

    mask = Mask.of(record.secrets, settings.environ)
    return replace(record, ended=mask.event(record.ended), ranks=tuple(mask.event(rank) for rank in record.ranks))


def chosen(settings: Settings, place: runs.Place, launches: Iterable[Launch]) -> Launch | None:
    """The folder that tells how the run ended: of the launch recorded here while that is not over, else of our own."""
    from distui.identity import owner
    from distui.runs.hosts.launches import ended
    from distui.runs.report.history import stored_row
    from distui.runs.store.end_record import launch_here

    stored = place.stored
    token = launch_here(stored) if stored is not None and not stored_row(stored).over else ""
    return ended(hidden(settings, launches), token=token, owner=owner())


async def look(
    settings: Settings, connector: Connector, place: runs.Place, unreachable: Collection[str]
) -> Launch | None:
    """A folder that tells how a run without tasks ended; None where what is recorded here tells more."""
    from distui.cli.attaching import open_here
    from distui.runs.hosts.launches import find_launches

    if open_here(place.stored, unreachable) is not None:
        return None
    up = [host for host in place.hosts if host.name not in unreachable]
    return chosen(settings, place, (await find_launches(connector, up, place.run)).all)


class Rest:
    """What is left of a run that may have another attempt: as it was last seen, until that should have begun."""

    def __init__(self) -> None:
        self._since = 0.0
        self.left: Launch | None = None

    async def look(
        self, settings: Settings, connector: Connector, place: runs.Place, unreachable: Collection[str]
    ) -> Launch | None:
        """As the module's; what was seen once is not forgotten when whoever has the run removes it."""
        self.left = await look(settings, connector, place, unreachable) or self.left
        if self.left is not None:
            self._since = self._since or time.monotonic()
        return self.left

    @property
    def goes_on(self) -> bool:
        """Whether another attempt may still begin."""
        record = self.left.record if self.left is not None else None
        if record is None or not record.may_go_on or time.time() - record.ended.at > REST_SECONDS + CLOCKS_SECONDS:
            return False
        return time.monotonic() < self._since + REST_SECONDS

    async def over(
        self, settings: Settings, connector: Connector, out: Console, place: runs.Place, asked: Asked
    ) -> tuple[Asked, Launch | None]:
        """What the hosts say that were `asked`, or that are asked again until another attempt has begun; and what is
        left of a run that has ended.
        """
        said = False
        while asked[0] is None and await self.look(settings, connector, place, asked[1]) is not None:
            if not self.goes_on:
                return asked, self.left
            if not said:
                out.say(f"distui: an attempt of {place.run} has failed; waiting whether another begins", "dim")
            said = True
            await asyncio.sleep(POLL_SECONDS)
            asked = await runs.find(settings, connector, place)
        return asked, None


def not_reached(place: runs.Place, left: Launch, unreachable: Collection[str]) -> tuple[str, ...]:
    """Hosts that did not answer and may have something of the run: its own, where its ranks tell which they are."""
    own = {rank.host for rank in left.record.ranks} if left.record is not None else set()
    known = own and own <= {host.name for host in place.hosts}
    return tuple(host for host in unreachable if not known or host in own)


async def tell(settings: Settings, out: Console, left: Launch, leftovers: tuple[str, ...] = ()) -> RunEnded:
    """Show how the run ended that is only left as a folder."""
    assert left.record is not None
    return await tell_record(settings, out, left.run, left.record, leftovers)


async def tell_record(
    settings: Settings, out: Console, run: str, record: EndRecord, leftovers: tuple[str, ...] = ()
) -> RunEnded:
    """Show how a run ended, with its ranks and first failure, as whoever follows it to its end is shown it."""
    from distui.cli.printer import LogView, printer
    from distui.runs.lines.events import Event, FailureFound, RunOpened
    from distui.runs.lines.text import safe
    from distui.runs.state.reducer import RunState, apply

    record = _hidden(settings, record)
    by = f", as recorded by {safe(record.by)[:100]}" if record.by else ""
    out.say(f"distui: {run} has ended: {record.ended.outcome}{by}; its logs are where it was followed")
    end, now = replace(record.ended, log_dir="", leftovers=leftovers), time.time()
    hosts = {rank.rank: rank.host for rank in record.ranks}
    opened = RunOpened(now, run, "", "", None, hosts, {}, end.attempt, adopted=True, attempts=end.attempts)
    said: list[Event] = [replace(rank, at=now) for rank in record.ranks]
    said += [FailureFound(now, end.failure)] if end.failure is not None else []
    state = apply(RunState(), opened)
    for event in (*said, end):
        state = apply(state, event)
    sink = printer(out, settings.output, LogView(stdout=False), verbose=settings.verbose)
    await sink.feed(said, state)
    await sink.finish(end, state)
    return end


async def clean_up(
    settings: Settings,
    connector: Connector,
    out: Console,
    place: runs.Place,
    left: Launch,
    unreachable: Mapping[str, object],
) -> RunEnded:
    """Remove what is left of it, and show how it ended."""
    from distui.cli.sweeping import sweep_run

    _, whole = await sweep_run(connector, out, place.run, place.hosts, (left.token,), spare=unreachable)
    missed = not_reached(place, left, unreachable)
    may = tuple(f"{host}: not reached, may still have something of the run" for host in missed)
    rest = () if whole else (f"not all of it could be removed: `distui stop {place.run}` tries again",)
    return await tell(settings, out, left, (*may, *rest))
