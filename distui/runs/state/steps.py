"""How far ranks are: their steps, how often those come, and who is behind. Pure.

A step is what a rank's last line says that matches the job's `progress`; where an epoch counts from zero again, epochs
come first. How long a step takes is taken from one report to the next: a program that prints every hundredth step
reports every hundred steps, and is not late in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from distui.frozen import frozen
from distui.runs.lines.events import RankStep
from distui.runs.state.pages import Pages

STEPS = 5
"""So many usual times without a report are too many, and so many reports behind the first rank is too far."""
LEARN = 0.25
"""How much of what is usual comes from the newest report."""
MOST = 4.0
"""A report that took so many times the usual (a checkpoint, an evaluation) counts as no more than that."""


@frozen
class Pace:
    """One rank: its last step, and from how many steps and seconds to the next report it usually takes."""

    last: RankStep
    seconds: float | None = None
    steps: float | None = None

    @property
    def place(self) -> tuple[float, float]:
        """What ranks are ordered by: epoch, then step."""
        return self.last.epoch if self.last.epoch is not None else 0.0, self.last.step

    def then(self, new: RankStep) -> Pace:
        """After another report. One that says the same again is none; a step before the last one begins again."""
        old = self.last
        if (new.step, new.epoch) == (old.step, old.epoch):
            return self
        seconds, steps = new.at - old.at, new.step - old.step
        if steps <= 0 or seconds < 0:
            return Pace(new, self.seconds, self.steps)
        return Pace(new, _learnt(self.seconds, seconds), _learnt(self.steps, steps))


def _learnt(usual: float | None, new: float) -> float:
    return new if usual is None else usual + LEARN * (min(new, MOST * usual) - usual)


def taken(known: Pages[Pace], news: Iterable[RankStep]) -> Pages[Pace]:
    """What is known of the ranks after these reports."""
    for step in news:
        before = known.get(step.rank)
        known = known.with_entry(step.rank, Pace(step) if before is None else before.then(step))
    return known


def first(paces: Iterable[Pace]) -> Pace | None:
    """The rank that is furthest, of several the one that was there first; None without any."""
    return max(paces, key=lambda pace: (pace.place, -pace.last.at), default=None)


def lags(paces: Mapping[int, Pace]) -> dict[int, int]:
    """Rank -> steps behind the first one, at least: of ranks in an epoch before nobody knows how many it had."""
    front = first(paces.values())
    if front is None:
        return {}
    return {rank: _lag(pace, front) for rank, pace in paces.items()}


def _lag(pace: Pace, front: Pace) -> int:
    steps = front.last.step - pace.last.step
    if pace.last.epoch != front.last.epoch and steps <= 0:
        return max(1, round(front.last.step))
    return round(max(0.0, steps))


def behind(paces: Mapping[int, Pace], *, standing: bool = False) -> frozenset[int]:
    """Ranks that are too far behind the first one; none where that is so of half of them or more.

    Where the run stands still (`standing`), others wait for whoever is behind, by however little, also where that is
    one of two, or one host of two. Not all ranks stop at the same step then: who is no further behind than the others
    are apart is one of those who wait.
    """
    most = (len(paces) + standing - 1) // 2
    far = far_behind(paces)
    if far and len(far) <= most:
        return far
    return _apart(lags(paces), most) if standing else frozenset()


def _apart(lag: Mapping[int, int], most: int) -> frozenset[int]:
    """The ranks behind the widest gap, at most so many; of gaps that are equal, behind the last one."""
    found: frozenset[int] = frozenset()
    widest, furthest = 0, sorted(lag, key=lambda rank: (-lag[rank], rank))
    for count, (rank, ahead) in enumerate(pairwise(furthest), 1):
        if count <= most and lag[rank] - lag[ahead] > widest:
            found, widest = frozenset(furthest[:count]), lag[rank] - lag[ahead]
    return found


def far_behind(paces: Mapping[int, Pace]) -> frozenset[int]:
    """Ranks that are so many reports behind the first one that more is to come of them, however many they are."""
    far = STEPS * max((pace.steps for pace in paces.values() if pace.steps), default=1.0)
    return frozenset(rank for rank, lag in lags(paces).items() if lag > far)
