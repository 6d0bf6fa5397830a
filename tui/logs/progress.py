"""The progress of a run read on from one rank's log file, slice by slice."""

from __future__ import annotations

import time
from collections.abc import Sequence

from distui.runs.lines.text import text_of
from distui.runs.state.progress import READ_CHARS, Point, Progress, only_saved
from distui.tui.logs.buffer import LogBuffer

LINES = 256
"""So many are read before it is looked whether there is time for more."""


class ProgressLog(Progress):
    """Reads a log on from where it stopped, into a `Progress`."""

    def __init__(self, regex: str, buffer: LogBuffer) -> None:
        super().__init__(regex)
        self.buffer = buffer
        self._offset = 0
        self._line = 0
        self._cuts = 0

    def grow(self, budget: float = 0.0) -> bool:
        """Read what is indexed and not read yet, for at most `budget` seconds. Whether more is to do."""
        if self._cuts != self.buffer.cuts:
            self.clear()
            self._offset, self._line, self._cuts = 0, 0, self.buffer.cuts
        until = time.perf_counter() + budget
        for _, data in self.buffer.slices(self._offset, self.buffer.whole):
            lines = data.split(b"\n")[:-1]
            for begin in range(0, len(lines), LINES):
                self._read(lines[begin : begin + LINES])
                if time.perf_counter() >= until:
                    return self._offset < self.buffer.whole
            if not lines:  # a part of a line
                self._offset += len(data)
                if time.perf_counter() >= until:
                    return self._offset < self.buffer.whole
        return False

    def _read(self, lines: Sequence[bytes]) -> None:
        found = list(self.each([text_of(line[:READ_CHARS]) for line in lines]))
        times = self.buffer.times(self._line, len(lines)) if found else []
        for i, one in found:
            if only_saved(one) and self.last is not None:
                continue  # it is no step without a loss
            self.take(Point(one.values, one.words, times[i]))
        self._line += len(lines)
        self._offset += sum(map(len, lines)) + len(lines)
