"""The progress of a run read on from one rank's log file, slice by slice."""

from __future__ import annotations

import time

from distui.runs.lines.text import text_of
from distui.runs.state.progress import READ_CHARS, Point, Progress, only_saved
from distui.tui.logs.buffer import LogBuffer


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
            self._read(data)
            if time.perf_counter() >= until:
                return self._offset < self.buffer.whole
        return False

    def _read(self, data: bytes) -> None:
        lines = data.split(b"\n")[:-1]
        for i, found in self.each([text_of(line[:READ_CHARS]) for line in lines]):
            if only_saved(found) and self.last is not None:
                continue  # it is no step without a loss
            self.take(Point(found.values, found.words, self.buffer.times(self._line + i, 1)[0]))
        self._line += len(lines)
        self._offset += len(data)
