"""Columns of many whole lines that stay in one piece, and are cut only where somebody looks.

At full speed nobody looks at single lines: an object for each would cost more than all the rest of following.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from distui.runs.lines.times import pack
from distui.whole import whole

_NEAR_END = 64
"""Lines so near to the end are cut off there, without the others."""


class LineColumn(Sequence[bytes]):
    """`count` lines, each with its only newline at its end, as they stand one after another in `data`."""

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self._count = count
        self._cut: list[bytes] = []

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines())

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            from_end = at.stop is None and at.step is None and at.start is not None and at.start < 0
            return self._last(-at.start) if from_end else self._lines()[at]
        behind = -at if at < 0 else self._count - at
        return self._last(behind)[0] if 0 < behind <= min(_NEAR_END, self._count) else self._lines()[at]

    def _lines(self) -> list[bytes]:
        if not self._cut:
            self._cut = [line + b"\n" for line in self.data.split(b"\n")[:-1]]
        return self._cut

    def _last(self, count: int) -> list[bytes]:
        if count >= self._count or self._cut:
            return self._lines()[-count:]
        begin = len(self.data)
        for _ in range(count):  # `rsplit` would copy all that stands before them
            begin = self.data.rfind(b"\n", 0, begin - 1) + 1
        return [line + b"\n" for line in self.data[begin:].split(b"\n")[:-1]]


class Second(NamedTuple):
    """Docker's stamps of one second: its text up to the point, the same as UTC seconds, the nanoseconds behind it."""

    text: bytes
    at: float
    nanos: array[int]
    least: int
    most: int

    def stamp(self, nano: int) -> bytes:
        """The stamp so many nanoseconds behind it."""
        return b"%b%09dZ" % (self.text, nano)

    def find(self, stamp: bytes) -> int | None:
        """The nanoseconds of a stamp that may be one of these; None where it is none."""
        nano = whole(stamp[20:29]) if stamp.startswith(self.text) and stamp[29:] == b"Z" else None
        return nano if nano is not None and self.least <= nano <= self.most else None


class StampColumn(Sequence[bytes]):
    """Docker's stamps, with the smallest and the greatest; each made when it is asked for."""

    def __init__(self, seconds: Sequence[Second]) -> None:
        self._seconds = seconds
        self._count = sum(len(second.nanos) for second in seconds)

    @property
    def low(self) -> bytes:
        """The smallest."""
        return min(second.stamp(second.least) for second in self._seconds)

    @property
    def top(self) -> bytes:
        """The greatest."""
        return max(second.stamp(second.most) for second in self._seconds)

    def moments(self, ahead: float) -> bytes:
        """When they were, as in a file of times, on a clock that the host's is so many seconds ahead of."""
        return pack([at + nano / 1e9 - ahead for _, at, nanos, _, _ in self._seconds for nano in nanos])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return (second.stamp(nano) for second in self._seconds for nano in second.nanos)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        left = range(len(self))[at]
        for second in self._seconds:
            if left < len(second.nanos):
                break
            left -= len(second.nanos)
        return second.stamp(second.nanos[left])

    def places(self, stamp: bytes) -> list[int]:
        """The lines that have this stamp."""
        found: list[int] = []
        begin = 0
        for second in self._seconds:
            if (nano := second.find(stamp)) is not None:
                at = -1
                for _ in range(second.nanos.count(nano)):
                    at = second.nanos.index(nano, at + 1)
                    found.append(begin + at)
            begin += len(second.nanos)
        return found


def unpack_nanos(data: bytes) -> array[int]:
    """Fractions of stamps as the helper packs them."""
    nanos = array("I", data)
    if sys.byteorder == "big":
        nanos.byteswap()
    return nanos
