"""Measurements into rows of a second, rows into coarser ones, all of them into files. Never raises."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from distui.runs.series.level import LEVELS, LaterVersion, Level, LevelFile, is_moment
from distui.runs.series.values import OpenRow, Row, Series, start_of


class SeriesWriter:
    """Writes what a run measures into its folder. A clock that jumps begins another row, forwards or backwards.

    Coarse rows are made of finer ones that are in their file: whoever takes the run up later goes on where the files
    end, and what a crash loses is the row of that second. On a full disk rows of that time are missing.
    """

    def __init__(self, folder: Path, levels: tuple[Level, ...] = LEVELS) -> None:
        self._files = [LevelFile(folder, level, last=level is levels[-1]) for level in levels]
        self._open: list[OpenRow | None] = [None] * len(levels)
        self._ready = False
        self._refused = False
        """Whether a later distui has written here: then nothing is."""

    def put(self, at: float, figures: Iterable[tuple[Series, float]], step: float | None = None) -> None:
        """What was measured at a moment."""
        if self._refused or not is_moment(at):
            return
        row = self._row(0, at)
        for series, value in figures:
            row.put(series, value)
        if step is not None:
            row.at_step(step, step)

    def close(self) -> None:
        """Write what the last second has so far."""
        if (row := self._open[0]) is not None:
            self._open[0] = None
            self._write(0, row.row())

    def _row(self, number: int, at: float) -> OpenRow:
        """The row of a level that a moment is in; the one before is written."""
        width = self._files[number].width
        known, start = self._open[number], start_of(at, width)
        if known is not None and known.start == start:
            return known
        made = self._open[number] = OpenRow(start, width)
        if known is not None:
            self._write(number, known.row())
        return made

    def _write(self, number: int, row: Row) -> None:
        try:
            if not self._ready:
                self._take_up()
            if row.bins or row.last_step == row.last_step:
                self._files[number].append(row)
        except LaterVersion:
            self._refused = True
            return
        except OSError:
            pass  # a full disk: who follows the run says so, and coarser rows have it when there is room again
        if number + 1 < len(self._files):
            self._row(number + 1, row.start).take(row)

    def _take_up(self) -> None:
        """Go on where the files end: what the finer ones have of coarse rows that were not written yet."""
        contents = [file.open() for file in self._files]
        self._ready = True
        for number in range(len(contents) - 1, 0, -1):
            rows = contents[number].rows
            known = rows[-1].end if rows else float("-inf")
            for packed in contents[number - 1].rows:
                if packed.start >= known:
                    with contextlib.suppress(OSError):
                        self._row(number, packed.start).take(contents[number - 1].row(packed))
