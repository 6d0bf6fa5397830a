"""Runs as verbs see them: what the hosts remember, joined with what is recorded on this machine."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distui.cli import wiring
from distui.cli.settings import Settings
from distui.errors import ContactLost, NotFound, UsageError

if TYPE_CHECKING:
    from distui.facts.host import Trouble
    from distui.run.discover import Found, FoundRun
    from distui.run.store import StoredRun
    from distui.session import Connector
    from distui.spec.inventory import Host

ENDED = frozenset({"succeeded", "failed", "stopped", "launch_failed"})
"""Outcomes after which nothing of a run lives."""

STATES = (
    "running", "partial", "retrying", "ended", "succeeded", "failed", "stopped", "launch_failed", "detached", "unknown",
    "gone",
)  # fmt: skip
"""Every word that may stand in a list's state column."""


LEAVING_SECONDS = 5.0
"""How long a distui that was told to leave may still hold its run: connections are closed and files written out."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run for lists and JSON. `started` is UTC seconds; `here` says that its logs are on this machine."""

    run: str
    job: str
    state: str
    hosts: tuple[str, ...]
    ranks: int
    owner: str = ""
    started: float | None = None
    took: float | None = None
    exit: int | None = None
    failure: Mapping[str, Any] | None = None
    here: bool = False
    log_dir: str = ""
    on_hosts: bool = False
    """Whether its tasks were just seen on a host, running or ended."""
    collected: bool = False
    """Whether its end is recorded here, with its logs."""
    attempt: int = 1
    attempts: int = 1

    @property
    def live(self) -> bool:
        """Whether something of it may still be on a host."""
        return self.on_hosts or (self.state != "gone" and self.state not in ENDED)


def row_json(row: RunRow) -> dict[str, Any]:
    """A run as an object of `distui/ps/v1`; keys are only ever added."""
    return {
        "run": row.run,
        "job": row.job,
        "state": row.state,
        "hosts": list(row.hosts),
        "ranks": row.ranks,
        "owner": row.owner,
        "started": row.started,
        "took_s": row.took,
        "exit": row.exit,
        "first_failure": row.failure,
        "here": row.here,
        "log_dir": row.log_dir or None,
        "attempt": row.attempt,
        "attempts": row.attempts,
    }


def stored_row(stored: StoredRun) -> RunRow:
    """A run as this machine recorded it."""
    from distui.run.summary import summary

    told = summary(stored)
    result = told["result"] or {}
    resting = told.get("paused") and is_followed(stored)
    return RunRow(
        run=stored.run_id,
        job=told["job"],
        state="retrying" if resting else str(result.get("state", "unknown")),
        hosts=tuple(told["hosts"]),
        ranks=told["ranks"],
        owner=told["owner"],
        started=_seconds(told["opened"]) if told["opened"] else None,
        took=result.get("took_s"),
        exit=result.get("exit"),
        failure=result.get("first_failure"),
        here=True,
        log_dir=str(stored.log_dir),
        attempt=told["attempt"],
        attempts=told["attempts"],
    )


def _seconds(stamp: str) -> float | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def found_row(found: FoundRun, recorded: RunRow | None) -> RunRow:
    """A run as its hosts tell it, with what is recorded here."""
    codes = [t.exit for t in found.tasks if t.exit]
    return RunRow(
        run=found.run,
        job=found.job,
        state=found.state,
        hosts=found.hosts,
        ranks=found.world_size,
        owner=found.owner,
        started=found.started,
        took=recorded.took if recorded and found.state not in ("running", "partial") else None,
        exit=None if found.state in ("running", "partial") else int(bool(codes)),
        failure=recorded.failure if recorded else None,
        here=recorded is not None,
        log_dir=recorded.log_dir if recorded else "",
        on_hosts=True,
        collected=recorded is not None and recorded.state in ENDED,
        attempt=found.attempt,
        attempts=found.attempts,
    )


def joined(found: Found, recorded: Sequence[RunRow]) -> list[RunRow]:
    """All runs, those on the hosts first; what a host that is out of reach may hold stays `unknown`."""
    by_name = {r.run: r for r in recorded}
    rows = [found_row(run, by_name.get(run.run)) for run in found.runs]
    seen = {r.run for r in rows}
    rest = [_settled(r, found.unreachable) for r in recorded if r.run not in seen]
    return [*rows, *rest]


def _settled(row: RunRow, unreachable: Mapping[str, Trouble]) -> RunRow:
    """A run without a result that none of its hosts knows any more is gone, unless a host did not answer."""
    from dataclasses import replace

    open_ended = row.state not in ENDED and row.state != "retrying"
    return replace(row, state="gone") if open_ended and not set(row.hosts) & set(unreachable) else row


def is_followed(stored: StoredRun) -> bool:
    """Whether a process of this machine follows the run now."""
    try:
        lock = os.open(stored.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


async def not_followed(stored: StoredRun) -> None:
    """Wait a moment for another distui of this machine to leave the run: that takes it a while.

    Raises UsageError when it still follows after LEAVING_SECONDS.
    """
    if not await let_go(stored, limit=LEAVING_SECONDS):
        raise UsageError(
            f"run {stored.run_id} is already followed on this machine",
            hint=f"`distui logs -f {stored.run_id}` shows its logs beside that",
        )


async def let_go(stored: StoredRun, *, limit: float) -> bool:
    """Wait until no process of this machine follows the run, at most `limit` seconds; False when one still does."""
    import asyncio

    until = time.monotonic() + limit
    while is_followed(stored):
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(0.1)
    return True


def check_name(run: str) -> None:
    """Raise UsageError for what can't be a run's name."""
    if not run or len(run) > 63 or "/" in run or run.startswith((".", "-")) or not run.isprintable():
        raise UsageError(f"'{run[:60]}' is not a run's name", hint="`distui ps -a` lists the runs")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run may be: its folder here, if any, and the hosts to ask."""

    run: str
    stored: StoredRun | None
    hosts: tuple[Host, ...]


def locate(told: Settings, run: str) -> Place:
    """Where to look for `run`: the hosts it was started on, or all of the inventory. Raises NotFound, UsageError."""
    check_name(run)
    stored = wiring.store(told).get(run)
    hosts = () if told.hosts or stored is None else wiring.saved_hosts(stored)
    if hosts:
        return Place(run, stored, hosts)
    found = wiring.maybe_inventory(told)
    if found is None:
        if stored is None:
            raise not_found(told, run, "no run of that name is recorded here, and there is no inventory to ask")
        return Place(run, stored, ())
    return Place(run, stored, wiring.hosts_of(found, wiring.picks(found, told)))


def not_found(told: Settings, run: str, why: str) -> NotFound:
    """The error for a run that nobody knows, with the nearest name recorded here."""
    from distui.spec.problems import did_you_mean, shown

    near = did_you_mean(run, [s.run_id for s in wiring.store(told).all() if s.run_id != run])
    return NotFound(f"there is no run {shown(run)}{near}: {why}", hint="`distui ps -a` lists the runs")


async def find(told: Settings, connector: Connector, place: Place) -> tuple[FoundRun | None, Mapping[str, Trouble]]:
    """The run on its hosts, None when no host that answered has it, and the hosts that did not answer."""
    from distui.run.discover import find_runs

    found = await find_runs(connector, place.hosts, run=place.run)
    return found.get(place.run), found.unreachable


async def need(told: Settings, connector: Connector, place: Place) -> tuple[FoundRun, Mapping[str, Trouble]]:
    """As `find`, but raises NotFound, or ContactLost when the run may be on a host that did not answer."""
    from distui.facts.troubles import shared

    run, unreachable = await find(told, connector, place)
    if run is not None:
        return run, unreachable
    if unreachable:
        lines = [f"  {one.message}" for one in shared(unreachable)]
        raise ContactLost(
            "\n".join([f"run {place.run} is on no host that answers; not reached:", *lines]),
            hint="try again when the hosts are back",
        )
    asked = len(place.hosts)
    where = f"none of {asked} hosts has it" if asked != 1 else f"{place.hosts[0].name} does not have it"
    raise not_found(told, place.run, where + (" any more" if place.stored is not None else ""))
