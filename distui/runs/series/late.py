"""How late ranks enter their collectives, each time that it was measured: a file of its own, since others than the
process that follows the run ask for it, too (`distui why`). Of a run of weeks older rows become wider.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Mapping
from pathlib import Path

from distui.runs.series.level import Level, LevelFile, is_moment
from distui.runs.series.values import NAN, Row, Series, bin_of

LATENESS = "late"
"""What its series are called, each of one rank."""
LATE = Level("late", 1, 1000)
EVERY_S = 60.0
"""Whoever follows a run keeps no more than one row in so many seconds."""


class LateKept:
    """What has been kept of a run that is followed: each step counts once, and one look is worked on at a time."""

    def __init__(self, began: float) -> None:
        """`began` is when the run began to be followed: earlier steps may be in the file already."""
        self.until = began
        """When the newest step began that is kept."""
        self.one = threading.Lock()
        """Held by whoever works out a row."""
        self._tried = -math.inf

    def due(self, now: float) -> bool:
        """Whether there may be another row."""
        if now - self._tried < EVERY_S:
            return False
        self._tried = now
        return True


def keep_lateness(folder: Path, at: float, seconds: float, late: Mapping[int, float]) -> None:
    """Keep by how many seconds each rank was late, as was seen within `seconds` up to a moment. Never raises."""
    if not late or not is_moment(at):
        return
    width = max(LATE.width, seconds)
    bins = {Series(LATENESS, rank): bin_of(value) for rank, value in late.items()}
    with contextlib.suppress(OSError):
        LevelFile(folder, LATE, last=True).append(Row(max(0.0, at - width), width, NAN, NAN, bins))
