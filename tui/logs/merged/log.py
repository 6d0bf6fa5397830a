"""All ranks in one log: ordered by the time each line was said, on our clock, with what several ranks say folded.

A line waits half a second for earlier ones of other ranks; one that comes later is put where it belongs and marked.
Where many came later, as when a host's log is read after those of others, the log is merged again (`again`).
Which lines are one is said in `groups.py`; one step after another becomes one row in `step_ranges.py`. The texts stay
in the files; what is kept of a line is its rank, number and time.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distui import patterns
from distui.patterns import Searches
from distui.runs.lines.severity import severity
from distui.runs.lines.text import safe
from distui.runs.report.timeline import Placed, Source, Timeline
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.merged.groups import FOLD_S, Group, fold_key, loose_key, shapeless, unranked
from distui.tui.logs.merged.spreads import Shapes
from distui.tui.logs.merged.step_ranges import StepRanges

LATE_S = 120.0
"""A rank that says a line this much after the others is late; beyond it says it again."""
FIRST_LINES = 40_000
"""Lines that are read first, of all ranks together, from their ends."""
KEPT_LINES = 200_000
"""Lines kept, at some 750 bytes each when none are folded."""
MUCH = 1 << 19
"""Bytes not indexed yet for which the merge waits: it begins near the end, which is not known before."""
CHUNK = 256
MANY = 16
"""Rows that were put between others, from which on the log is worth merging again; each time four times as many."""
OPEN_LINES = 5000
"""Lines that others may still be folded with before old ones are sifted out."""
MOST_IN_ROW = 5000
"""Lines of one row: what all ranks say every second for days is many rows, of which the old ones can go."""


@dataclass(slots=True)
class _Reader:
    """How far one rank's log was read into the merge."""

    buffer: LogBuffer
    source: Source[str]
    line: int = 0
    begin: int = 0
    """The line with which it began."""
    cuts: int = 0
    renewals: int = 0
    old: int = 0
    """Bytes that its file had when the merge began: until all of them are indexed, nothing later is placed."""

    @property
    def more(self) -> bool:
        """Whether it has lines that were not read."""
        return self.line < self.buffer.ended or self.buffer.size < self.old


class MergedLog:
    """Rows of all ranks in time. `grow` reads on; nobody else needs to know that there are files."""

    def __init__(
        self,
        buffers: Mapping[int, LogBuffer],
        *,
        names: Mapping[int, str] | None = None,
        fold: bool = True,
        first: int | None = None,
        since: float | None = None,
        many: int = MANY,
    ) -> None:
        self.buffers = buffers
        """Rank -> its log; launchers have numbers below zero."""
        self.names = names or {}
        """What ranks are called in few letters, where they are more than a number."""
        self.fold = fold
        self.first = first if first is not None else max(200, FIRST_LINES // max(1, len(buffers)))
        """Lines of each rank that are read first, from its end."""
        self._since = since
        """Of them only those said by then or later are read, where that is known."""
        self.groups: list[Group] = []
        self._many = many
        self._between = 0
        """Rows that were put between others since the merge began."""
        self._newest = 0.0
        """When the newest line was said that was placed."""
        self._opened = False
        self.held = False
        """Whether rows stay as they are: somebody reads them."""
        self._ranges = StepRanges(self.groups)
        self.version = 0
        """Changes when rows before the last ones changed: caches of rows are void."""
        self.order = 0
        """Changes when rows came or went elsewhere than at the end, or one stands for others: look at all again."""
        self.trimmed = 0
        """Rows dropped from the front to bound memory; the files have them."""
        self.members = 0
        self._shapes = Shapes()
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
            first = max(0, buffer.count - self.first)
            if self._since is not None:
                first = max(first, buffer.first_since(self._since) or 0)
            old = buffer.size + buffer.behind
            self._readers.append(_Reader(buffer, source, first, first, buffer.cuts, buffer.renewals, old))

    @property
    def timed(self) -> bool:
        """Whether every line so far had a time."""
        return self._order.timed

    @property
    def from_start(self) -> bool:
        """Whether the rows begin with the first line of every rank."""
        return not self.trimmed and self._since is None and all(b.count <= self.first for b in self.buffers.values())

    def earlier(self) -> MergedLog:
        """The same log from further back."""
        return MergedLog(self.buffers, names=self.names, fold=self.fold, first=self.first * 8)

    def refolded(self, *, fold: bool) -> MergedLog:
        """The same log with lines folded, or each by itself."""
        return MergedLog(self.buffers, names=self.names, fold=fold, first=self.first)

    @property
    def scattered(self) -> bool:
        """Whether so much came late that the same lines, merged again, would be fewer rows; not while they are read."""
        return self.fold and self._between >= self._many and not (self.held or self._opened)

    def again(self) -> MergedLog:
        """The same lines merged from the first one that is still kept, now that all of them are there."""
        first = max([self.first, *(reader.buffer.count - reader.begin for reader in self._readers)])
        since = self.groups[0].at if self.trimmed and self.timed and self.groups else self._since
        return MergedLog(self.buffers, names=self.names, first=first, since=since, many=4 * self._many)

    def reaches(self, other: MergedLog) -> bool:
        """Whether it is as far as another one of the same lines."""
        return self._newest >= other._newest

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
        if self.fold and not self.held and self.groups:
            self._reordered(bool(self._ranges.fold(self.groups[-1].at - FOLD_S)))
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
            reader.cuts, reader.old = buffer.cuts, 0
        if reader.renewals != buffer.renewals:
            reader.renewals, reader.line, reader.begin = buffer.renewals, 0, 0
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
        self._newest = max(self._newest, at)
        common_text = unranked(text, rank)
        key = fold_key(common_text)
        if rank < 0:  # a launcher's words are never folded with those of a rank
            key = "launcher\n" + key
        group = self._open.get(key)
        if group is not None and group.members >= MOST_IN_ROW:
            group = None
        if group is not None and self.fold and self._may_join(group, at) and text:
            self._join(group, at, rank, line, common_text)
            return
        alike = loose_key(common_text) if self.fold and rank >= 0 else ""
        if (other := self._other(alike, at, rank)) is not None:
            self._open[key] = other
            self._join(other, at, rank, line, common_text)
            return
        shown = safe(text)
        common = safe(common_text) if common_text != text else ""
        made = Group(at, at, shown, severity(shown), common=common, key=key)
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

    def _may_join(self, group: Group, at: float) -> bool:
        return not group.folded and abs(at - group.last) <= FOLD_S and group.members < MOST_IN_ROW

    def _other(self, alike: str, at: float, rank: int) -> Group | None:
        """The row of other ranks that a line belongs to though its numbers are others."""
        found = self._alike.get(alike) if alike.strip() else None
        if found is None or not self._may_join(found, at) or rank in found.ranks:
            return None
        return found

    def _join(self, group: Group, at: float, rank: int, line: int, text: str) -> None:
        if text != (group.common or group.text):
            self._compare(group, safe(text))
        group.ranks.append(rank)
        group.lines.append(line)
        group.times.append(at)
        group.at, group.last = min(group.at, at), max(group.last, at)
        self.version += 1

    def _compare(self, group: Group, text: str) -> None:
        """Note which numbers of a row differ, for the row and for all that look like it."""
        fresh = group.compare(text)
        if fresh and group.shape is None:
            group.shape = self._shapes.of(shapeless(group.common or group.text))
        if group.shape is not None:
            group.shape.note(fresh)

    def _insert(self, group: Group) -> None:
        if not self.groups or group.at >= self.groups[-1].at:
            self.groups.append(group)
            return
        group.inserted = True
        self._between += 1
        index = bisect_right(self.groups, group.at, key=lambda g: g.at)
        self.groups.insert(index, group)
        self._ranges.inserted(index)
        self._reordered()

    def _reordered(self, changed: bool = True) -> None:
        self.version += changed
        self.order += changed

    def _trim(self) -> None:
        if self.members <= KEPT_LINES:
            return
        cut = max(1, len(self.groups) // 10)
        gone = self.groups[:cut]
        self.members -= sum(g.members for g in gone)
        del self.groups[:cut]
        self._forget(gone)
        self._ranges.dropped(cut)
        self.trimmed += cut
        self._reordered()

    def _forget(self, rows: Sequence[Group]) -> None:
        """Nothing joins rows that are not there any more: it would be in none."""
        gone = {id(group) for row in rows for group in (row, *row.parts)}
        self._open = {key: group for key, group in self._open.items() if id(group) not in gone}
        self._alike = {key: group for key, group in self._alike.items() if id(group) not in gone}

    # Showing

    def open(self, group: Group) -> None:
        """Show each step of a range in a row of its own, from now on."""
        self._ranges.open(group)
        self._opened = True
        self._reordered()

    def remark(self, group: Group) -> str:
        """What is worth saying of a row at its right edge, in a few letters."""
        if group.parts:
            return f"{len(group.parts)} steps"
        if group.shift:
            return f"{group.shift:.1f} s late"
        said_by = len(group.said_by())
        if group.members > said_by and said_by > 1:
            each = group.members / said_by
            return f"{each:.0f} lines each" if each == int(each) else f"{group.members} lines"
        if group.members > said_by:
            return f"{group.members} times"
        if spread := group.spread():
            return spread
        return "~" if group.inserted else ""


def matching(groups: Sequence[Group], pattern: Searches[bytes], *, inverse: bool = False) -> list[int]:
    """The rows whose text matches."""
    hits = patterns.matching(pattern, [_searched(group).encode() for group in groups])
    return sorted(set(range(len(groups))) - set(hits)) if inverse else hits


def _searched(group: Group) -> str:
    """What a row says; of a range what each of its steps does."""
    return "\n".join((group.text, *(part.text for part in group.parts)))
