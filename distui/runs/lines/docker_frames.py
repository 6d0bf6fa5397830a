"""Docker's log frames -> batches, a whole read at a time.

A frame is `u8 stream | 0 0 0 | u32 length | 30-byte stamp | space | bytes` (big-endian), as the Engine API sends it
with `timestamps=1`. Records are kept as three columns: at 170,000 records a second one object each would cost more
than the connection. Stamps stay text: they have a fixed width, so they compare as bytes like the times they mean.
Whole lines that the host's helper has packed (`agent/pack.py`) come as columns already.
"""

from __future__ import annotations

import calendar
import math
import struct
import time

from distui.agent.pack import HEAD, LINES
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.columns import LineColumn, StampColumn
from distui.runs.lines.times import STAMP
from distui.runs.lines.times import unpack as unpack_times

_SECOND_NS = 1_000_000_000

_DAEMON = 3
"""Stream of the daemon's own words: the log can't be read on."""

_STREAMS = bytes((STDOUT, STDERR))

_FRAME = struct.Struct(">BxxxI30sx")
_SHORT = struct.Struct(">BxxxI")
_SHORTEST = _FRAME.size - 8
_PACKED = 1 + STAMP + 8
"""Bytes in a block for each line besides its text: stream, stamp, time."""
_FRAME_LIMIT = 4 << 20
"""What is waited for at most, and copied with each read. Docker's frames are of 16 KiB, a block is below 2 MiB."""


class BadFrame(ValueError):
    """The bytes are not Docker frames: a container with a tty, or not Docker at all."""


class FrameParser:
    """Turns reads of any size into batches; a frame cut by the end of a read waits for the next one."""

    def __init__(self) -> None:
        self._rest = b""
        self.daemon_error = ""
        """What dockerd said instead of a record (`Error grabbing logs: ...`)."""

    @property
    def cut(self) -> bool:
        """Whether part of a frame is held back."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[Batch]:
        """The records that `data` completes. Raises BadFrame when these are no frames."""
        buf = self._rest + data if self._rest else data
        batches, pos, begin = [], 0, -1
        while begin < pos < len(buf):
            begin = pos
            pos, batch = self._blocks(buf, pos) if buf[pos] == LINES else self._records(buf, pos)
            batches += [batch] if len(batch) else []
        self._rest = buf[pos:]
        return batches

    def _blocks(self, buf: bytes, pos: int) -> tuple[int, Batch]:
        """The whole blocks of lines from `pos` on, in one; and where they end."""
        columns: list[tuple[bytes, bytes, bytes, bytes]] = []
        lows, tops, count = [], [], 0
        while len(buf) - pos >= HEAD.size and buf[pos] == LINES:
            _, length, lines, low, top = HEAD.unpack_from(buf, pos)
            begin, end = pos + HEAD.size, pos + 8 + length
            if begin + lines * _PACKED > end or length > _FRAME_LIMIT or not lines:
                raise BadFrame(f"a block of {lines} lines in {length} bytes")
            if end > len(buf):
                break
            columns.append(_cut_block(buf, begin, lines, end))
            lows.append(low)
            tops.append(top)
            count, pos = count + lines, end
        if not columns:
            return pos, Batch()
        streams, stamps, times, text = map(b"".join, zip(*columns, strict=True))
        if text.count(b"\n") != count or not text.endswith(b"\n") or streams.translate(None, _STREAMS):
            raise BadFrame(f"a block that is not of {count} lines")
        low, top = min(lows), max(tops)
        _refuse_odd_times(times, low, top)
        return pos, Batch(streams, StampColumn(stamps, low, top, times), LineColumn(text, count))

    def _records(self, buf: bytes, pos: int) -> tuple[int, Batch]:
        """The frames from `pos` on up to a block. Columns: thousands of live tuples would set the collector off."""
        streams: list[int] = []
        stamps: list[bytes] = []
        pieces: list[bytes] = []
        unpack, add_stream, add_stamp, add_piece = _FRAME.unpack_from, streams.append, stamps.append, pieces.append
        end = len(buf)
        last_start = end - _FRAME.size
        while pos <= last_start:
            stream, length, stamp = unpack(buf, pos)
            after = pos + 8 + length
            if stream == LINES or after > end:
                break
            if length < _SHORTEST or not 0 < stream < _DAEMON:
                pos = self._odd(buf, pos)
                continue
            add_stream(stream)
            add_stamp(stamp)
            add_piece(buf[pos + 39 : after])
            pos = after
        return self._behind(buf, pos), Batch(tuple(streams), tuple(stamps), tuple(pieces))

    def _behind(self, buf: bytes, pos: int) -> int:
        """Take what is behind the records and has no stamp; where what is held back begins. Raises BadFrame."""
        end = len(buf)
        while end - pos >= 8 and buf[pos] != LINES and pos + 8 + _SHORT.unpack_from(buf, pos)[1] <= end:
            pos = self._odd(buf, pos)
        if end - pos >= 4 and buf[pos + 1 : pos + 4] != b"\0\0\0":
            raise BadFrame(f"not a Docker log frame: {buf[pos : pos + 8]!r}")
        if end - pos >= 8 and (length := _SHORT.unpack_from(buf, pos)[1]) > _FRAME_LIMIT:
            raise BadFrame(f"a frame of {length} bytes")
        return pos

    def _odd(self, buf: bytes, pos: int) -> int:
        """A frame without stamp: the daemon's error, or garbage."""
        stream, length = _SHORT.unpack_from(buf, pos)
        body = buf[pos + 8 : pos + 8 + length]
        if stream != _DAEMON or buf[pos + 1 : pos + 4] != b"\0\0\0":
            raise BadFrame(f"not a Docker log frame: {buf[pos : pos + 8]!r}")
        self.daemon_error = body.decode("utf-8", "replace").strip()
        return pos + 8 + int(length)


def _cut_block(buf: bytes, begin: int, lines: int, end: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Streams, stamps, times and text of a block."""
    stamps, times = begin + lines, begin + lines * (1 + STAMP)
    text = begin + lines * _PACKED
    return buf[begin:stamps], buf[stamps:times], buf[times:text], buf[text:end]


def _refuse_odd_times(times: bytes, low: bytes, top: bytes) -> None:
    """Raises BadFrame when not all times of a block lie in the seconds of its stamps: they go to files as they are."""
    try:
        first, last = stamp_ns(low) // _SECOND_NS, stamp_ns(top) // _SECOND_NS + 1
    except ValueError as error:
        raise BadFrame(f"a block whose stamps are no times: {error}") from error
    moments = unpack_times(times)
    if not math.isfinite(sum(moments)) or min(moments) < first or max(moments) > last:
        raise BadFrame("a block whose times are not those of its stamps")


def stamp_ns(stamp: bytes) -> int:
    """`2026-11-21T02:35:34.123456789Z` (nine decimals or fewer, `Z` or `+01:00`) in nanoseconds since the epoch.

    Raises ValueError when it is no such time.
    """
    text = stamp.decode("ascii")
    year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
    whole = (year, month, day, int(text[11:13]), int(text[14:16]), int(text[17:19]), 0, 0, 0)
    rest = text[19:]
    digits, zone = _split_fraction(rest)
    nanos = int(digits.ljust(9, "0")[:9]) if digits else 0
    return (calendar.timegm(whole) - _zone_seconds(zone)) * 1_000_000_000 + nanos


def _split_fraction(rest: str) -> tuple[str, str]:
    if not rest.startswith("."):
        return "", rest
    digits = rest[1:].rstrip("Z") if rest.endswith("Z") else rest[1 : max(rest.find("+"), rest.find("-"))]
    return digits, rest[1 + len(digits) :]


def _zone_seconds(zone: str) -> int:
    if zone in ("Z", ""):
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)


def stamp_at(ns: int) -> bytes:
    """Nanoseconds since the epoch as Docker writes them: nine decimals and `Z`."""
    seconds, nanos = divmod(ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanos


def since(stamp: bytes) -> str:
    """The stamp as the API's `since`: `seconds.nanoseconds`, which is inclusive and exact (FOLLOW §4)."""
    seconds, nanos = divmod(stamp_ns(stamp), 1_000_000_000)
    return f"{seconds}.{nanos:09d}"
