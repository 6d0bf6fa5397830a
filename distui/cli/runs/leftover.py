"""Shows how a run ended of which only folders are left, and removes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from distui.cli.console import Console
from distui.cli.printing.printer import LogView, printer
from distui.cli.printing.sweeping import tell_swept
from distui.cli.settings import Settings
from distui.cluster.attach.leftover import hidden_in, not_reached
from distui.cluster.attach.places import RunLocation, say_if_slow
from distui.cluster.attach.sweeping import sweep_run
from distui.runs.hosts.claims.launches import Launch
from distui.runs.lines.events import Event, FailureFound, RunEnded, RunOpened
from distui.runs.lines.text import safe
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.end_record import EndRecord, launch_here
from distui.session import Connector


async def tell(settings: Settings, out: Console, left: Launch, leftovers: tuple[str, ...] = ()) -> RunEnded:
    """Show how the run ended that is only left as a folder."""
    assert left.record is not None
    return await tell_record(settings, out, left.run, left.record, leftovers)


async def tell_record(
    settings: Settings, out: Console, run: str, record: EndRecord, leftovers: tuple[str, ...] = ()
) -> RunEnded:
    """Show how a run ended, with its ranks and first failure, as whoever follows it to its end is shown it."""
    record = hidden_in(settings.cluster, record)
    by = f", as recorded by {safe(record.by)[:100]}" if record.by else ""
    out.say(f"distui: {run} has ended: {record.ended.outcome}{by}; {_logs(settings, run, record)}")
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


def _logs(settings: Settings, run: str, record: EndRecord) -> str:
    """Where its logs are, in words: here, where this launch of it was followed here."""
    stored = settings.cluster.store.get(run)
    here = stored is not None and launch_here(stored) == record.token
    return f"its logs are in {stored.log_dir}" if stored is not None and here else "its logs are where it was followed"


async def clean_up(
    settings: Settings,
    connector: Connector,
    out: Console,
    place: RunLocation,
    left: Launch,
    unreachable: Mapping[str, object],
) -> RunEnded:
    """Remove what is left of it, and show how it ended."""
    with say_if_slow(out.tell, place, removes=True):
        swept = await sweep_run(connector, place.run, place.hosts, (left.token,), spare=unreachable)
    tell_swept(out, place.run, swept)
    missed = not_reached(place, left, unreachable)
    may = tuple(f"{host}: not reached, may still have something of the run" for host in missed)
    rest = () if swept.whole else (f"not all of it could be removed: `distui stop {place.run}` tries again",)
    return await tell(settings, out, left, (*may, *rest))
