"""Opening a run that is there already, for `attach`, `wait` and the app: what is there of it, and what follows it.

In: where the run is, a connector. Out: one of four answers, by the same rules for all who ask; of a run that goes on,
what follows it: its owner from now on, somebody who looks on, or who reads beside another distui of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from distui.cluster.attach import places
from distui.cluster.attach.beside import Beside
from distui.cluster.attach.leftover import Rest
from distui.cluster.attach.live_run import Live, adopt, attach, beside, reader_of, view
from distui.cluster.attach.places import RunLocation
from distui.cluster.hosts.connecting import Connect
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, NotFound, UsageError
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.control.beside import StoredReader
from distui.runs.control.controller import RunController
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.text import safe
from distui.runs.report.history import RunRow, stored_row
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import AlreadyFollowed, StoredRun
from distui.session import Connector

T = TypeVar("T")

LEAVING_SECONDS = 5.0
"""How long a distui that was asked to leave may still hold its run: connections are closed and files written out."""


@frozen
class Over:
    """The run has ended, and that is recorded here."""

    row: RunRow


@frozen
class Leftover:
    """The run has ended, and only folders of it are on hosts, which tell how: its clean-up was killed."""

    launch: Launch
    unreachable: Mapping[str, Trouble]
    """Hosts that did not answer, and may have something of it, too."""


class LeftBehind(NotFound):
    """There is nothing of the run to follow or to play again: only its folders on hosts are left."""

    def __init__(self, left: Leftover) -> None:
        record, run = left.launch.record, left.launch.run
        outcome = f": {record.ended.outcome}" if record is not None else ""
        by = f", as recorded by {safe(record.by)[:100]}" if record is not None and record.by else ""
        super().__init__(
            f"{run} has ended{outcome}{by}; its logs are where it was followed, only folders are left on its hosts",
            hint=f"`distui attach {run}` in a shell tells how its ranks ended, and removes them",
        )
        self.left = left


@frozen
class GoesOn:
    """The run may go on."""

    plan: RunPlan
    live: Live | None
    """As its hosts have it; None while another distui of this machine has it in its hands."""
    reader: StoredReader
    """Reads on from what was recorded here when the run was looked for."""


Opened = Over | Leftover | GoesOn


async def open_run(
    settings: ClusterSettings,
    connector: Connector,
    say: Callable[[str], None],
    place: RunLocation,
    *,
    rest: Rest | None = None,
    again: bool = False,
) -> Opened:
    """What there is of the run. Between two attempts of somebody elsewhere the next one is waited for, which is said.

    Who looks `again` for the same run gives the `rest` of before: a run that has its name by now is another. Raises
    NameTaken as `places.find`; NotFound, and ContactLost where it may be on a host that did not answer; UsageError
    where another distui of this machine has it and has recorded nothing that could be read.
    """
    reader = reader_of(settings, place)
    followed = place.stored is not None and place.stored.is_followed
    if (followed or not place.hosts) and (over := over_here(place)) is not None:
        return over
    if place.stored is not None and (plan := await _plan_of_owner(place.stored)) is not None:
        return GoesOn(plan, None, reader)
    find = places.find_again if again else places.find
    with places.say_if_slow(say, place):
        asked = await find(connector, place)
    if (over := over_here(place)) is not None:
        return over
    asked, left = await (rest or Rest()).over(settings, connector, say, place, asked, find)
    if left is not None:
        return Leftover(left, asked[1])
    try:
        with places.say_if_slow(say, place):
            live = await attach(settings, connector, place, asked)
    except (NotFound, ContactLost):
        if (over := over_here(place)) is not None:  # whoever followed it here has just cleaned up
            return over
        raise
    return GoesOn(live.plan, live, reader)


def over_here(place: RunLocation) -> Over | None:
    """A run that has ended and is recorded here; None when it may go on."""
    row = stored_row(place.stored) if place.stored is not None else None
    return Over(row) if row is not None and row.over and row.exit is not None else None


async def _plan_of_owner(stored: StoredRun) -> RunPlan | None:
    """The plan of a run that another distui of this machine has in its hands; None when none has.

    One that is leaving is waited for, and one that is just writing the next attempt's plan. Raises UsageError when
    there is none to read after LEAVING_SECONDS.
    """
    until = time.monotonic() + LEAVING_SECONDS
    while stored.is_followed:
        if (plan := stored_plan(stored)) is not None:
            return plan
        if time.monotonic() >= until:
            raise UsageError(
                f"run {stored.run_id} is already followed on this machine",
                hint=f"`distui logs -f {stored.run_id}` shows its logs beside that",
            )
        await asyncio.sleep(0.1)
    return None


async def follow_run(
    settings: ClusterSettings,
    connector: Connector,
    place: RunLocation,
    run: GoesOn,
    work: Callable[[RunController | Beside], Awaitable[T]],
    *,
    connect: Connect,
    folder: Callable[[], Path],
) -> T:
    """Do `work` with what follows the run from here: `connector` is used by it, unless it reads beside another distui.

    That one makes connections of its own (`connect`) when the other one leaves. Who may only look on (`--readonly`) has
    a new `folder` for what is read, which is to live as long as that is shown.
    """
    if run.live is not None and settings.readonly:
        return await work(view(settings, connector, place, run.live, folder()))
    if run.live is not None:
        with contextlib.suppress(AlreadyFollowed):  # another was faster
            return await work(adopt(settings, connector, place, run.live))
    return await work(beside(settings, place, run.plan, run.reader, connect, folder))
