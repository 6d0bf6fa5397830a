"""Where the reading of one task's log stands, so that it goes on exactly once after any cut.

Docker's `since` is inclusive and exact, but neither "newer than the last" nor counting at the last stamp is safe: a
line's pieces share the first one's stamp even when written seconds later, and stamps of the two streams are not in
file order. So a checkpoint X0 a second or two behind the newest stamp is kept with the number of records received at
or after it, per stream; the replay from X0 has exactly those first (FOLLOW §4: 362 cuts, nothing lost or doubled).
"""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from distui.codec import Form, as_list, from_list
from distui.frozen import frozen
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.columns import StampColumn
from distui.runs.lines.docker_frames import since, stamp_at, stamp_ns

_SECOND_NS = 1_000_000_000


Stamp = Annotated[bytes, Form(bytes.decode, str.encode)]


@frozen
class Mark:
    """How many records of each stream were received with a stamp at or after `stamp` (b"": all of them)."""

    stamp: Stamp = b""
    out: int = 0
    err: int = 0


@frozen
class Seen:
    """The last record had of one stream, in short, to prove that a replay is of the same log."""

    stamp: Stamp
    size: int
    crc: int

    @classmethod
    def of(cls, stamp: bytes, data: bytes) -> Seen:
        """The proof of one record."""
        return cls(stamp, len(data), zlib.crc32(data))


_MARK = Form(as_list, functools.partial(from_list, Mark), list)
_SEEN = Form(as_list, functools.partial(from_list, Seen), list)


@frozen
class ResumePoint:
    """Where to go on. Store it after the bytes it counts; to attach, cut the log file to `written` bytes first.

    `offset` is for logs that are files on the host (processes, podman): the next byte to read there.
    """

    written: int = 0
    offset: int = 0
    base: Annotated[Mark, _MARK] = Mark()
    """The start of all that can be counted; not the log's start only after the log was truncated on the host."""
    mark: Annotated[Mark, _MARK] = Mark()
    top: Annotated[Mark, _MARK] = Mark()
    """The greatest stamp had, and how many records have exactly that one."""
    last: tuple[Annotated[Seen, _SEEN] | None, Annotated[Seen, _SEEN] | None] = (None, None)
    open: tuple[bool, bool] = (False, False)
    """Whether stdout's and stderr's last record ended without a newline."""
    distrust: Stamp = b""
    """Not empty: the host's clock went back below this stamp, so marks up to it prove nothing."""
    done: bool = False
    """Everything was read: the task had ended and its log was read once more."""


class ReplayMismatch(Exception):
    """The replay does not begin with the records already had: the log was rotated, truncated or replaced."""


class Cursor:
    """The counting of one container's log: `begin` before each read, `take` for each batch of it.

    `clock` is the arrival clock in seconds (monotonic).
    """

    def __init__(self, point: ResumePoint | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._point = point or ResumePoint()
        self._newer = self._point.mark
        self._clock = clock
        self._moved = clock()
        self._skip = [0, 0, 0]

    @property
    def point(self) -> ResumePoint:
        """Where the reading stands: everything taken so far is counted."""
        return self._point

    @property
    def skipping(self) -> bool:
        """Whether records already had are still to come in this replay."""
        return any(self._skip)

    @property
    def suspicious(self) -> bool:
        """Whether the host's clock went back, so that only a full read is right."""
        return bool(self._point.distrust)

    def begin(self, *, full: bool = False) -> str:
        """Get ready for a new read of the log; returns its `since` ("": from the start).

        `full` reads all again and drops what was had: always right, for when stamps can't be trusted.
        """
        mark = self._point.base if full or self.suspicious else self._point.mark
        self._skip = [0, mark.out, mark.err]
        return since(mark.stamp) if mark.stamp else ""

    def distrust_clock(self) -> None:
        """The host's clock was set back: do full reads until two checkpoints lie after the time it came from."""
        self._point = replace(self._point, distrust=max(self._point.distrust, self._point.top.stamp))

    def is_ahead(self, now: float) -> bool:
        """Whether a record that was had is newer than the host's clock says, in seconds, that it is now."""
        top = self._point.top.stamp
        return bool(top) and not self._point.done and stamp_ns(top) > now * _SECOND_NS

    def restart_after_top(self) -> None:
        """Give up the old log after a mismatch: go on with what is newer than everything had."""
        top = self._point.top.stamp
        after = Mark(stamp_at(stamp_ns(top) + 1)) if top else Mark()
        self._newer = after
        self._point = replace(self._point, base=after, mark=after, last=(None, None), distrust=b"")

    def take(self, batch: Batch) -> Batch:
        """Drop what was had already, count the rest and return it.

        Raises ReplayMismatch, or ValueError for a stamp that is no time; then nothing is counted.
        """
        if self.skipping and len(batch):
            batch = self._drop(batch)
        if len(batch):
            self._count(batch)
            self._move_marks()
        return batch

    @property
    def knows_last(self) -> bool:
        """Whether the last record had tells where a log goes on: not where one may have the same stamp and bytes, as
        pieces of one line do.
        """
        return any(self._point.last) and not any(self._point.open) and not self.suspicious

    def behind_last(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """What of the log's last records follows all that was had, counted.

        Raises ReplayMismatch when that can't be known: the last record had is not among them, or more than once.
        """
        found: list[tuple[int, int]] = []
        for number, seen in zip((STDOUT, STDERR), self._point.last, strict=True):
            places = [(n, at) for n, batch in enumerate(batches) for at in _places(batch, number, seen)]
            if len(places) > 1:
                raise ReplayMismatch("the last record already had is there more than once")
            found += places
        if not found:
            raise ReplayMismatch("the last record already had is not among the log's last")
        begin, at = max(found)
        for batch in (batches[begin][at + 1 :], *batches[begin + 1 :]):
            if len(batch):
                self._count(batch)
                yield batch

    def count_raw(self, data: bytes) -> None:
        """Count bytes of a stream without records (a tty): they are resumed by their number."""
        self._point = replace(self._point, written=self._point.written + len(data))

    def finish(self) -> None:
        """Everything was read."""
        self._point = replace(self._point, done=True)

    # Replay.

    def _drop(self, batch: Batch) -> Batch:
        skip = self._skip
        out = batch.streams.count(STDOUT)
        err = len(batch) - out
        inside = (not out or out < skip[STDOUT]) and (not err or err < skip[STDERR])
        if inside and batch.top <= self._point.top.stamp:
            skip[STDOUT] -= out
            skip[STDERR] -= err
            return Batch()
        return batch.pick([i for i in range(len(batch)) if not self._had(batch, i)])

    def _had(self, batch: Batch, i: int) -> bool:
        stream = batch.streams[i]
        if not self._skip[stream]:
            return False
        self._skip[stream] -= 1
        if batch.stamps[i] > self._point.top.stamp:
            raise ReplayMismatch("a record that should be known is newer than all that was had")
        last = self._point.last[stream - 1]
        if not self._skip[stream] and last is not None and last != Seen.of(batch.stamps[i], batch.pieces[i]):
            raise ReplayMismatch("the last record already had differs")
        return True

    # Counting.

    def _count(self, batch: Batch) -> None:
        point = self._point
        span = _Span.of(batch)
        out = _last(batch, STDOUT, point.last[0], point.open[0])
        err = _last(batch, STDERR, point.last[1], point.open[1])
        if not isinstance(batch.stamps, StampColumn):  # a checkpoint holds nothing that is no time
            for stamp in (span.low, span.top, *(seen.stamp for seen, _ in (out, err) if seen is not None)):
                stamp_ns(stamp)
        self._newer = _counted(self._newer, batch, span)
        self._point = ResumePoint(  # `replace` takes twice as long, and this is done for each batch
            written=point.written + batch.size,
            offset=point.offset,
            base=_counted(point.base, batch, span),
            mark=_counted(point.mark, batch, span),
            top=_counted_at(point.top if span.top <= point.top.stamp else Mark(span.top), batch),
            last=(out[0], err[0]),
            open=(out[1], err[1]),
            distrust=self._went_back(batch, span.low),
            done=point.done,
        )

    def _went_back(self, batch: Batch, low: bytes) -> bytes:
        """The stamp that marks must pass before they count again, if the clock went back by over a second."""
        point, top = self._point, self._point.top.stamp
        if low >= top or stamp_ns(top) - stamp_ns(low) <= _SECOND_NS:
            return point.distrust
        stamps = [s.stamp if s and o else b"" for s, o in zip(point.last, point.open, strict=True)]
        for stream, stamp, data in zip(batch.streams, batch.stamps, batch.pieces, strict=True):
            # A later piece of an unfinished line bears the stamp of its first piece: old, and no sign of anything.
            continues = stamp == stamps[stream - 1]
            if not continues and stamp < top and stamp_ns(top) - stamp_ns(stamp) > _SECOND_NS:
                return max(point.distrust, top)
            stamps[stream - 1] = b"" if data.endswith(b"\n") else stamp
        return point.distrust

    def _move_marks(self) -> None:
        now = self._clock()
        point, newer = self._point, self._newer.stamp
        if now - self._moved < 1.0 or any(point.open) or point.top.stamp == newer:
            return
        if newer and stamp_ns(point.top.stamp) - stamp_ns(newer) < _SECOND_NS:
            return
        self._moved = now
        trusted = bool(point.distrust) and newer > point.distrust
        self._point = replace(point, mark=self._newer, distrust=b"" if trusted else point.distrust)
        self._newer = point.top


@frozen
class _Span:
    """What is needed of a batch again and again: its smallest and greatest stamp, and records per stream."""

    low: bytes
    top: bytes
    out: int
    err: int

    @classmethod
    def of(cls, batch: Batch) -> _Span:
        out = batch.streams.count(STDOUT)
        return cls(batch.low, batch.top, out, len(batch) - out)


def _counted(mark: Mark, batch: Batch, span: _Span) -> Mark:
    """The mark with the batch's records added that lie at or after it."""
    if span.low >= mark.stamp:
        return Mark(mark.stamp, mark.out + span.out, mark.err + span.err)
    if span.top < mark.stamp:
        return mark
    hits = [s for s, at in zip(batch.streams, batch.stamps, strict=True) if at >= mark.stamp]
    out = hits.count(STDOUT)
    return Mark(mark.stamp, mark.out + out, mark.err + len(hits) - out)


def _counted_at(top: Mark, batch: Batch) -> Mark:
    """The mark of the greatest stamp with the records added that have just that one: nearly always one."""
    streams = [batch.streams[at] for at in batch.stamped(top.stamp)]
    out = streams.count(STDOUT)
    return Mark(top.stamp, top.out + out, top.err + len(streams) - out) if streams else top


def _last(batch: Batch, number: int, seen: Seen | None, is_open: bool) -> tuple[Seen | None, bool]:
    """The last record had of a stream, and whether it ended without a newline."""
    at = batch.last(number)
    if at is None:
        return seen, is_open
    piece = batch.pieces[at]
    return Seen.of(batch.stamps[at], piece), not piece.endswith(b"\n")


def _places(batch: Batch, number: int, seen: Seen | None) -> list[int]:
    """Where in a batch this record of a stream is."""
    if seen is None:
        return []
    stamped = [at for at in batch.stamped(seen.stamp) if batch.streams[at] == number]
    return [at for at in stamped if Seen.of(seen.stamp, batch.pieces[at]) == seen]
