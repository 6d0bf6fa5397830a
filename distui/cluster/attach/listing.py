"""All runs there are, as rows: recorded here, on the hosts, being started, or left by a launch that was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from distui.cluster.attach.leftover import hidden
from distui.cluster.attach.places import Places
from distui.cluster.hosts.connecting import Connect
from distui.cluster.settings import ClusterSettings
from distui.frozen import frozen
from distui.identity import owner
from distui.runs.hosts.claims.launches import Launch, find_launches
from distui.runs.hosts.discover import FoundRuns, find_runs
from distui.runs.hosts.last_said import LastSaid, with_quiet
from distui.runs.report import history
from distui.runs.report.history import RunRow
from distui.runs.store.end_record import launch_here
from distui.session import Connector
from distui.spec.hosts.inventory import Host

_NOTHING: tuple[FoundRuns, tuple[Launch, ...]] = FoundRuns((), {}), ()


@frozen
class ListedRuns:
    """The runs there are, and who was asked for them."""

    rows: tuple[RunRow, ...]
    """Those that only a launch tells of, those with tasks on hosts, and what is recorded here besides."""
    found: FoundRuns
    """What the hosts say that have tasks, and why others did not answer."""
    asked: tuple[Host, ...]
    """All hosts that were asked."""


@frozen
class RecordedRuns:
    """The runs that are recorded here, and who is to be asked for others and for news of these."""

    rows: Sequence[RunRow]
    asked: tuple[Host, ...]


def recorded_runs(places: Places, hosts: Sequence[Host]) -> RecordedRuns:
    """To be asked are `hosts`, and those that runs without an end here were started on."""
    rows = _recorded(places.settings)
    without_end = (places.settings.store.get(row.run) for row in rows if not row.over)
    return RecordedRuns(rows, places.hosts_to_ask(hosts, filter(None, without_end)))


def unasked(places: Places, recorded: RecordedRuns) -> ListedRuns:
    """All runs where there is no host to ask: needs no event loop, whose import takes longer than all of this."""
    return ListedRuns(tuple(_joined(places, recorded.rows, *_NOTHING)), _NOTHING[0], ())


async def ask_runs(
    places: Places, recorded: RecordedRuns, connect: Connect, known: LastSaid | None = None
) -> ListedRuns:
    """What is recorded here, joined with what the hosts say. No connection is made where there is none to ask.

    Who asks again and again keeps what is `known` of runs that nobody follows.
    """
    found, launches = _NOTHING
    if recorded.asked:
        async with connect(recorded.asked) as connector:
            found, launches = await _find_all(connector, recorded, known)
    rows = await asyncio.to_thread(_joined, places, recorded.rows, found, launches)
    return ListedRuns(tuple(rows), found, recorded.asked)


async def list_runs(
    places: Places, hosts: Sequence[Host], connect: Connect, known: LastSaid | None = None
) -> ListedRuns:
    """Both, one after the other."""
    return await ask_runs(places, await asyncio.to_thread(recorded_runs, places, hosts), connect, known)


def _recorded(settings: ClusterSettings, before: Sequence[RunRow] = ()) -> list[RunRow]:
    """What is recorded now, the run that was started last first; what was over `before` is not read again."""
    over = {row.run: row for row in before if row.over}
    variables = settings.variables
    known = [(one, over.get(one.run_id) or history.shown_row(one, variables)) for one in settings.store.all()]
    known.sort(key=lambda pair: pair[0].changed if pair[1].started is None else pair[1].started, reverse=True)
    return [row for _, row in known]


async def _find_all(
    connector: Connector, recorded: RecordedRuns, known: LastSaid | None = None
) -> tuple[FoundRuns, tuple[Launch, ...]]:
    """Runs with tasks on these hosts, and folders of launches on those that answered. Hosts that have a run which
    nobody follows here are asked once more where it may be quiet: whether it is.
    """
    found = await find_runs(connector, recorded.asked, unseen=True)
    answered = [host for host in recorded.asked if host.name in found.answered]
    launches = await find_launches(connector, answered)
    followed = [row for row in recorded.rows if row.followed]
    unread = [run for run in found.runs if not any(history.is_of(run, row) for row in followed)]
    return await with_quiet(connector, answered, found, unread, known), launches


def _joined(places: Places, before: Sequence[RunRow], found: FoundRuns, launches: Sequence[Launch]) -> list[RunRow]:
    settings = places.settings
    recorded = _recorded(settings, before)  # one that ended while its hosts were asked is not gone
    stored = (settings.store.get(run) for run in {one.run for one in launches})
    here = {launch_here(one): one.is_followed for one in stored if one is not None}
    known = hidden(settings, launches)
    rows = history.joined(found, recorded, chosen=places.leaves_out)
    return history.with_launches(rows, known, here, answered=found.answered, owner=owner())
