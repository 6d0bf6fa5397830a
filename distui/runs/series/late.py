"""How late ranks enter their collectives, each time that it was measured: a file of its own, since others than the
process that follows the run ask for it, too (`distui why`). Of a run of weeks older rows become wider.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from distui.files import lock_alone, make_private
from distui.runs.series.level import Level, LevelFile, Packed, is_moment
from distui.runs.series.values import NAN, Row, Series, bin_of

LATENESS = "late"
"""What its series are called, each of one rank."""
LATE = Level("late", 1, 1000)
TRIES, PAUSE_S = 20, 0.01
"""How often it is tried to write while somebody else does, and seconds in between."""
EVERY_S = 60.0
"""Whoever follows a run keeps no more than one row in so many seconds."""
BEHIND_S = 300.0
"""Seconds that a row may end before the one before it does: two look at one run, and each only now and then. Further
back, a clock was set back, and what was kept until then is of other steps.
"""


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
        if 0 <= now - self._tried < EVERY_S:
            return False
        if now < self._tried:  # our clock was set back: steps that come now are not later than those that are kept
            self.until = min(self.until, now)
        self._tried = now
        return True


def keep_lateness(folder: Path, at: float, seconds: float, late: Mapping[int, float]) -> None:
    """Keep by how many seconds each rank was late, as was seen within `seconds` up to a moment, as far as no row has
    those seconds already. Never raises.
    """
    if not late or not is_moment(at):
        return
    width = max(LATE.width, seconds)
    bins = {Series(LATENESS, rank): bin_of(value) for rank, value in late.items()}
    with contextlib.suppress(OSError):
        make_private(folder)
        with _alone(folder):
            file = LevelFile(folder, LATE, last=True)
            start = max(at - width, _known(file.open().rows, at))
            if at - start >= LATE.width / 2:
                file.append(Row(start, at - start, NAN, NAN, bins))


def _known(rows: Sequence[Packed], at: float) -> float:
    """When that ends which is kept already of the seconds before `at`: by the rows since a clock was set back."""
    known, newer = 0.0, at
    for row in reversed(rows):
        if row.end - newer > BEHIND_S:
            break
        if row.start < at:
            known = max(known, row.end)
        newer = row.end
    return known


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes here meanwhile, in this process or another. Raises BlockingIOError where somebody does so for
    long; where folders can't be locked (NFS) it is as if nobody did.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            lock_alone(handle, tries=TRIES, pause=PAUSE_S)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
