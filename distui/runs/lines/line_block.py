"""Lines of one rank as columns: at full speed an object for each line would cost more than all the rest together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from distui.runs.lines.docker_frames import STDERR, joined, size_of
from distui.runs.lines.events import LogLine, LogLines
from distui.runs.lines.text import Stream, text_of


@dataclass(frozen=True, slots=True, eq=False)
class LineBlock(Sequence[LogLine]):
    """A sequence that makes a `LogLine` when it is asked for one. Columns of equal length.

    A piece is a line with its newline, or the part of an endless line without one.
    """

    streams: Sequence[int]
    stamps: Sequence[bytes]
    pieces: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.pieces)

    @overload
    def __getitem__(self, at: int) -> LogLine: ...
    @overload
    def __getitem__(self, at: slice) -> LineBlock: ...
    def __getitem__(self, at: int | slice) -> LogLine | LineBlock:
        if isinstance(at, slice):
            return LineBlock(self.streams[at], self.stamps[at], self.pieces[at])
        stream: Stream = "stderr" if self.streams[at] == STDERR else "stdout"
        return LogLine(stream, text_of(self.pieces[at]), self.stamps[at].decode("ascii", "replace"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def data(self) -> bytes:
        """The bytes as they were printed."""
        return joined(self.pieces)


def bytes_of(event: object) -> int:
    """Bytes of the log lines in an event: what it takes of memory, but for what all events take."""
    if not isinstance(event, LogLines):
        return 0
    lines = event.lines
    return size_of(lines.pieces) if isinstance(lines, LineBlock) else sum(len(line.text) for line in lines)
