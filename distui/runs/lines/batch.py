"""What ranks print as columns: at full speed an object for each line would cost more than all the rest together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from distui.runs.lines.columns import LineColumn, StampColumn
from distui.runs.lines.events import LogLine, LogLines
from distui.runs.lines.text import Stream, text_of

STDOUT = 1
STDERR = 2


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Sequence[LogLine]):
    """Pieces in the log's own order, as columns of equal length; a `LogLine` is made of one when it is asked for.

    A piece is a line with its newline, or a part of one without: of an endless line, or as the engine cut it.
    """

    streams: Sequence[int] = ()
    stamps: Sequence[bytes] = ()
    pieces: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.pieces)

    @overload
    def __getitem__(self, at: int) -> LogLine: ...
    @overload
    def __getitem__(self, at: slice) -> Batch: ...
    def __getitem__(self, at: int | slice) -> LogLine | Batch:
        if isinstance(at, slice):
            return Batch(self.streams[at], self.stamps[at], self.pieces[at])
        stream: Stream = "stderr" if self.streams[at] == STDERR else "stdout"
        return LogLine(stream, text_of(self.pieces[at]), self.stamps[at].decode("ascii", "replace"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def data(self) -> bytes:
        """The bytes as they were printed, both streams in the log's order."""
        return self.pieces.data if isinstance(self.pieces, LineColumn) else b"".join(self.pieces)

    @property
    def size(self) -> int:
        """Bytes of `data`."""
        return len(self.pieces.data) if isinstance(self.pieces, LineColumn) else sum(map(len, self.pieces))

    @property
    def low(self) -> bytes:
        """The smallest stamp. Raises ValueError when there is none."""
        return self.stamps.low if isinstance(self.stamps, StampColumn) else min(self.stamps)

    @property
    def top(self) -> bytes:
        """The greatest stamp. Raises ValueError when there is none."""
        return self.stamps.top if isinstance(self.stamps, StampColumn) else max(self.stamps)

    def last(self, stream: int) -> int | None:
        """Index of the stream's last piece, None when it has none here."""
        if stream not in self.streams:
            return None
        return len(self.streams) - 1 - self.streams[::-1].index(stream)

    def stamped(self, stamp: bytes) -> Sequence[int]:
        """Indices of the pieces that have this stamp."""
        if isinstance(self.stamps, StampColumn):
            return self.stamps.places(stamp)
        return [at for at, one in enumerate(self.stamps) if one == stamp] if stamp in self.stamps else ()

    def pick(self, indices: list[int]) -> Batch:
        """The pieces at these indices."""
        return Batch(
            tuple(self.streams[i] for i in indices),
            tuple(self.stamps[i] for i in indices),
            tuple(self.pieces[i] for i in indices),
        )


def last_text(lines: Sequence[LogLine]) -> str:
    """The last line's text, without making a `LogLine` of a piece."""
    return text_of(lines.pieces[-1]) if isinstance(lines, Batch) else lines[-1].text


def bytes_of(event: object) -> int:
    """Bytes of the log lines in an event: what it takes of memory, but for what all events take."""
    if not isinstance(event, LogLines):
        return 0
    lines = event.lines
    return lines.size if isinstance(lines, Batch) else sum(len(line.text) for line in lines)
