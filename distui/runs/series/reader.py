"""What is kept of a run's measurements, read by anybody while it may still be written: never raises."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from distui.runs.series.late import LATE
from distui.runs.series.level import LEVELS, RANKS, Content, Level, LevelView, Packed
from distui.runs.series.steps import read_steps
from distui.runs.series.values import Folded, OpenRow, Row, Series, in_order, start_of

Chosen = tuple[Content, Packed]


class SeriesReader:
    """The files of a run as they are now; `refresh` reads on."""

    def __init__(self, folder: Path, levels: Sequence[Level] = LEVELS, *, late: bool = True) -> None:
        self._folder = folder
        self._views = [LevelView(folder, level) for level in levels]
        self._lates = [LevelView(folder, LATE)] if late else []

    def of_ranks(self) -> SeriesReader:
        """What each rank said of its own progress, in files of their own: its figures, step time and throughput."""
        found = SeriesReader(self._folder, RANKS, late=False)
        found.refresh()
        return found

    def of_steps(self) -> list[Row]:
        """The figures of the run by its steps (`runs/series/steps.py`), in the order in which they came."""
        return read_steps(self._folder)

    def refresh(self) -> bool:
        """Read what is new; whether anything was."""
        new = [view.refresh() for view in (*self._views, *self._lates)]
        return any(new)

    @property
    def series(self) -> tuple[Series, ...]:
        """All that was measured, by name, rank and host."""
        found = {series for view in (*self._views, *self._lates) for series in view.content.names.values()}
        return tuple(sorted(found, key=in_order))

    @property
    def span(self) -> tuple[float, float] | None:
        """When the first row begins and the last one ends; None where there is none."""
        rows = [*(row for _, row in self._chosen(0.0)), *(row for late in self._lates for row in late.content.rows)]
        return (min(row.start for row in rows), max(row.end for row in rows)) if rows else None

    def rows(
        self,
        wanted: Collection[Series] | None = None,
        *,
        since: float = -math.inf,
        until: float = math.inf,
        finest: float = 0.0,
    ) -> list[Row]:
        """Rows with the wanted series (all when None) between two moments, oldest first, each second in one only.

        As fine as they are kept; where rows of `finest` seconds are enough, no finer ones than needed are read.
        """
        keep = None if wanted is None else frozenset(wanted)
        rows = _joining([content.row(row, keep) for content, row in self._within(since, until, finest)])
        return [row for row in rows if row.bins or keep is None]

    def folded(self, *, since: float = -math.inf, until: float = math.inf, finest: float = 0.0) -> list[Folded]:
        """The same rows with one value for each name. A run attached to within a second has two of that one."""
        return [content.fold(row) for content, row in self._within(since, until, finest)]

    def _within(self, since: float, until: float, finest: float) -> list[Chosen]:
        """Rows between two moments, oldest first."""
        lates = [late.content for late in self._lates]
        chosen = [*self._chosen(finest), *((content, row) for content in lates for row in content.rows)]
        within = [(content, row) for content, row in chosen if row.end > since and row.start < until]
        within.sort(key=lambda pair: (pair[1].start, pair[1].width))
        return within

    def _chosen(self, finest: float) -> list[Chosen]:
        """The finest rows of every time that are needed."""
        found: list[Chosen] = []
        for content in (view.content for view in self._views):
            coarser = content.rows
            if found and coarser and coarser[-1].width <= finest:
                end = max(row.end for row in coarser)  # what is finer is only needed for what is not in here yet
                found = [(content, row) for row in coarser] + [pair for pair in found if pair[1].start >= end]
            elif coarser:
                found = _joined(content, found)
        return found


def _joined(content: Content, finer: Sequence[Chosen]) -> list[Chosen]:
    """Finer rows, and coarser ones for the time before them; a coarse one that they cover in part is whole.

    Not the oldest one: what a finer file drops is more than one coarse row, so that it has all of that one.
    """
    first = min((row.start for _, row in finer), default=math.inf)
    widths = {row.width for row in content.rows}
    covered = {(width, start_of(row.start, width)) for _, row in finer for width in widths}
    oldest = min(row.start for row in content.rows)
    partly = [row for row in content.rows if oldest < row.start < first < row.end]
    kept = [row for row in content.rows if (row.width, row.start) not in covered] + partly
    rest = [pair for pair in finer if not any(row.start <= pair[1].start < row.end for row in partly)]
    return [*((content, row) for row in kept), *rest]


def _joining(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows of the same seconds as one: a run that was attached to in the middle of one has two."""
    for _, same in groupby(rows, key=lambda row: (row.start, row.width)):
        first, *more = same
        if more:
            both = OpenRow(first.start, first.width)
            for row in (first, *more):
                both.take(row)
            first = both.row()
        yield first
