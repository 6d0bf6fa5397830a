"""Runs that have ended and of which only folders are left on hosts: their clean-up was killed. From any machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace

from distui.cluster.attach import places
from distui.cluster.attach.places import Asked, RunLocation, open_here
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, NotFound
from distui.facts.host import Trouble
from distui.identity import owner
from distui.runs.hosts.claims.launches import Launch, ended, find_launches, under_way, whose
from distui.runs.hosts.discover import FoundRun
from distui.runs.lines.text import safe
from distui.runs.report.history import stored_row
from distui.runs.store.end_record import EndRecord, launch_here
from distui.session import Connector
from distui.spec.hosts.names import fold

POLL_SECONDS = 1.0

REST_SECONDS = 90.0
"""How long a run that has further attempts may show no life: its longest pause, and what a start takes."""

CLOCKS_SECONDS = 300.0
"""How far the clock of whoever recorded an end may be from ours."""


def hidden(settings: ClusterSettings, launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """The same, with values of secrets hidden in how their runs ended: whoever wrote it may not have known them."""
    return tuple(
        launch if launch.record is None else replace(launch, record=hidden_in(settings, launch.record))
        for launch in launches
    )


def hidden_in(settings: ClusterSettings, record: EndRecord) -> EndRecord:
    """The same of one record."""
    mask = mask_of(settings, record.secrets)
    return replace(record, ended=mask.event(record.ended), ranks=tuple(mask.event(rank) for rank in record.ranks))


def chosen(settings: ClusterSettings, place: RunLocation, launches: Iterable[Launch]) -> Launch | None:
    """The folder that tells how the run ended: of the launch recorded here while that is not over, else of our own."""
    stored = place.stored
    token = launch_here(stored) if stored is not None and not stored_row(stored).over else ""
    return ended(hidden(settings, launches), token=token, owner=owner())


async def look(
    settings: ClusterSettings, connector: Connector, place: RunLocation, unreachable: Collection[str]
) -> Launch | None:
    """A folder that tells how a run without tasks ended; None where what is recorded here tells more."""
    if open_here(place.stored, unreachable) is not None:
        return None
    up = [host for host in place.hosts if host.name not in unreachable]
    return chosen(settings, place, await find_launches(connector, up, place.run))


async def run_there(
    settings: ClusterSettings,
    connector: Connector,
    place: RunLocation,
    found: FoundRun | None,
    silent: Mapping[str, Trouble],
    *,
    disputed: bool = False,
) -> FoundRun:
    """As `places.there`; of a run that is just being started, and has no task yet, or that has ended and of which only
    a folder is left, NotFound says so, and OtherEngine of one whose tasks can't be listed from here.

    A run of which several hosts claim one task raises `places.Disputed`, unless also a `disputed` one is meant.
    """
    if found is None:
        up = [host for host in place.hosts if host.name not in silent]
        launches = await find_launches(connector, up, place.run)
        refuse_unlisted(place.run, launches)
        for one in under_way(launches, launch_here(place.stored)) if not silent else ():
            raise NotFound(
                f"{place.run} is being started by {whose(one)}: no rank of it is there yet",
                hint=f"ask again in a moment; `distui stop {place.run}` ends it, also where it was killed",
            )
        left = chosen(settings, place, launches)
        if left is not None and not not_reached(place, left, silent):  # else a host may still have its tasks
            raise _over(left)
    there = places.there(settings, place, found, silent)
    return there if disputed else places.undisputed(there)


def _over(left: Launch) -> NotFound:
    """That the run has no task any more, though it was not cleaned up to the end."""
    assert left.record is not None
    ended = left.record.ended
    if left.record.may_go_on and time.time() - ended.at < REST_SECONDS + CLOCKS_SECONDS:
        failed = f"attempt {ended.attempt} of {ended.attempts} of {left.run} has failed, and another may begin"
        return NotFound(failed, hint=f"ask again in a moment; `distui wait {left.run}` waits for its end")
    how = f"{left.run} has ended: {ended.outcome}, and its ranks were removed"
    hint = f"`distui show {left.run}` tells how it ended, `distui stop {left.run}` removes what is left on its hosts"
    return NotFound(f"{how}; its logs are where it was followed", hint=hint)


class OtherEngine(ContactLost):
    """The run has begun, and its hosts were asked for the tasks of another engine than it was started with."""

    def __init__(self, run: str, unlisted: Collection[Launch]) -> None:
        engines = " or ".join(sorted({f"`docker: {safe(one.engine)[:20]}`" for one in unlisted}))
        super().__init__(
            f"{run} was started with {engines}, and hosts.yaml here has another engine, which does not list it",
            hint=f"write {engines} into hosts.yaml for {safe(fold(dict.fromkeys(one.host for one in unlisted)))}",
        )


def refuse_unlisted(run: str, launches: Iterable[Launch]) -> None:
    """Raise OtherEngine where these folders tell of tasks that nobody can list from here."""
    if unlisted := [one for one in launches if one.unlisted]:
        raise OtherEngine(run, unlisted)


class Rest:
    """What is left of a run that may have another attempt: as it was last seen, until that should have begun."""

    def __init__(self) -> None:
        self._since = 0.0
        self.left: Launch | None = None

    async def look(
        self, settings: ClusterSettings, connector: Connector, place: RunLocation, unreachable: Collection[str]
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
        self,
        settings: ClusterSettings,
        connector: Connector,
        say: Callable[[str], None],
        place: RunLocation,
        asked: Asked,
        find: Callable[[Connector, RunLocation], Awaitable[Asked]] | None = None,
    ) -> tuple[Asked, Launch | None]:
        """What the hosts say that were `asked`, or that are asked again (by `find`, else `places.find`) until another
        attempt has begun; and what is left of a run that has ended.
        """
        said = False
        while asked[0] is None and await self.look(settings, connector, place, asked[1]) is not None:
            if not self.goes_on:
                return asked, self.left
            if not said:
                say(f"an attempt of {place.run} has failed; waiting whether another begins")
            said = True
            await asyncio.sleep(POLL_SECONDS)
            asked = await (find or places.find)(connector, place)
        return asked, None


def not_reached(place: RunLocation, left: Launch, unreachable: Collection[str]) -> tuple[str, ...]:
    """Hosts that did not answer and may have something of the run: its own, where its ranks tell which they are."""
    own = {rank.host for rank in left.record.ranks} if left.record is not None else set()
    known = own and own <= {host.name for host in place.hosts}
    return tuple(host for host in unreachable if not known or host in own)
