"""Step, loss and speed of a run, read out of one rank's log with the job's own pattern."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from distui.run.lines import safe, text_of
from tui.logs.buffer import LogBuffer

KEPT = 600
RECENT = 20
_NUMBER = re.compile(r"[-+]?(?:\d[\d_,]*\.?\d*(?:[eE][-+]?\d+)?|nan|inf)")


@dataclass(frozen=True, slots=True)
class Point:
    """One match: its named groups, as numbers where they are some, and when the line was said."""

    values: Mapping[str, float]
    words: Mapping[str, str]
    at: float | None


def number(text: str) -> float | None:
    """`18,240` and `2.104` as numbers; None for words."""
    return float(text.replace(",", "").replace("_", "")) if _NUMBER.fullmatch(text) else None


def point(pattern: re.Pattern[str], line: str, at: float | None) -> Point | None:
    """What a line says of the progress; None when the pattern is not in it."""
    match = pattern.search(line)
    if match is None:
        return None
    words = {name: text for name, text in match.groupdict().items() if text is not None}
    values = {name: value for name, text in words.items() if (value := number(text)) is not None}
    return Point(values, words, at)


class Progress:
    """Reads a log on from where it stopped. The last points are kept, for the plot and the speed."""

    def __init__(self, regex: str, buffer: LogBuffer) -> None:
        self.pattern = re.compile(regex)
        self.buffer = buffer
        self.points: deque[Point] = deque(maxlen=KEPT)
        self.stride = 1
        """Every how manieth match is kept: doubles when the store is full, so that the plot shows the whole run."""
        self._seen = 0
        self._offset = 0
        self._line = 0
        self._cuts = 0
        self.last: Point | None = None

    def grow(self, budget: float = 0.0) -> bool:
        """Read what is indexed and not read yet, for at most `budget` seconds. Whether more is to do."""
        if self._cuts != self.buffer.cuts:
            self.points.clear()
            self._seen, self._offset, self._line, self._cuts, self.stride = 0, 0, 0, self.buffer.cuts, 1
        until = time.perf_counter() + budget
        for _, data in self.buffer.slices(self._offset, self.buffer.whole):
            self._take(data)
            if time.perf_counter() >= until:
                return self._offset < self.buffer.whole
        return False

    def _take(self, data: bytes) -> None:
        lines = data.split(b"\n")[:-1]
        for i, line in enumerate(lines):
            found = point(self.pattern, safe(text_of(line[:4096])), None)
            if found is not None:
                self._keep(Point(found.values, found.words, self.buffer.times(self._line + i, 1)[0]))
        self._line += len(lines)
        self._offset += len(data)

    def _keep(self, found: Point) -> None:
        self.last = found
        if self._seen % self.stride == 0:
            if len(self.points) == KEPT:
                self.points = deque(list(self.points)[::2], maxlen=KEPT)
                self.stride *= 2
            self.points.append(found)
        self._seen += 1

    def value(self, name: str) -> float | None:
        """The newest value of a group."""
        return None if self.last is None else self.last.values.get(name)

    def series(self, name: str) -> list[float]:
        """The kept values of a group, oldest first."""
        return [p.values[name] for p in self.points if name in p.values]

    def seconds_per_step(self) -> float | None:
        """Time from step to step over the last points; None while that is not known."""
        timed = [(p.values["step"], p.at) for p in [*self.points][-RECENT:] if p.at is not None and "step" in p.values]
        if len(timed) < 2:
            return None
        (first, began), (last, ended) = timed[0], timed[-1]
        return (ended - began) / (last - first) if last > first and ended > began else None
