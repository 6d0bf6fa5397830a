"""What a run said of each of its steps, by the step and not by the second: two runs that learn the same have equal
curves, however fast each of them is and whenever somebody looked.

A row is of one step, later of so many that the file stays small: 2, 4, 8 and so on, which begin at the same steps in
all runs. Where a row begins is its place: epoch and step as one number, since steps may begin anew in each epoch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from distui.runs.series.level import LaterVersion, Level, LevelFile, LevelView, is_moment
from distui.runs.series.measure import EPOCH
from distui.runs.series.values import OpenRow, Row, Series, start_of
from distui.runs.state.progress import COUNTS

STEPS = Level("steps", 1, 1600)
OF_EPOCH = 1 << 26
"""No epoch has more steps than that."""


class StepCurve:
    """Writes what the leading rank says of its steps. Never raises."""

    def __init__(self, folder: Path) -> None:
        self._file = LevelFile(folder, STEPS, last=True)
        self._row: OpenRow | None = None
        self._opened = False
        self._refused = False
        """Whether a later distui has written here, or a step is none: then nothing is."""

    def put(self, values: Mapping[str, float]) -> None:
        """What was said of a step. A run that begins anew at an earlier one goes on there."""
        place = place_of(values.get("step", math.nan), values.get(EPOCH, 0.0))
        figures = [(Series(name), value) for name, value in values.items() if name not in COUNTS or name == EPOCH]
        if place is None or self._refused:
            return
        start, width = start_of(place, self._width()), self._width()
        row = self._row
        if row is None or (row.start, row.width) != (start, width):
            self.flush()
            row = self._row = OpenRow(start, width)
        for series, value in figures:
            row.put(series, value)
        row.at_step(values["step"], values["step"])

    def _width(self) -> float:
        """How many steps are in a row by now."""
        if not self._opened:
            self._opened = True
            try:
                self._file.open()
            except LaterVersion:
                self._refused = True
            except OSError:
                pass
        return self._file.widest

    def flush(self) -> None:
        """Write what there is so far of the steps that come now."""
        row, self._row = self._row, None
        if row is not None and not self._refused:
            with contextlib.suppress(OSError):  # on a full disk these steps are missing
                self._file.append(row.row())


def place_of(step: float, epoch: float) -> float | None:
    """Where a step is among all of them, as one number; None for what is no step."""
    if not (math.isfinite(step) and math.isfinite(epoch) and step >= 0 and epoch >= 0):
        return None
    if epoch and step >= OF_EPOCH:
        return None
    place = epoch * OF_EPOCH + step
    return place if is_moment(place) else None


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
    found: dict[float, OpenRow] = {}
    width = max([width, *(row.width for row in rows)])
    for row in rows:
        start = start_of(row.start, width)
        found.setdefault(start, OpenRow(start, width)).take(row)
    return [found[start].row() for start in sorted(found)]
