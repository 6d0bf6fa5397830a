# ruff: noqa: UP017, UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""Docker's log frames, packed: many whole lines in one block, so that distui need not look at each.

A frame is `u8 stream | 0 0 0 | u32 length | 30-byte stamp | space | bytes` (big-endian). A run of frames that are a
whole line each goes out as one block, which stands where a frame could: `u8 LINES | 0 0 0 | u32 length | u32 lines |
smallest stamp | greatest stamp`, then in columns the streams, the stamps, the stamps as UTC seconds (little-endian
doubles), the lines. All else is passed on as it came.
"""

import struct
from datetime import datetime, timezone

LINES = 0x80
"""What begins a block: no stream of Docker's."""
HEAD = struct.Struct(">BxxxII30s30s")
FRAME = struct.Struct(">BxxxI29s2s")
"""Docker's head: stream, length, stamp without its last letter, that letter and the space."""
SHORT = struct.Struct(">BxxxI")
BARE = 31
"""Length of a frame that has a stamp and nothing else."""
FEWEST = 16
"""Lines that are worth a block."""
LONGEST = 1 << 20
"""Bytes of a frame that is waited for; Docker's have 16 KiB."""
NEWLINE = 10


class Packer:
    """Reads of any size in, whole frames and blocks out. From what is no frame on, everything is passed on as it is."""

    def __init__(self) -> None:
        self.rest = b""
        """Part of a frame that is held back; goes out unpacked at the end."""
        self.foreign = False
        self.second = b""
        self.at = 0.0

    def pack(self, data: bytes) -> bytes:
        """What to send for the frames that `data` completes."""
        data, self.rest = self.rest + data, b""
        parts: list[bytes] = []
        pos = 0
        while not self.foreign:
            part, pos = self.lines(data, pos)
            odd = self.odd(data, pos)
            parts += [part, data[pos : pos + odd]]
            pos += odd
            if not odd:
                break
        if self.foreign:
            parts.append(data[pos:])
        else:
            self.rest = data[pos:]
        return b"".join(parts)

    def lines(self, data: bytes, pos: int) -> "tuple[bytes, int]":
        """The frames from `pos` on as long as they are whole lines, packed; and where they end."""
        streams: list[int] = []
        stamps: list[bytes] = []
        lines: list[bytes] = []
        unpack, begin, end = FRAME.unpack_from, pos, len(data)
        while pos + FRAME.size <= end:
            stream, length, stamp, mark = unpack(data, pos)
            after = pos + 8 + length
            if after > end or length <= BARE or data[after - 1] != NEWLINE or mark != b"Z " or not 0 < stream < 3:
                break
            streams.append(stream)
            stamps.append(stamp)
            lines.append(data[pos + 39 : after])
            pos = after
        return (data[begin:pos] if len(lines) < FEWEST else self.block(streams, stamps, lines) or data[begin:pos]), pos

    def odd(self, data: bytes, pos: int) -> int:
        """The size of the next frame, which is no line; 0 when it is not whole yet, or no frame at all."""
        if len(data) - pos < SHORT.size:
            return 0
        stream, length = SHORT.unpack_from(data, pos)
        self.foreign = not 0 < stream < 3 or length > LONGEST
        whole = not self.foreign and pos + SHORT.size + length <= len(data)
        return SHORT.size + int(length) if whole else 0

    def block(self, streams: "list[int]", stamps: "list[bytes]", lines: "list[bytes]") -> bytes:
        """The block of these lines; b"" when they are none after all."""
        low, top, text = min(stamps), max(stamps), b"".join(lines)
        try:
            times = self.times(low, top, stamps)
        except (TypeError, ValueError, OverflowError):
            return b""
        if text.count(b"\n") != len(lines):
            return b""
        packed = struct.pack("<%dd" % len(times), *times)
        body = b"".join([bytes(streams), b"Z".join(stamps), b"Z", packed, text])
        return HEAD.pack(LINES, HEAD.size - 8 + len(body), len(lines), low + b"Z", top + b"Z") + body

    def times(self, low: bytes, top: bytes, stamps: "list[bytes]") -> "list[float]":
        """When the stamps are. Raises TypeError, ValueError or OverflowError when they are no times."""
        parts = [float(stamp[19:]) for stamp in stamps]
        if not (sum(parts) <= len(parts) and min(parts) >= 0 and max(parts) <= 1):  # `nan`, too, is a float to Python
            raise ValueError("no fraction of a second")
        if low[:19] == top[:19]:
            at = self.moment(low)
            return [at + part for part in parts]
        return [self.moment(stamp) + float(stamp[19:]) for stamp in stamps]

    def moment(self, stamp: bytes) -> float:
        """The whole second of a stamp; raises the same."""
        if stamp[:19] != self.second:
            words = stamp[:10].split(b"-") + stamp[11:19].split(b":")
            when = datetime(*map(int, words), tzinfo=timezone.utc)  # type: ignore[arg-type,misc]
            self.at, self.second = when.timestamp(), stamp[:19]
        return self.at
