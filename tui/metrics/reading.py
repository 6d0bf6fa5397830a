"""What the plots show, read from the files of a run: as fine as the cells are, not finer."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, partial

from distui.frozen import frozen
from distui.runs.lines.events import Progressed
from distui.runs.series.late import LATENESS
from distui.runs.series.measure import EPOCH
from distui.runs.series.older import series_of
from distui.runs.series.ranks import LATE_S, said_by_several
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Folded, Row, Series
from distui.runs.store.runs import StoredRun
from distui.tui.plot.curve import Point, point, usual_gap


@frozen
class Readings:
    """What was measured in a part of the time. `points` are over all ranks or hosts: median, lowest, highest."""

    points: Mapping[str, Sequence[Point]]
    members: Mapping[str, Mapping[Series, Sequence[Point]]]
    """By rank or host, of the names that were asked for so."""
    steps: Sequence[tuple[float, float]]
    """(when, step), by time."""
    finest: float
    """Seconds that a point stands for at least, but for one of lateness."""
    names: tuple[str, ...] = ()
    """All that was measured, at any time."""
    span: tuple[float, float] | None = None
    epochs: Sequence[tuple[float, float]] = ()
    """(when, epoch), by time, of a job that tells it."""
    several: frozenset[str] = frozenset()
    """The names that several ranks say, each for itself."""
    said: Sequence[Row] = ()
    """What was said of each step, by the step; empty unless it was asked for, and of runs of an older distui."""
    late: float = 0.0
    """Seconds that a point of lateness stands for at least: the time between two looks at all ranks."""

    def finest_of(self, name: str) -> float:
        """Seconds that a point of a name stands for at least."""
        return max(self.finest, self.late) if name == LATENESS else self.finest

    def step_at(self, at: float) -> float | None:
        """The step that the run was at."""
        return _last(self.steps, at)

    def epoch_at(self, at: float) -> float | None:
        """The epoch that it was in."""
        return _last(self.epochs, at)

    def between(self, name: str, low: float, high: float) -> Sequence[Point]:
        """The points of a name between two moments."""
        points = self.points.get(name, ())
        return points[bisect_left(points, (low,)) : bisect_right(points, (high, math.inf))]


def _last(readings: Sequence[tuple[float, float]], at: float) -> float | None:
    place = bisect_right(readings, (at, math.inf))
    return readings[place - 1][1] if place else None


NOTHING = Readings({}, {}, (), 0.0)

_OfRanks = list[tuple[Point, float]]
"""Points over ranks, and how many seconds each stands for."""
_Members = dict[str, dict[Series, list[Point]]]
"""The points of each rank or host, by name."""


@frozen
class _Reach:
    """What is read: from when to when, and how fine."""

    low: float
    high: float
    finest: float


class _Over:
    """Rows over all ranks and hosts, as they come: their points, and where the run was."""

    def __init__(self, finest: float) -> None:
        self.points: dict[str, list[Point]] = {}
        self.steps: list[tuple[float, float]] = []
        self.epochs: list[tuple[float, float]] = []
        self.width = finest
        """Of the widest row, but for those of lateness: these are of the time between two looks at it."""
        self.late = 0.0
        """Of the widest one of these."""

    def take(self, row: Folded) -> None:
        at = row.middle
        for name, found in row.values.items():
            self.points.setdefault(name, []).append(Point(at, found.mid, found.low, found.high))
        epoch = row.values.get(EPOCH)
        if epoch is not None and epoch.high == epoch.high:
            self.epochs.append((row.start, epoch.high))
        if row.last_step == row.last_step:
            self.steps.append((row.start, row.last_step))
        if row.values.keys() == {LATENESS}:
            self.late = max(self.late, row.width)
        else:
            self.width = max(self.width, row.width)


def _members(reader: SeriesReader, wanted: Sequence[Series], reach: _Reach) -> _Members:
    found: _Members = {}
    rows = reader.rows(wanted, since=reach.low, until=reach.high, finest=reach.finest) if wanted else ()
    for row in rows:
        at = row.start + row.width / 2
        for series, one in row.bins.items():
            found.setdefault(series.name, {}).setdefault(series, []).append(Point(at, one.mean, one.low, one.high))
    for curve in (curve for curves in found.values() for curve in curves.values()):
        curve.sort()
    return found


class RunReader:
    """The series of one run, read on from where they were left. Blocks: for a thread, one call at a time."""

    def __init__(self, make: Callable[[], SeriesReader]) -> None:
        """What `make` opens, when it is first read: that may have to be made of an older run's figures."""
        self._make = make

    @classmethod
    def of(cls, stored: StoredRun) -> RunReader:
        """The series of a run that is recorded here, whichever distui followed it."""
        return cls(partial(series_of, stored))

    @cached_property
    def _reader(self) -> SeriesReader:
        return self._make()

    @cached_property
    def _ranks(self) -> SeriesReader:
        return self._reader.of_ranks()

    def span(self) -> tuple[float, float] | None:
        """From the first to the last measurement there is now."""
        self._reader.refresh()
        return self._reader.span

    def read(
        self,
        low: float = -math.inf,
        high: float = math.inf,
        *,
        finest: float = 0.0,
        each: Sequence[str] = (),
        ranks: bool = False,
    ) -> Readings:
        """All between two moments; of the names in `each` every rank and host, too.

        With `ranks` what several ranks said of their own progress stands for what the leading one said, where known.
        """
        self._reader.refresh()
        reach = _Reach(low, high, finest)
        found = self._over_all(reach)
        by_rank = self._series_of_ranks() if ranks else []
        several = frozenset(series.name for series in by_rank)
        if several:
            found.points |= self._over_ranks(several, found.points, reach)
        members = self._each(each, by_rank, reach)
        known = tuple(dict.fromkeys(series.name for series in self._reader.series if series.name != EPOCH))
        points = {name: sorted(curve) for name, curve in found.points.items()}
        steps, epochs = tuple(sorted(found.steps)), tuple(sorted(found.epochs))
        return Readings(points, members, steps, found.width, known, self._reader.span, epochs, several, late=found.late)

    def _over_all(self, reach: _Reach) -> _Over:
        """The rows as one value for each name."""
        found = _Over(reach.finest)
        for row in self._reader.folded(since=reach.low, until=reach.high, finest=reach.finest):
            found.take(row)
        return found

    def _series_of_ranks(self) -> list[Series]:
        """What more than one rank said of itself."""
        self._ranks.refresh()
        return said_by_several(self._ranks.series)

    def _over_ranks(
        self, names: Set[str], leading: Mapping[str, Sequence[Point]], reach: _Reach
    ) -> dict[str, list[Point]]:
        """What several ranks said, as one value for each name, and what the leading one said when they said nothing."""
        found: dict[str, _OfRanks] = {}
        for row in self._ranks.folded(since=reach.low, until=reach.high, finest=reach.finest):
            for name in names & row.values.keys():
                one = row.values[name]
                found.setdefault(name, []).append((Point(row.middle, one.mid, one.low, one.high), row.width))
        return {
            name: [one for one, _ in of_ranks] + _beside(of_ranks, leading.get(name, ()), reach.finest)
            for name, of_ranks in found.items()
        }

    def _each(self, names: Sequence[str], by_rank: Sequence[Series], reach: _Reach) -> _Members:
        """Each rank and host by itself, of these names; what several ranks said of themselves by what they said."""
        several = {series.name for series in by_rank}
        others = [series for series in self._reader.series if series.name in names and series.name not in several]
        found = _members(self._reader, others, reach)
        if own := [series for series in by_rank if series.name in names]:
            found |= _members(self._ranks, own, reach)
        return found

    def by_step(self) -> list[Row]:
        """What was said of each step."""
        return self._reader.of_steps()


def _beside(of_ranks: _OfRanks, leading: Sequence[Point], finest: float) -> list[Point]:
    """What the leading rank said when nothing is known of the others: while nobody followed the run, or an older distui
    did. The points of ranks hold as long as it usually takes until the next one.
    """
    slack = usual_gap([one for one, _ in of_ranks], max(LATE_S, 3 * finest))
    held: list[tuple[float, float]] = []
    for one, width in sorted(of_ranks):
        reach = slack + width / 2
        begin, end = one.x - reach, one.x + reach
        if held and begin <= held[-1][1]:
            held[-1] = held[-1][0], max(held[-1][1], end)
        else:
            held.append((begin, end))
    begins = [begin for begin, _ in held]
    return [one for one in leading if not ((at := bisect_right(begins, one.x)) and one.x <= held[at - 1][1])]


def with_last(readings: Readings, said: Progressed | None, *, goes_on: bool) -> Readings:
    """The same, and at its end what the run said of its progress last, as it said it.

    A row may have the mean of several steps, and is written seconds later. Of a run that has ended it is not known when
    that was said: it belongs to the row of its step. What several ranks say is of all of them.
    """
    step = said.values.get("step") if said is not None else None
    if said is None or step is None or not readings.steps or readings.span is None:
        return readings
    at, last = readings.steps[-1]
    newer = step != last and goes_on and said.at > at
    if step != last and not newer:
        return readings
    points = dict(readings.points)
    for name, curve in readings.points.items():
        value = said.values.get(name) if name not in readings.several else None
        if value is not None and newer:
            points[name] = [*curve, point(said.at, value)]
        elif value is not None and curve and curve[-1].x >= at:
            points[name] = [*curve[:-1], point(curve[-1].x, value)]
    if not newer:
        return replace(readings, points=points)
    epoch, (begin, end) = said.values.get(EPOCH), readings.span
    epochs = [*readings.epochs, (said.at, epoch)] if epoch is not None else readings.epochs
    steps = [*readings.steps, (said.at, step)]
    return replace(readings, points=points, steps=steps, epochs=epochs, span=(begin, max(end, said.at)))
