"""How late ranks were is kept at each look at a run that is followed and goes on: from the answers that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.insight.asking.look import Look
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.slow.lateness import LEAST_S, LEAST_SHARE, lateness
from distui.runs.series.late import keep_lateness

MOST_S = 60.0
"""Seconds of a run for which one look stands at the most; a later one stands for what comes."""


async def keep_late(attempt: Attempt, seen: Look) -> None:
    """Keep what one look tells, where the ranks go on and clocks are known well enough."""
    if seen.explanation.kind == "moving":
        clocks = {host: attempt.tracker.clock_of(host) for host in {one.host for one in seen.ranks}}
        await asyncio.to_thread(_keep, attempt, with_clocks(seen.ranks, clocks))


def _keep(attempt: Attempt, ranks: Sequence[RankSeen]) -> None:
    """In a thread: a large run has many collectives, and its file may have megabytes."""
    found = lateness(ranks)
    if found.usual and found.doubt <= max(2 * LEAST_S, LEAST_SHARE * found.every):
        keep_lateness(
            attempt.run.stored.series_dir, attempt.clock(), min(MOST_S, found.every * found.steps), found.usual
        )


def with_clocks(ranks: Sequence[RankSeen], clocks: Mapping[str, tuple[float, float] | None]) -> tuple[RankSeen, ...]:
    """With what pings have told of each host's clock, which is more than one look does."""
    known = {host: clock for host, clock in clocks.items() if clock is not None}
    return tuple(
        replace(one, ahead=known[one.host][0], doubt=known[one.host][1]) if one.host in known else one for one in ranks
    )
