"""Docker's log frames -> batches, a whole read at a time.

A frame is `u8 stream | 0 0 0 | u32 length | 30-byte stamp | space | bytes` (big-endian), as the Engine API sends it
with `timestamps=1`. Records are kept as three columns: at 170,000 records a second one object each would cost more
than the connection. Stamps stay text: they have a fixed width, so they compare as bytes like the times they mean.
Whole lines that the host's helper has packed (`agent/helper/pack.py`) come as columns already.
"""

from __future__ import annotations

import calendar
import operator
import struct
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from distui.agent.helper.pack import HEAD, LINES
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.columns import LineColumn, Second, StampColumn, unpack_nanos
from distui.runs.lines.times import STAMP
from distui.whole import whole

_SECOND_NS = 1_000_000_000
_POINT, _UTC = ord("."), ord("Z")

_DAEMON = 3
"""Stream of the daemon's own words: the log can't be read on."""

_STREAMS = bytes((STDOUT, STDERR))

_FRAME = struct.Struct(">BxxxI30sx")
_SHORT = struct.Struct(">BxxxI")
_SHORTEST = _FRAME.size - 8
_PACKED = 1 + 4
"""Bytes in a block for each line besides its text: stream, fraction of its stamp."""
_FRAME_LIMIT = 4 << 20
"""What is waited for at most, and copied with each read. Docker's frames are of 16 KiB, a block is below 2 MiB."""


class BadFrame(ValueError):
    """The bytes are not Docker frames: a container with a tty, or not Docker at all."""


class _Block(NamedTuple):
    """What the helper has packed."""

    second: bytes
    low: int
    top: int
    streams: bytes
    nanos: bytes
    text: bytes


_second_of = operator.attrgetter("second")


class FrameParser:
    """Turns reads of any size into batches; a frame cut by the end of a read waits for the next one."""

    def __init__(self) -> None:
        self._rest = b""
        self._known = (b"", 0.0)
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
        blocks = []
        while len(buf) - pos >= HEAD.size and buf[pos] == LINES:
            block, after = self._block(buf, pos)
            if block is None:
                break
            blocks.append(block)
            pos = after
        return pos, self._joined(blocks) if blocks else Batch()

    def _block(self, buf: bytes, pos: int) -> tuple[_Block | None, int]:
        """The block at `pos`, None when it is not whole yet; and where it ends. Raises BadFrame."""
        _, length, lines, second, low, top = HEAD.unpack_from(buf, pos)
        begin, end = pos + HEAD.size, pos + 8 + length
        fractions, text = begin + lines, begin + lines * _PACKED
        if text > end or length > _FRAME_LIMIT or not lines or not low <= top < _SECOND_NS:
            raise BadFrame(f"a block of {lines} lines in {length} bytes")
        if end > len(buf):
            return None, end
        return _Block(second, low, top, buf[begin:fractions], buf[fractions:text], buf[text:end]), end

    def _joined(self, blocks: Sequence[_Block]) -> Batch:
        """Blocks in a row as one batch. Raises BadFrame when they do not hold the lines that they promise."""
        streams, text = b"".join([block.streams for block in blocks]), b"".join([block.text for block in blocks])
        count = len(streams)
        if text.count(b"\n") != count or not text.endswith(b"\n") or streams.translate(None, _STREAMS):
            raise BadFrame(f"blocks that are not of {count} lines")
        seconds = [self._stamps(second, list(group)) for second, group in groupby(blocks, _second_of)]
        return Batch(streams, StampColumn(seconds), LineColumn(text, count))

    def _stamps(self, second: bytes, blocks: Sequence[_Block]) -> Second:
        """The stamps of blocks of one second. Raises BadFrame."""
        low, top = min(block.low for block in blocks), max(block.top for block in blocks)
        return Second(second, self._at(second), unpack_nanos(b"".join([block.nanos for block in blocks])), low, top)

    def _at(self, text: bytes) -> float:
        """A second's text as UTC seconds. Raises BadFrame."""
        if text != self._known[0]:
            try:
                self._known = (text, float(stamp_ns(text + b"0Z") // _SECOND_NS))
            except ValueError as error:
                raise BadFrame(f"a block whose stamps are no times: {error}") from error
        return self._known[1]

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


def stamp_ns(stamp: bytes) -> int:
    """`2026-11-21T02:35:34.123456789Z` (nine decimals or fewer, `Z` or `+01:00`) in nanoseconds since the epoch.

    Raises ValueError when it is no such time.
    """
    second = _whole_second(stamp[:19])
    as_docker = len(stamp) == STAMP and stamp[19] == _POINT and stamp[29] == _UTC
    if as_docker and (nanos := whole(stamp[20:29])) is not None:
        return second * _SECOND_NS + nanos
    digits, zone = _split_fraction(stamp[19:].decode("ascii"))
    return (second - _zone_seconds(zone)) * _SECOND_NS + (int(digits.ljust(9, "0")[:9]) if digits else 0)


@lru_cache(maxsize=64)
def _whole_second(stamp: bytes) -> int:
    """`2026-11-21T02:35:34` in seconds since the epoch. Raises ValueError when it is no such time."""
    text = stamp.decode("ascii")
    year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
    return calendar.timegm((year, month, day, int(text[11:13]), int(text[14:16]), int(text[17:19]), 0, 0, 0))


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
