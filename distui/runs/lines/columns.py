"""Columns of many whole lines that stay in one piece, and are cut only where somebody looks.

At full speed nobody looks at single lines: an object for each would cost more than all the rest of following.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from distui.runs.lines.times import STAMP

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
        return [line + b"\n" for line in self.data.rsplit(b"\n", count + 1)[1:-1]]


class StampColumn(Sequence[bytes]):
    """Docker's stamps one after another in `text`, with the smallest, the greatest, and all as times."""

    def __init__(self, text: bytes, low: bytes, top: bytes, times: bytes) -> None:
        self._text = text
        self.low = low
        self.top = top
        self.times = times
        """UTC seconds of the host's clock, packed as in a file of times."""

    def __len__(self) -> int:
        return len(self._text) // STAMP

    def __iter__(self) -> Iterator[bytes]:
        text = self._text
        return (text[begin : begin + STAMP] for begin in range(0, len(text), STAMP))

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        begin = STAMP * range(len(self))[at]
        return self._text[begin : begin + STAMP]

    # A whole stamp is never found across two: they are all of one form.

    def count(self, value: bytes) -> int:
        """How many lines have this stamp."""
        return self._text.count(value)

    def index(self, value: bytes, start: int = 0, stop: int | None = None) -> int:
        """The first line with this stamp. Raises ValueError when there is none."""
        return self._text.index(value, STAMP * start, None if stop is None else STAMP * stop) // STAMP
