"""What a run said of each of its steps, by the step and not by the second: two runs that learn the same have equal
curves, however fast each of them is and whenever somebody looked.

A row is of one step, later of so many that the file stays small: 2, 4, 8 and so on, which begin at the same steps in
all runs. Where a row begins is its place: epoch and step as one number, since steps may begin again in each epoch.
A row is of one epoch: where there are more of them than rows, a row is of the last of some epochs, not of all.

Steps may come again: the workers of an attempt begin again from a checkpoint, an evaluation counts for itself. What was
said last of a step is believed. What is behind it stays until it is said again: nobody knows yet whether it will be.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from distui.files import read_bytes, write_private
from distui.runs.series.level import LaterVersion, Level, LevelFile, LevelView
from distui.runs.series.measure import EPOCH
from distui.runs.series.values import OpenRow, Row, Series, start_of
from distui.runs.state.progress import COUNTS

OF_EPOCH = 1 << 32
"""No epoch has more steps than that."""
FURTHEST = float(1 << 53)
"""Places are whole numbers, which are distinguished up to here: two million epochs."""
STEPS = Level("steps", 1, 1600, FURTHEST)
ATTEMPT = "steps-attempt"
"""The file beside it with the number of the attempt that said its last steps; none while that is the first one."""


class StepRow(OpenRow):
    """A row that still grows, of one epoch and of steps said once: the mean of two would be of no step of either."""

    def __init__(self, start: float, width: float) -> None:
        super().__init__(start, width)
        self._before: set[Series] = set()
        """Figures of which it has only what was said before its steps came again."""

    def take(self, row: Row) -> None:
        """All of a finer row that was written later: in the place of another epoch, and of the same steps."""
        if self._bins and epoch_of(row) != epoch_of(self.row()):
            self._bins, self._before, self._first = {}, set(), math.nan
        elif row.first_step <= self._last:
            self.again()
        for series in row.bins:
            self._forget(series)
        super().take(row)

    def put(self, series: Series, value: float) -> None:
        """What a step said, in the place of what was said before the steps came again."""
        self._forget(series)
        super().put(series, value)

    def says(self, values: Mapping[str, float]) -> bool:
        """Whether it has one of these figures."""
        return any(Series(name) in self._bins for name in values if name not in COUNTS)

    def again(self) -> None:
        """The steps in it are said again from here on: each figure until now counts while it is not."""
        self._before = {*self._bins}
        self._first = math.nan

    def _forget(self, series: Series) -> None:
        if series in self._before:
            self._before.discard(series)
            del self._bins[series]


class StepCurve:
    """Writes what the leading rank says of its steps. Never raises."""

    def __init__(self, folder: Path) -> None:
        self._file = LevelFile(folder, STEPS, last=True, opened=StepRow)
        self._whose = folder / ATTEMPT
        self._attempt = 1
        """The one that says steps from now on."""
        self._row: StepRow | None = None
        self._epoch = 0.0
        """The one that this row is of."""
        self._rank: int | None = None
        """Who said the last step."""
        self._again = False
        """Whether another attempt has begun, which has said nothing yet."""
        self._last = -math.inf
        """The place of the furthest step."""
        self._now = -math.inf
        """The place of the last one."""
        self._opened = False
        self._refused = False
        """Whether a later distui has written here: then nothing is."""

    def begin(self, attempt: int) -> None:
        """This attempt says steps now: of another one than until now nothing counts from where this one begins. Another
        process that follows the same attempt is none: what it reads first may be an evaluation, whose steps are not
        those that the run is at.
        """
        self._attempt, self._again = attempt, attempt != _attempt_of(self._whose)

    def put(self, values: Mapping[str, float], rank: int = 0) -> None:
        """What a rank said of a step. Another one than before, which leads from now on, is believed where both said
        one: what ranks learn may differ.
        """
        place = place_of(values.get("step", math.nan), values.get(EPOCH, 0.0))
        if place is None:
            return
        self._open()
        if self._again:
            self._take_over(place)
        again = place < self._now or (place == self._now and rank != self._rank)
        self._again, self._rank, self._last = False, rank, max(self._last, place)
        self._add(place, values, again=again)

    def _add(self, place: float, values: Mapping[str, float], *, again: bool) -> None:
        width = self._file.widest
        start, epoch, row = start_of(place, width), math.floor(values.get(EPOCH, 0.0)), self._row
        if row is None or (row.start, row.width) != (start, width):
            self.flush()
            row = self._row = StepRow(start, width)
        elif self._epoch != epoch:
            row = self._row = StepRow(start, width)  # so many of them are in one row that only the last is kept
        elif again and row.says(values):
            row.again()
        self._epoch, self._now = epoch, place
        for name, value in values.items():
            if name not in COUNTS:
                row.put(Series(name), value)
        if EPOCH in values:
            row.put(Series(EPOCH), epoch)
        row.at_step(values["step"], values["step"])

    def _open(self) -> None:
        """Go on behind what there is."""
        if self._opened:
            return
        self._opened = True
        try:
            content = self._file.open()
        except LaterVersion:
            self._refused = True
        except OSError:
            pass
        else:
            rows = map(content.row, content.rows)
            places = (place_of(row.last_step, epoch_of(row)) for row in rows)
            self._last = max((place for place in places if place is not None), default=-math.inf)

    def _take_over(self, place: float) -> None:
        """The first step of another attempt: whose steps these are is kept once what it gives up is gone."""
        if place <= self._last:
            self._drop(place)
        if not self._refused:
            with contextlib.suppress(OSError):  # then who takes the run up begins the curve again
                write_private(self._whose, b"%d\n" % self._attempt)

    def _drop(self, place: float) -> None:
        self.flush()
        self._last = -math.inf
        if not self._refused:
            with contextlib.suppress(OSError):
                self._file.drop(place)

    def flush(self) -> None:
        """Write what there is so far of the steps that come now."""
        row, self._row = self._row, None
        if row is not None and not self._refused:
            with contextlib.suppress(OSError):  # on a full disk these steps are missing
                self._file.append(row.row())


def _attempt_of(path: Path) -> int:
    """The attempt whose steps are kept; the first one where nothing says so."""
    try:
        return int(read_bytes(path, 32))
    except (OSError, ValueError):
        return 1


def place_of(step: float, epoch: float) -> float | None:
    """Where a step is among all of them, as one number; None for what is no step."""
    if not (math.isfinite(step) and math.isfinite(epoch) and step >= 0 and epoch >= 0):
        return None
    epoch //= 1  # some tell how much of it is done, too
    if epoch and step >= OF_EPOCH:
        return None
    place = epoch * OF_EPOCH + step
    return place if place < FURTHEST else None


def epoch_of(row: Row) -> float:
    """The epoch of the steps in a row; 0 where the job tells none."""
    found = row.bins.get(Series(EPOCH))
    return found.high if found is not None and found.high == found.high else 0.0


def read_steps(folder: Path) -> list[Row]:
    """All rows of a run, in the order in which they were written; none where nothing was."""
    view = LevelView(folder, STEPS)
    view.refresh()
    return [view.content.row(row) for row in view.content.rows]


def by_width(rows: Sequence[Row], width: float) -> list[Row]:
    """One row for each `width` steps, or for as many as the widest row has, by their places."""
    found: dict[float, StepRow] = {}
    width = max([width, *(row.width for row in rows)])
    for row in rows:
        start = start_of(row.start, width)
        found.setdefault(start, StepRow(start, width)).take(row)
    return [found[start].row() for start in sorted(found)]
