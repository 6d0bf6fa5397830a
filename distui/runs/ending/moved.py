"""Ranks that say nothing for long may be at work all the same: that they begin collectives tells.

They are asked shortly before they would count as quiet, and their run as one that stands still, so that neither is said
of a job that says little. What is seen is an event: lists, the app and whoever reads the run later go by it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.events import RanksMoved
from distui.runs.state.reducer import RankState
from distui.runs.state.standstill import standstill
from distui.runs.watch.progress.silence import still_for

LEAD_S = 10.0
"""So many seconds before; a quarter of `stall_after` where that is less. Mostly ranks answer within one."""


def _lead(stall_after: float) -> float:
    return min(LEAD_S, stall_after / 4)


def overdue(attempt: Attempt, now: float) -> float | None:
    """When the last of the ranks that will soon be still for too long was known to go on, or their run was; None where
    none will be.
    """
    stands = _would_stand(attempt, now)
    signs = [] if stands is None else [stands]
    for rank, after in _watched(attempt):
        still = still_for(rank, now)
        if still is not None and still > after - _lead(after):
            signs.append(now - still)
    return max(signs, default=None)


async def tell_moved(attempt: Attempt, ranks: Sequence[RankSeen]) -> None:
    """Say which ranks have begun a collective since they said something, of those that would count as quiet next; all
    that have begun one where their run would count as one that stands still.
    """
    now = attempt.clock()
    all_of_them = _would_stand(attempt, now) is not None
    newest = _newest(ranks, now)
    moved = {}
    for rank, after in _watched(attempt):
        begun, still = newest.get(rank.rank), still_for(rank, now)
        if begun is None or still is None or now - begun > after - _lead(after):
            continue
        if (still > after / 2 and now - begun < still) or (all_of_them and begun > (rank.moved_at or 0.0)):
            moved[rank.rank] = begun
    if moved:
        await attempt.emit(RanksMoved(now, tuple(sorted(moved)), min(moved.values())))


def _would_stand(attempt: Attempt, now: float) -> float | None:
    """Since when the run will soon count as one that stands still."""
    state = replace(attempt.state, stalled=None, why=None)
    stands = standstill(attempt.plan, state, now + _lead(attempt.plan.stall_after))
    return stands.since if stands is not None else None


def _watched(attempt: Attempt) -> Iterator[tuple[RankState, float]]:
    """Ranks that live and are to say something now and then, and for how many seconds they may be silent."""
    for task in attempt.plan.tasks:
        after = attempt.plan.stall_after_of(task)
        for number in task.ranks if after else ():
            known = attempt.state.ranks.get(number)
            if known is not None and known.live:
                yield known, after


def _newest(ranks: Sequence[RankSeen], now: float) -> dict[int, float]:
    """Rank of the run -> when it began its newest collective, on our clock, which may have been set back since: what
    lies in the future counts as now.
    """
    found: dict[int, float] = {}
    for seen in ranks:
        begun = [one.began_ns for group in seen.groups.values() for one in (*group.recent, *group.direct)]
        if begun and not seen.ended:
            moment = min(now, max(begun) / 1e9 - seen.ahead)
            found[seen.run_rank] = max(moment, found.get(seen.run_rank, moment))
    return found
