"""Which steps of two runs are the same one: those of the same epoch, where steps begin again in each. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from distui.frozen import frozen
from distui.runs.series.steps import by_width, epoch_of
from distui.runs.series.values import Row, Series
from distui.tui.metrics.reading import Readings
from distui.tui.plot.curve import Point, nearest

Place = tuple[float, float]
"""Epoch and step; the epoch is 0 where steps go on through all of them."""
Said = Sequence[tuple[Place, Place, Point]]
"""First step, last step, and their value."""
NEAR = 3
"""So many rows before the last step of both they may have one in common, and that is compared."""


@frozen
class Steps:
    """How two runs count. `length` is that of an epoch in steps, None where steps go on from one to the next."""

    length: float | None = None
    first: float = 0.0
    """The first epoch of both."""
    epochs: bool = True
    """Whether the runs say which epoch it is; else one begins where the steps begin again."""

    def places(self, readings: Readings) -> list[tuple[float, Place]]:
        """When the run was at which step of which epoch, by time."""
        if self.length is None:
            return [(at, (0.0, step)) for at, step in readings.steps]
        return _by_reported_epoch(readings) if self.epochs else _passes(readings)

    def along(self, place: Place) -> float:
        """Where a place is on one axis of all steps."""
        epoch, step = place
        return step if self.length is None else (epoch - self.first) * self.length + step

    def words(self, place: Place, first: Place | None = None) -> str:
        """`step 1,200`, `epoch 2, step 40`; of all from the first one on `step 1,024..1,200`."""
        epoch, step = place
        begin = f"{first[1]:,.0f}.." if first is not None and first != place else ""
        words = f"step {begin}{step:,.0f}"
        return words if self.length is None else f"epoch {epoch:,.0f}, {words}"


def steps_of(*sides: Readings) -> Steps:
    """How these runs count, by what they did."""
    epochs = all(side.epochs for side in sides if side.steps)
    runs = [_by_reported_epoch(side) if epochs else _passes(side) for side in sides]
    if not any(b > a and b[1] < a[1] for run in runs for (_, a), (_, b) in pairwise(run)):
        return Steps()
    places = [place for run in runs for _, place in run]
    length = max(step for _, step in places) + _spacing(sides[0].steps)
    return Steps(length, min(epoch for epoch, _ in places), epochs)


def _by_reported_epoch(readings: Readings) -> list[tuple[float, Place]]:
    return [(at, (readings.epoch_at(at) or 0.0, step)) for at, step in readings.steps]


def _passes(readings: Readings) -> list[tuple[float, Place]]:
    """An epoch begins where the steps begin again, near the first one; a fall to elsewhere is a resumed run."""
    near = readings.steps[0][1] + _spacing(readings.steps) if readings.steps else 0.0
    found: list[tuple[float, Place]] = []
    epoch, before = 1.0, -math.inf
    for at, step in readings.steps:
        epoch += step < before and step <= near
        before = step
        found.append((at, (epoch, step)))
    return found


def _spacing(steps: Sequence[tuple[float, float]]) -> float:
    """How many steps there are from one that is reported to the next, usually."""
    apart = sorted(b - a for (_, a), (_, b) in pairwise(steps) if b > a)
    return apart[len(apart) // 2] if apart else 1.0


def placed_points(readings: Readings, name: str, steps: Steps) -> list[tuple[Place, Point]]:
    """The points of a name, each with where the run was, in the order of epochs and steps. Of steps that came again, as
    from a checkpoint, those that came last.
    """
    places, found, at = steps.places(readings), list[tuple[Place, Point]](), -1
    for point in readings.points.get(name, ()):
        while at + 1 < len(places) and places[at + 1][0] <= point.x:
            at += 1
        if at >= 0 and math.isfinite(point.mid):
            place = places[at][1]
            found.append((place, point._replace(x=steps.along(place))))
    return _newest(found, 3 * _spacing(readings.steps))


def _newest(said: Sequence[tuple[Place, Point]], near: float) -> list[tuple[Place, Point]]:
    """In the order of steps, without what was said before of steps that came again: of those that a value and the one
    before it, no further apart than is `near`, have between them. Where a run goes back nobody knows what comes.
    """
    found: list[tuple[Place, Point]] = []
    before = math.inf
    for one in said:
        x = one[1].x
        first = bisect_right(found, before, key=_along) if before < x <= before + near else None
        if first is None:
            first = bisect_right(found, x, key=_along) if x == before else bisect_left(found, x, key=_along)
        found[first : bisect_right(found, x, key=_along)] = [one]
        before = x
    return found


def _along(one: tuple[Place, Point]) -> float:
    return one[1].x


def said_points(old: Readings, new: Readings, name: str, steps: Steps) -> tuple[Said, Said] | None:
    """What both said of a name by the step, in rows of as many steps; None where one of them has none of it, or where
    only its order in time tells the epoch that a step is of.
    """
    if steps.length is not None and not steps.epochs:
        return None
    width = max((row.width for side in (old, new) for row in side.said), default=1.0)
    both = tuple(_said(side.said, width, name, steps) for side in (old, new))
    return (both[0], both[1]) if all(both) else None


def _said(rows: Sequence[Row], width: float, name: str, steps: Steps) -> Said:
    found = []
    for row in by_width(rows, width):
        one = row.bins.get(Series(name))
        if one is not None and math.isfinite(one.mean):
            epoch = epoch_of(row) if steps.length is not None else 0.0
            x = (steps.along((epoch, row.first_step)) + steps.along((epoch, row.last_step))) / 2
            found.append(((epoch, row.first_step), (epoch, row.last_step), Point(x, one.mean, one.low, one.high)))
    return sorted(found)


def same_said(old: Said, new: Said) -> tuple[Place, Place, float, float] | None:
    """The last steps that both said, all of them in one row: the first and the last of them, and the values of both."""
    theirs = {(first, last): point for first, last, point in new}
    return next(
        (
            (first, last, one.mid, theirs[first, last].mid)
            for first, last, one in reversed(old)
            if (first, last) in theirs
        ),
        None,
    )


@frozen
class Compared:
    """What two runs learned, along their steps: the curves have the values that are compared."""

    curves: tuple[Sequence[Point], Sequence[Point]]
    last: tuple[Place, Place, float, float] | None
    """The last steps of which both have a value, from the first one to the last, and both values."""


def compared(old: Readings, new: Readings, name: str, steps: Steps) -> Compared:
    """As it was said by the step where both kept that, else as they were at the end of each second.

    Steps of a row that both said are the very same; what both were at later counts where that row is more than a few
    behind: a run that was read many lines at once, as after nobody followed it, has not said each step of theirs.
    """
    said = said_points(old, new, name, steps)
    exact = same_said(*said) if said is not None else None
    seen = [placed_points(side, name, steps) for side in (old, new)]
    found = same_step(*seen)
    if said is not None and (found is None or (exact is not None and _near(said, found[0], exact[1], steps))):
        mine, theirs = ([point for *_, point in rows] for rows in said)
        return Compared((mine, theirs), exact)
    mine, theirs = ([point for _, point in points] for points in seen)
    return Compared((mine, theirs), (found[0], *found) if found is not None else None)


def _near(said: tuple[Said, Said], later: Place, exact: Place, steps: Steps) -> bool:
    """Whether a step is no more than a few rows behind one that both said."""
    apart = [gap for rows in said if (gap := _apart([(last, point) for _, last, point in rows])) < math.inf]
    return steps.along(later) - steps.along(exact) <= NEAR * max(apart, default=0.0)


def same_step(
    old: Sequence[tuple[Place, Point]], new: Sequence[tuple[Place, Point]]
) -> tuple[Place, float, float] | None:
    """The last step of which both have a value, and both values; None where they have no step in common.

    A value that is further away than is usual between two of its run is none of that step. The steps are those of the
    run that has fewer values; the other's is the nearest.
    """
    if not old or not new:
        return None
    fewer, other = sorted((old, new), key=lambda side: (-_apart(side), side[-1][0]))
    gap, mine, theirs = 3 * _apart(other), _by_epoch(fewer), _by_epoch(other)
    for place, one in reversed(fewer):
        found = nearest(theirs.get(place[0], ()), one.x)
        if found is None or nearest(mine[place[0]], found.x) != one:
            continue  # what is nearer to that one comes before
        if found.x == one.x or abs(found.x - one.x) <= gap < math.inf:
            return (place, one.mid, found.mid) if fewer is old else (place, found.mid, one.mid)
    return None


def _by_epoch(side: Sequence[tuple[Place, Point]]) -> dict[float, list[Point]]:
    found: dict[float, list[Point]] = {}
    for (epoch, _), point in side:
        found.setdefault(epoch, []).append(point)
    return found


def _apart(side: Sequence[tuple[Place, Point]]) -> float:
    """How many steps there usually are between two values of a run."""
    apart = sorted(q.x - p.x for (_, p), (_, q) in pairwise(side) if q.x > p.x)
    return apart[len(apart) // 2] if apart else math.inf
