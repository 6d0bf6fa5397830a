"""Measurements into rows of a second, rows into coarser ones, all of them into files. Never raises."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from distui.runs.series.level import LEVELS, LaterVersion, Level, LevelFile, is_moment
from distui.runs.series.values import OpenRow, Row, Series, start_of

HELD_S = 2.0
"""Rows are written so long after their second: a step is reported a second after it was said, between figures of now.
What is older has rows of its own.
"""


class SeriesWriter:
    """Writes what a run measures into its folder. A clock that jumps begins another row, forwards or backwards.

    What was said while nobody followed the run comes between figures of now: both have open rows of their own, or each
    of them would begin another one. Coarse rows are made of finer ones that are in their file: whoever takes the run up
    later goes on where the files end, and what a crash loses is the row of that second. On a full disk rows of that
    time are missing.
    """

    def __init__(self, folder: Path, levels: tuple[Level, ...] = LEVELS) -> None:
        self._files = [LevelFile(folder, level, last=level is levels[-1]) for level in levels]
        self._recent: list[OpenRow] = []
        """The finest rows that are not written yet, by time."""
        self._now: list[OpenRow | None] = [None] * len(levels)
        """Of each coarser level the one that grows."""
        self._late: list[OpenRow | None] = [None] * len(levels)
        self._newest = float("-inf")
        self._ready = False
        self._refused = False
        """Whether a later distui has written here: then nothing is."""

    def put(self, at: float, figures: Iterable[tuple[Series, float]], step: float | None = None) -> None:
        """What was measured at a moment."""
        if self._refused or not is_moment(at):
            return
        self._newest = max(self._newest, at)
        late = start_of(at, self._files[0].width) < self._oldest
        if step is not None and not late:
            self._settle()
        row = self._row(self._late, 0, at) if late else self._recent_row(at)
        for series, value in figures:
            row.put(series, value)
        if step is not None:
            row.at_step(step, step)

    def close(self) -> None:
        """Write what the last seconds have so far."""
        self._settle()
        self._write_recent(float("inf"))

    @property
    def _oldest(self) -> float:
        """When the first of the seconds began whose rows are not written yet."""
        return start_of(self._newest, self._files[0].width) - HELD_S

    def _recent_row(self, at: float) -> OpenRow:
        """The row of the second that a moment is in; those before the last ones are written."""
        self._write_recent(self._oldest)
        width = self._files[0].width
        start = start_of(at, width)
        for row in self._recent:
            if row.start == start:
                return row
        made = OpenRow(start, width)
        self._recent = sorted([*self._recent, made], key=lambda row: row.start)
        return made

    def _write_recent(self, until: float) -> None:
        """Write the rows that began before that."""
        while self._recent and self._recent[0].start < until:
            self._write(self._now, 0, self._recent.pop(0).row())

    def _settle(self) -> None:
        """Write all rows of what came late: no more of it is to come."""
        for number, row in enumerate(self._late):  # writing one may begin the next
            if row is None:
                continue
            self._late[number] = None
            if row.start == start_of(self._newest, self._files[number].width):
                self._before_now(number, row.row())
            else:
                self._write(self._late, number, row.row())

    def _before_now(self, number: int, late: Row) -> None:
        """What came late of the time of the open row is a part of it, its first one."""
        now = self._now[number]
        both = self._now[number] = OpenRow(late.start, late.width)
        both.take(late)
        if now is not None and now.start == late.start:
            both.take(now.row())
        elif now is not None:
            self._write(self._now, number, now.row())

    def _row(self, opened: list[OpenRow | None], number: int, at: float) -> OpenRow:
        """The row of a level that a moment is in; the one before is written."""
        width = self._files[number].width
        known, start = opened[number], start_of(at, width)
        if known is not None and known.start == start:
            return known
        if opened is self._late:
            self._settle_older(number)
        made = opened[number] = OpenRow(start, width)
        if known is not None:
            self._write(opened, number, known.row())
        return made

    def _settle_older(self, number: int) -> None:
        """Write a row that was read again and is over: rows of what came late go behind it, and whoever owns the run
        next goes on behind the last of them.
        """
        row = self._now[number]
        if row is not None and row.start < start_of(self._newest, self._files[number].width):
            self._now[number] = None
            self._write(self._now, number, row.row())

    def _write(self, opened: list[OpenRow | None], number: int, row: Row) -> None:
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
            self._row(opened, number + 1, row.start).take(row)

    def _take_up(self) -> None:
        """Go on where the files end: what the finer ones have of coarse rows that were not written yet."""
        contents = [file.open() for file in self._files]
        self._ready = True
        for number in range(len(contents) - 1, 0, -1):
            rows = contents[number].rows
            known = max((row.end for row in rows), default=float("-inf"))
            for packed in contents[number - 1].rows:
                if packed.start >= known:
                    with contextlib.suppress(OSError):
                        self._row(self._now, number, packed.start).take(contents[number - 1].row(packed))
