"""How late ranks were is kept of a run that is followed and goes on, once a minute: from the answers that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.insight.asking.look import Look
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.slow.lateness import LEAST_S, LEAST_SHARE, lateness
from distui.runs.series.late import keep_lateness


async def keep_late(attempt: Attempt, seen: Look) -> None:
    """Keep what one look tells, where the ranks go on and clocks are known well enough."""
    if seen.explanation.kind == "moving" and attempt.late.due(attempt.clock()):
        clocks = {host: attempt.tracker.clock_of(host) for host in {one.host for one in seen.ranks}}
        await asyncio.to_thread(_keep, attempt, with_clocks(seen.ranks, clocks))


def _keep(attempt: Attempt, ranks: Sequence[RankSeen]) -> None:
    """In a thread: a large run has many collectives, and its file may have megabytes."""
    kept = attempt.late
    if not kept.one.acquire(blocking=False):
        return
    try:
        found = lateness(ranks, since=kept.until)
        if found.usual and found.doubt <= max(2 * LEAST_S, LEAST_SHARE * found.every):
            seconds = min(found.every * found.steps, found.newest - kept.until)
            keep_lateness(attempt.run.stored.series_dir, found.newest, seconds, found.usual)
            kept.until = found.newest
    finally:
        kept.one.release()


def with_clocks(ranks: Sequence[RankSeen], clocks: Mapping[str, tuple[float, float] | None]) -> tuple[RankSeen, ...]:
    """With what pings have shown of each host's clock, which is more than one look does."""
    known = {host: clock for host, clock in clocks.items() if clock is not None}
    return tuple(
        replace(one, ahead=known[one.host][0], doubt=known[one.host][1]) if one.host in known else one for one in ranks
    )
