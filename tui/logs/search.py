"""Search and filter in log files, in slices of a quarter of a megabyte: a long search never stalls the screen."""

from __future__ import annotations

import asyncio
import re
import time
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from distui.patterns import BadPattern, Searches, compiled
from distui.regex import regex
from distui.runs.lines.prefixes import parts
from distui.runs.lines.text import safe
from distui.runs.lines.traceback import HEAD, Fold, around, started
from distui.tui.logs.buffer import SLICE, LogBuffer
from distui.tui.logs.folds import Folds

Pattern = Searches[bytes]

TROUBLE = regex(
    rb"Traceback \(most recent|\b\w*(?:Error|Exception)\b|\b(?:ERROR|FATAL|CRITICAL|PANIC|panic)\b|CUDA error|"
    rb"NCCL WARN|[Oo]ut of memory|\bOOM\b|\b(?:loss|grad_norm|grad)[ =:]+[-+]?(?:nan|inf)\b|[Ww]atchdog|"
    rb"Segmentation fault|core dumped|\bSIG(?:SEGV|ABRT|BUS|FPE|KILL)\b"
)
"""What next and previous error stop at."""


def pattern_of(text: str) -> Pattern:
    """What was typed as a regular expression, or word by word when it is none. Lowercase matches both cases."""
    flags = re.MULTILINE | (0 if text != text.lower() else re.IGNORECASE)
    try:
        return compiled(text.encode(), flags)
    except BadPattern:
        return re.compile(re.escape(text.encode()), flags)


async def find(buffer: LogBuffer, pattern: Pattern, line: int, step: int) -> int | None:
    """The nearest line after (`step` 1) or before (-1) `line` that matches; None when there is none."""
    return await (_forward(buffer, pattern, line) if step > 0 else _backward(buffer, pattern, line))


async def _forward(buffer: LogBuffer, pattern: Pattern, line: int) -> int | None:
    for offset, data in buffer.slices(buffer.offset_of(line + 1), buffer.size):
        if match := pattern.search(data):
            return buffer.line_at(offset + match.start())
        await asyncio.sleep(0)
    return None


async def _backward(buffer: LogBuffer, pattern: Pattern, line: int) -> int | None:
    stop = buffer.offset_of(line)
    while stop > 0:
        start = max(0, stop - SLICE)
        data = buffer.read(start, stop - start)
        if start > 0:  # begin with a whole line, unless one line fills the slice
            cut = data.find(b"\n") + 1
            start, data = (start + cut, data[cut:]) if 0 < cut < len(data) else (start, data)
        if hits := [match.start() for match in pattern.finditer(data)]:
            return buffer.line_at(start + hits[-1])
        if start >= stop:
            return None
        stop = start
        await asyncio.sleep(0)
    return None


@dataclass(slots=True)
class LineFilter:
    """The numbers of the lines that match (or, `inverse`, do not), extended as lines come."""

    buffer: LogBuffer
    pattern: Pattern
    inverse: bool = False
    lines: array[int] = field(default_factory=lambda: array("Q"))
    _offset: int = 0
    _line: int = 0
    _cuts: int = 0

    def grow(self, budget: float = 0.0) -> bool:
        """Match what is indexed and not matched yet, for at most `budget` seconds. Whether more is to do."""
        if self._cuts != self.buffer.cuts:
            self.lines, self._offset, self._line, self._cuts = array("Q"), 0, 0, self.buffer.cuts
        until = time.perf_counter() + budget
        for _, data in self.buffer.slices(self._offset, self.buffer.whole):
            self._take(data)
            if time.perf_counter() >= until:
                return self._offset < self.buffer.whole
        return False

    def _take(self, data: bytes) -> None:
        ended = data.count(b"\n")
        hits = self._hits(data)
        if self.inverse:
            kept = set(hits)
            hits = [n for n in range(self._line, self._line + ended) if n not in kept]
        self.lines.extend(hits)
        self._line += ended
        self._offset += len(data)

    def _hits(self, data: bytes) -> list[int]:
        found: list[int] = []
        line, seen = self._line, 0
        for match in self.pattern.finditer(data):
            line += data.count(b"\n", seen, match.start())
            seen = match.start()
            if (not found or found[-1] != line) and seen < len(data):
                found.append(line)
        return found

    def open_line(self) -> int | None:
        """The line at the end that has no newline yet, when it belongs to the view."""
        if self.buffer.count == self.buffer.ended or self._offset < self.buffer.whole:
            return None
        text = b"".join(self.buffer.raw(self.buffer.ended, 1))
        return self.buffer.ended if (self.pattern.search(text) is None) == self.inverse else None


NEAR_LINES = 400
"""How far a traceback may reach to both sides of a line."""


def _traceback(texts: list[str], at: int) -> tuple[int, int]:
    """From the head of the traceback a line is in (else from the line) to the head of the next one.

    A group's is one with those in it. Where ranks write into one log, it is the one of the line's own rank.
    """
    rank = parts(texts[at]).rank.rstrip() if at < len(texts) else ""
    heads = {i: parts(text) for i, text in enumerate(texts) if HEAD in text}
    outer = [i for i, head in heads.items() if "|" not in head.margin]
    of_rank = [i for i in outer if heads[i].rank.rstrip() == rank]
    found = of_rank if any(i <= at for i in of_rank) else outer
    begin = max((i for i in found if i <= at), default=at)
    return begin, min((i for i in found if i > at), default=len(texts))


async def read_on(view: LogView) -> None:
    """Index and filter all that is in the file now, in slices."""
    more = True
    while more:
        more = view.grow(0.02)
        await asyncio.sleep(0)


class LogView:
    """The rows of a pane: all lines of a buffer, those since a moment, or those a filter leaves."""

    __slots__ = ("buffer", "filter", "floor", "folds", "own")

    def __init__(self, buffer: LogBuffer) -> None:
        self.buffer = buffer
        self.floor = 0
        """Lines before this number are not shown; the file keeps them."""
        self.filter: LineFilter | None = None
        self.folds = Folds()
        """What is folded away; a filter shows its lines all the same."""
        self.own: frozenset[str] = frozenset()
        """Installed packages that are one's own, as the tracebacks say that were looked at."""

    def grow(self, budget: float = 0.0) -> bool:
        """Take in what was added. Whether more is to do."""
        cuts = self.buffer.cuts
        more = self.buffer.grow(budget)
        if cuts != self.buffer.cuts:
            self.floor = 0
            self.folds.clear()
        return (self.filter is not None and self.filter.grow(budget)) or more

    def set_filter(self, text: str) -> None:
        """Show only lines that match; a leading `!` turns it round; nothing shows all."""
        inverse = text.startswith("!") and len(text) > 1
        self.filter = LineFilter(self.buffer, pattern_of(text[1:] if inverse else text), inverse) if text else None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        if self.filter is None:
            return max(0, self.buffer.count - self.floor - self.folds.hidden(self.floor))
        extra = self.filter.open_line()
        return len(self.filter.lines) - self._skipped + (extra is not None and extra >= self.floor)

    @property
    def _skipped(self) -> int:
        assert self.filter is not None
        return bisect_left(self.filter.lines, self.floor)

    def line(self, row: int) -> int:
        """The number of the line in a row."""
        if self.filter is None:
            return self.folds.line(row, self.floor)
        index = self._skipped + row
        return self.filter.lines[index] if index < len(self.filter.lines) else self.buffer.ended

    def mark(self, line: int) -> Fold | None:
        """The fold that a line stands for, when it is the mark of a closed one."""
        return self.folds.mark(line) if self.filter is None else None

    def fold_near(self, line: int) -> bool:
        """Fold what can be in the traceback around a line. Whether there was something new."""
        first, texts = self._near(line)
        begin, end = _traceback(texts, line - first)
        self.own |= started(texts[begin:end])
        return self.folds.add(around(texts[begin:end], first + begin, self.own))

    def toggle_near(self, line: int) -> bool:
        """Open all that is folded in the traceback around a line, its last line too, or fold it again."""
        first, texts = self._near(line)
        begin, end = _traceback(texts, line - first)
        return self.folds.toggle_between(first + begin, first + end)

    def _near(self, line: int) -> tuple[int, list[str]]:
        first = max(self.floor, line - NEAR_LINES)
        return first, [safe(text) for text in self.buffer.text(first, line - first + NEAR_LINES)]

    def row_of(self, line: int) -> int:
        """The row of a line, or of the next one that is shown."""
        if self.filter is None:
            return max(0, self.folds.row(min(line, self.buffer.count - 1), self.floor))
        return max(0, min(bisect_left(self.filter.lines, line) - self._skipped, self.rows - 1))
