"""One rank's log file as lines, without its lines in memory.

The file is the truth. Kept here is where blocks of lines begin: a quarter of a megabyte for a million lines. The
index grows in slices, so that a file of gigabytes opens while everything else goes on.
"""

from __future__ import annotations

import os
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from distui.files import open_to_read
from distui.runs.lines.times import read_times, times_of
from distui.runs.store.masking import NOTHING, Mask, MaskedStream

SLICE = 1 << 18
"""Bytes indexed at once: about half a millisecond."""
BLOCK_LINES = 64
BLOCK_BYTES = 1 << 14
STEP = 1 << 13
"""Bytes whose newlines are counted at once: one look for each would take ten times as long."""
SHOWN_BYTES = 4096
"""Of a longer line only this much is shown; the file has all of it."""
BLOCK_READ = BLOCK_BYTES + STEP + 2 * SHOWN_BYTES
"""All lines of a block begin within so many bytes, less what is shown of the last one."""


class LogBuffer:
    """A window on one log file that grows, or is cut back after a crash of the follower."""

    __slots__ = (
        "_firsts",
        "_open_from",
        "_starts",
        "cuts",
        "ended",
        "host",
        "mask",
        "path",
        "rank",
        "renewals",
        "size",
    )

    def __init__(self, path: Path, rank: int | None = None, host: str = "", mask: Mask = NOTHING) -> None:
        self.path = path
        self.mask = mask
        """Hides values of secrets that the file may have: it was perhaps written without knowing them."""
        self.rank = rank
        self.host = host
        self.cuts = 0
        """How often the file became shorter: whoever keeps line numbers starts again when this changes."""
        self.renewals = 0
        """How often another file took its place, with other lines: after any other cut the same ones come again."""
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        """Bytes indexed."""
        self.ended = 0
        """Lines indexed that have their newline."""
        self._open_from = 0
        self._starts = array("Q", (0,))
        self._firsts = array("Q", (0,))

    @property
    def count(self) -> int:
        """Lines indexed so far, the open one at the end included."""
        return self.ended + (self.size > self._open_from)

    @property
    def whole(self) -> int:
        """Bytes up to the last newline."""
        return self._open_from

    @property
    def behind(self) -> int:
        """Bytes of the file that are not indexed yet; 0 of what is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return 0
        return max(0, found.st_size - self.size) if stat.S_ISREG(found.st_mode) else 0

    def renew(self) -> None:
        """The file was replaced by a new one."""
        self._cut()
        self.renewals += 1

    def _cut(self) -> None:
        self._clear()
        self.cuts += 1

    # Reading on

    def grow(self, budget: float = 0.0) -> bool:
        """Index what was added, slice by slice, for at most `budget` seconds (0: one slice). Whether more is there."""
        until = time.perf_counter() + budget
        try:
            with open_to_read(self.path, buffering=0) as file:
                if os.fstat(file.fileno()).st_size < self.size:
                    self._cut()
                while self._grow_slice(file):
                    if time.perf_counter() >= until:
                        return True
        except OSError:
            return False
        return False

    def _grow_slice(self, file: BinaryIO) -> bool:
        file.seek(self.size)
        data = file.read(SLICE)
        for start in range(0, len(data), STEP):
            stop = start + STEP
            first = data.find(b"\n", start, stop)
            if first >= 0:  # what ends here may have begun long ago: it is a block's last line
                self._ended(1, self.size + first + 1)
                more = data.count(b"\n", first + 1, stop)
                if more:
                    self._ended(more, self.size + data.rfind(b"\n", first, stop) + 1)
        self.size += len(data)
        return len(data) == SLICE

    def _ended(self, lines: int, stop: int) -> None:
        """So many more lines end, the last one before `stop`."""
        self.ended += lines
        self._open_from = stop
        if self.ended - self._firsts[-1] >= BLOCK_LINES or stop - self._starts[-1] >= BLOCK_BYTES:
            self._starts.append(stop)
            self._firsts.append(self.ended)

    # Lines

    def raw(self, first: int, count: int) -> list[bytes]:
        """Lines from number `first` on, without newlines, each at most SHOWN_BYTES; fewer at the end of the file."""
        last = min(first + count, self.count)
        if first >= last:
            return []
        found: list[bytes] = []
        block = bisect_right(self._firsts, first) - 1
        skip = first - self._firsts[block]
        try:
            with open_to_read(self.path, buffering=0) as file:
                while len(found) < skip + last - first and block < len(self._firsts):
                    found += self._block(file, block)
                    block += 1
        except OSError:
            return []
        shown = found[skip : skip + last - first]
        if self.mask:  # before it is cut: half a value is not found
            shown = [self.mask.raw(self._whole_values(line)) for line in shown]
        return [line[:SHOWN_BYTES] for line in shown]

    def _whole_values(self, line: bytes) -> bytes:
        """Of a line that goes on the beginning, without a value that would be cut; the others make it shorter."""
        begin = line[: 2 * SHOWN_BYTES]
        return begin[: self.mask.cut(begin)] if len(begin) == 2 * SHOWN_BYTES else begin

    def _block(self, file: BinaryIO, block: int) -> list[bytes]:
        last = block + 1 == len(self._starts)
        stop = self.size if last else self._starts[block + 1]
        lines = (self.count if last else self._firsts[block + 1]) - self._firsts[block]
        file.seek(self._starts[block])
        data = file.read(min(stop - self._starts[block], BLOCK_READ))
        return data.split(b"\n")[:lines]

    def text(self, first: int, count: int) -> list[str]:
        """The same lines as text; bytes that are not UTF-8 are U+FFFD."""
        return [line.rstrip(b"\r").decode("utf-8", "replace") for line in self.raw(first, count)]

    def copy(self, target: BinaryIO) -> None:
        """Write the whole log to another file. Raises OSError."""
        hidden = MaskedStream(self.mask)
        with open_to_read(self.path) as source:
            while data := source.read(SLICE):
                target.write(hidden.feed(data))
        target.write(hidden.rest())

    # Places

    def line_at(self, offset: int) -> int:
        """The number of the line that holds the byte at `offset`."""
        block = bisect_right(self._starts, offset) - 1
        start = self._starts[block]
        head = self.read(start, min(offset - start, BLOCK_READ))
        return self._firsts[block] + head.count(b"\n")

    def offset_of(self, line: int) -> int:
        """Where a line begins; the end of what is indexed for lines past it."""
        if line >= self.count:
            return self.size
        block = bisect_right(self._firsts, line) - 1
        at = self._starts[block]
        head = self.read(at, BLOCK_READ)
        position = 0
        for _ in range(line - self._firsts[block]):
            position = head.find(b"\n", position) + 1
        return at + position

    def read(self, start: int, count: int) -> bytes:
        """Bytes of the file; empty when it can't be read."""
        try:
            with open_to_read(self.path, buffering=0) as file:
                file.seek(start)
                return file.read(max(0, count))
        except OSError:
            return b""

    def slices(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The bytes from `start` to `stop` in slices that end with a line, each with its offset."""
        while start < stop:
            data = self.read(start, min(SLICE, stop - start))
            if not data:
                return
            end = data.rfind(b"\n") + 1
            piece = data[:end] if end and start + len(data) < stop else data
            yield start, piece
            start += len(piece)

    # Times

    def times(self, first: int, count: int) -> list[float | None]:
        """When these lines were said, on our clock; None where nobody wrote it down."""
        known = read_times(times_of(self.path), first, count)
        return [*known, *[None] * (count - len(known))]

    def first_since(self, at: float) -> int | None:
        """The first line said at `at` or later, found by halving; None for a log without times."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            said = self.times(middle, 1)[0]
            if said is None:
                return None
            low, high = (middle + 1, high) if said < at else (low, middle)
        return low
