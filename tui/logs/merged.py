"""All ranks in one log: ordered by the time each line was said, on our clock, with what several ranks say folded.

A line waits half a second for earlier ones of other ranks; one that comes later is put where it belongs and marked.
Lines are one when they are equal but for numbers with a point or a unit (`loss 2.104`, `41.3k`) and for the number of
the rank that says them (`rank 3/16`). Other numbers may differ only from rank to rank (`worker 3 restarted`), and not
in errors; those that count (`step 18240`, `12/500`) never: `step 18240` is not folded with `step 18241`. Where numbers
differ a `*` stands for them. The texts stay in the files; what is kept of a line is its rank, number and time.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from distui import patterns
from distui.patterns import Searches
from distui.regex import regex
from distui.runs.lines.severity import severity
from distui.runs.lines.text import safe
from distui.runs.report.timeline import Placed, Source, Timeline
from distui.tui.logs.buffer import LogBuffer

FOLD_S = 2.0
"""Equal lines that are closer than this are one."""
LATE_S = 120.0
"""A rank that says a line this much after the others is late; beyond it says it again."""
FIRST_LINES = 40_000
"""Lines that are read first, of all ranks together, from their ends."""
KEPT_LINES = 200_000
"""Lines kept, at some 750 bytes each when none are folded."""
MUCH = 1 << 19
"""Bytes not indexed yet for which the merge waits: it begins near the end, which is not known before."""
CHUNK = 256
OPEN_LINES = 5000
"""Lines that others may still be folded with before old ones are sifted out."""

_VARYING = regex(r"(?<![\w.])[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?[a-zA-Z%]{0,2}|[kMGT]\b|(?:ms|us|s)\b)")
_PARTS = regex(r"([-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?)(.*)")
_COUNTS = (
    r"(?<![A-Za-z])(?i:(?:global[ _]?)?(?:steps?|iter(?:ation)?s?|it|epochs?|batch(?:es)?|updates?))[ =:#\[(]*"
    r"\d[\d,_]*(?:(?:\s*/\s*|\s+of\s+)\d[\d,_]*)?"
    r"|(?<![\w.])\d+\s*/\s*\d+(?![\w.])|^\s*\d+(?![\w.])"
)
"""Numbers that count: after their names, as a part of a total, at the beginning of a line."""
_NUMBERS = regex(rf"(?P<counts>{_COUNTS})|(?P<varies>{_VARYING.pattern})|(?P<whole>(?<![\w.])[-+]?\d+(?![\w.]))")


@dataclass(slots=True)
class Group:
    """One row: a line, and who said it when. Several members when it was folded."""

    at: float
    """When the first of them was said."""
    last: float
    text: str
    """As the first rank said it."""
    level: str = ""
    ranks: array[int] = field(default_factory=lambda: array("i"))
    lines: array[int] = field(default_factory=lambda: array("Q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    low: float = 0.0
    high: float = 0.0
    """Range of the first number with a point or a unit."""
    common: str = ""
    """The text without the number of the rank that says it, where that is another one."""
    differs: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Which of its numbers differ, in their order, and the lowest and highest of whole ones."""
    key: str = ""
    """What its lines have in common, which makes them one."""
    shift: float = 0.0
    """How much later than the others' this rank's line came, in seconds."""
    inserted: bool = False
    """Came after later lines were shown already."""

    @property
    def shown(self) -> str:
        """What stands for all members."""
        if len(self.ranks) == 1:
            return self.text
        return starred(self.common or self.text, self.differs, (self.low + self.high) / 2)

    def compare(self, text: str) -> None:
        """Note which numbers of another member's line differ from those of the first."""
        pairs = zip(numbers(self.common or self.text), numbers(text), strict=False)
        for at, (mine, other) in enumerate(pairs):
            if mine.group() != other.group():
                both = [float(m.group()) if m.lastgroup == "whole" else 0.0 for m in (mine, other)]
                low, high = self.differs.get(at, (both[0], both[0]))
                self.differs[at] = min(low, *both), max(high, *both)

    @property
    def members(self) -> int:
        """How many lines it stands for."""
        return len(self.ranks)

    def said_by(self) -> frozenset[int]:
        """The ranks that said it."""
        return frozenset(self.ranks)

    def spread(self) -> float:
        """Half the range of the first number that differs, 0 when all are equal."""
        return (self.high - self.low) / 2

    def each(self) -> Iterator[tuple[int, int, float]]:
        """(rank, line number, time) of every member, in time."""
        return iter(sorted(zip(self.ranks, self.lines, self.times, strict=True), key=itemgetter(2, 0)))


def numbers(text: str) -> list[re.Match[str]]:
    """The numbers of a line that may differ from rank to rank."""
    return [match for match in _NUMBERS.finditer(text) if match.lastgroup != "counts"]


def starred(text: str, differs: Collection[int], middle: float) -> str:
    """A line with `*` for its numbers that differ; the first with a point or a unit is the `middle` of its range."""
    kept, parts, seen = True, [], 0
    for at, match in enumerate(numbers(text)):
        first = kept and match.lastgroup == "varies"
        kept = kept and not first
        if at in differs:
            parts += [text[seen : match.start()], _written_as(match.group(), middle) if first else "*"]
            seen = match.end()
    return "".join(parts) + text[seen:]


def _written_as(text: str, value: float) -> str:
    """A value with the digits, exponent and unit of a number: 0.5 as `0.1438s` is `0.5000s`."""
    found = _PARTS.fullmatch(text)
    number, unit = found.groups() if found is not None else (text, "")
    mantissa, exponent, _ = number.lower().partition("e")
    return f"{value:.{len(mantissa.partition('.')[2])}{'e' if exponent else 'f'}}{unit}"


def loose_key(text: str) -> str:
    """What lines have in common whose numbers differ, but for those that count."""
    return _NUMBERS.sub(lambda match: match.group() if match.lastgroup == "counts" else "#", text)


def fold_key(text: str) -> tuple[str, float]:
    """What makes lines one, and the value of the first number that may differ (0 without one)."""
    first = _VARYING.search(text)
    if first is None:
        return text, 0.0
    return _VARYING.sub("#", text), float(first.group().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%"))


@lru_cache(4096)
def _own_number(rank: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(rank[ =:_]?)0*{rank}(?!\d)", re.IGNORECASE)


def unranked(text: str, rank: int) -> str:
    """A line without the number of the rank that said it: `rank 3/16 epoch 2` of rank 3 is `rank */16 epoch 2`."""
    if rank < 0 or ("ank" not in text and "ANK" not in text):
        return text
    return _own_number(rank).sub(r"\1*", text)


@dataclass(slots=True)
class _Reader:
    """How far one rank's log was read into the merge."""

    buffer: LogBuffer
    source: Source[str]
    line: int = 0
    cuts: int = 0

    @property
    def more(self) -> bool:
        """Whether it has lines that were not read."""
        return self.line < self.buffer.ended


class MergedLog:
    """Rows of all ranks in time. `grow` reads on; nobody else needs to know that there are files."""

    def __init__(
        self,
        buffers: Mapping[int, LogBuffer],
        *,
        names: Mapping[int, str] | None = None,
        fold: bool = True,
        first: int | None = None,
    ) -> None:
        self.buffers = buffers
        """Rank -> its log; launchers have numbers below zero."""
        self.names = names or {}
        """What ranks are called in few letters, where they are more than a number."""
        self.fold = fold
        self.first = first if first is not None else max(200, FIRST_LINES // max(1, len(buffers)))
        """Lines of each rank that are read first, from its end."""
        self.groups: list[Group] = []
        self.version = 0
        """Changes when rows before the last ones changed: caches of rows are void."""
        self.trimmed = 0
        """Rows dropped from the front to bound memory; the files have them."""
        self.members = 0
        self._open: dict[str, Group] = {}
        self._alike: dict[str, Group] = {}
        """What lines with other numbers, of other ranks, may be folded with."""
        self._open_limit = OPEN_LINES
        self._order: Timeline[str] = Timeline()
        self._queue: deque[Placed[str]] = deque()
        self._readers: list[_Reader] = []
        self._begun = False

    def _begin(self) -> None:
        self._begun = True
        for buffer in self.buffers.values():
            source = self._order.source(buffer.rank)
            self._readers.append(_Reader(buffer, source, max(0, buffer.count - self.first), buffer.cuts))

    @property
    def timed(self) -> bool:
        """Whether every line so far had a time."""
        return self._order.timed

    @property
    def from_start(self) -> bool:
        """Whether the rows begin with the first line of every rank."""
        return not self.trimmed and all(b.count <= self.first for b in self.buffers.values())

    def earlier(self) -> MergedLog:
        """The same log from further back."""
        return MergedLog(self.buffers, names=self.names, fold=self.fold, first=self.first * 8)

    def refolded(self, *, fold: bool) -> MergedLog:
        """The same log with lines folded, or each by itself."""
        return MergedLog(self.buffers, names=self.names, fold=fold, first=self.first)

    # Reading

    def grow(self, now: float, budget: float = 0.008, *, flush: bool = False) -> bool:
        """Read what the buffers have and place what has waited long enough. Whether more is to do.

        `now` is our clock; `flush` places everything, for runs that have ended.
        """
        if not self._begun:
            if any(buffer.behind > MUCH for buffer in self.buffers.values()):
                return True
            self._begin()
        until = time.perf_counter() + budget
        behind = self._read_all(until)
        horizon = float("inf") if flush and not behind else self._order.horizon(now)
        self._queue.extend(self._order.ready(horizon))
        while self._queue:
            self._place(*self._queue.popleft())
            if not self.members % 64 and time.perf_counter() >= until:
                break
        self._trim()
        return behind or bool(self._queue)

    def _read_all(self, until: float) -> bool:
        """A chunk of every rank that has more; those not reached in time are first in the next call."""
        while time.perf_counter() < until and sum(self._read(reader) for reader in self._turn(until)):
            pass
        for reader in self._readers:
            reader.source.more = reader.more
        return any(reader.more for reader in self._readers)

    def _turn(self, until: float) -> Iterator[_Reader]:
        for _ in range(len(self._readers)):
            yield self._readers[0]
            self._readers.append(self._readers.pop(0))
            if time.perf_counter() >= until:
                return

    def _read(self, reader: _Reader) -> bool:
        """Read one chunk; whether the rank has more."""
        buffer = reader.buffer
        if reader.cuts != buffer.cuts:
            reader.cuts, reader.line = buffer.cuts, min(reader.line, buffer.ended)
        count = min(CHUNK, buffer.ended - reader.line)
        if count <= 0 or len(reader.source.waiting) > 64 * CHUNK:
            return False
        texts, times = buffer.text(reader.line, count), buffer.times(reader.line, count)
        self._order.take(reader.source, reader.line, texts, times)
        reader.line += len(texts)
        return bool(texts) and reader.more

    # Placing

    def _place(self, at: float, rank: int, line: int, text: str) -> None:
        self.members += 1
        common_text = unranked(text, rank)
        key, value = fold_key(common_text)
        if rank < 0:  # a launcher's words are never folded with those of a rank
            key = "launcher\n" + key
        group = self._open.get(key)
        if group is not None and self.fold and abs(at - group.last) <= FOLD_S and text:
            self._join(group, at, rank, line, value, common_text)
            return
        alike = loose_key(common_text) if self.fold and rank >= 0 else ""
        if (other := self._other(alike, at, rank)) is not None:
            self._open[key] = other
            self._join(other, at, rank, line, value, common_text)
            return
        shown = safe(text)
        common = safe(common_text) if common_text != text else ""
        made = Group(at, at, shown, severity(shown), low=value, high=value, common=common, key=key)
        if alike and made.level != "error":
            self._alike[alike] = made
        made.ranks.append(rank)
        made.lines.append(line)
        made.times.append(at)
        if group is not None and 0 < at - group.at <= LATE_S and rank not in group.ranks and group.members > 1:
            made.shift = at - group.at
        else:
            self._open[key] = made
        self._insert(made)
        if len(self._open) > self._open_limit:
            self._open = {k: g for k, g in self._open.items() if at - g.last <= LATE_S / 4}
            self._alike = {k: g for k, g in self._alike.items() if at - g.last <= FOLD_S}
            self._open_limit = max(OPEN_LINES, 2 * len(self._open))  # else many fresh lines would be sifted with each

    def _other(self, alike: str, at: float, rank: int) -> Group | None:
        """The row of other ranks that a line belongs to though its numbers are others."""
        found = self._alike.get(alike) if alike.strip() else None
        return found if found is not None and abs(at - found.last) <= FOLD_S and rank not in found.ranks else None

    def _join(self, group: Group, at: float, rank: int, line: int, value: float, text: str) -> None:
        if text != (group.common or group.text):
            group.compare(safe(text))
        group.ranks.append(rank)
        group.lines.append(line)
        group.times.append(at)
        group.at, group.last = min(group.at, at), max(group.last, at)
        group.low, group.high = min(group.low, value), max(group.high, value)
        self.version += 1

    def _insert(self, group: Group) -> None:
        if not self.groups or group.at >= self.groups[-1].at:
            self.groups.append(group)
            return
        group.inserted = True
        self.groups.insert(bisect_right(self.groups, group.at, key=lambda g: g.at), group)
        self.version += 1

    def _trim(self) -> None:
        if self.members <= KEPT_LINES:
            return
        cut = max(1, len(self.groups) // 10)
        self.members -= sum(g.members for g in self.groups[:cut])
        del self.groups[:cut]
        self.trimmed += cut
        self.version += 1

    # Showing

    def remark(self, group: Group) -> str:
        """What is worth saying of a row at its right edge, in a few letters."""
        if group.shift:
            return f"{group.shift:.1f} s late"
        said_by = len(group.said_by())
        if group.members > said_by and said_by > 1:
            each = group.members / said_by
            return f"{each:.0f} lines each" if each == int(each) else f"{group.members} lines"
        if group.members > said_by:
            return f"{group.members} times"
        if spread := group.spread():
            return f"± {spread:.3g}"
        if whole := [ends for ends in group.differs.values() if ends[0] != ends[1]]:
            return f"{whole[0][0]:g} to {whole[0][1]:g}"
        return "~" if group.inserted else ""


def matching(groups: Sequence[Group], pattern: Searches[bytes], *, inverse: bool = False) -> list[int]:
    """The rows whose text matches."""
    hits = patterns.matching(pattern, [group.text.encode() for group in groups])
    return sorted(set(range(len(groups))) - set(hits)) if inverse else hits
