# ruff: noqa: UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""Docker's log frames, packed: many whole lines in one block, so that distui need not look at each.

A frame is `u8 stream | 0 0 0 | u32 length | 30-byte stamp | space | bytes` (big-endian). A run of frames of one second
that are a whole line each goes out as one block, which stands where a frame could: `u8 LINES | 0 0 0 | u32 length |
u32 lines | the second as text, to the point | u32 smallest fraction | u32 greatest`, then in columns the streams, the
fractions of the stamps (nanoseconds, little-endian u32), the lines. All else is passed on as it came.
"""

import struct

LINES = 0x80
"""What begins a block: no stream of Docker's."""
HEAD = struct.Struct(">BxxxII20sII")
FRAME = struct.Struct(">BxxxI20s9s2s")
"""Docker's head: stream, length, stamp to the point, its fraction, its last letter and the space."""
SHORT = struct.Struct(">BxxxI")
BARE = 31
"""Length of a frame that has a stamp and nothing else."""
FEWEST = 8
"""Lines that are worth a block."""
LONGEST = 1 << 20
"""Bytes of a frame that is waited for; Docker's have 16 KiB."""
NEWLINE = 10
ZEROS = bytes.maketrans(b"123456789", b"000000000")
SECOND = b"0000-00-00T00:00:00."
"""The form of all seconds."""


class Packer:
    """Reads of any size in, whole frames and blocks out. From what is no frame on, everything is passed on as it is."""

    def __init__(self) -> None:
        self.rest = b""
        """Part of a frame that is held back; goes out unpacked at the end."""
        self.foreign = False

    def pack(self, data: bytes) -> bytes:
        """What to send for the frames that `data` completes."""
        data, self.rest = self.rest + data, b""
        parts: list[bytes] = []
        pos = 0
        while not self.foreign:
            part, after = self.lines(data, pos)
            if after == pos:
                after += self.odd(data, pos)
                part = data[pos:after]
            if after == pos:
                break
            parts.append(part)
            pos = after
        if self.foreign:
            parts.append(data[pos:])
        else:
            self.rest = data[pos:]
        return b"".join(parts)

    def lines(self, data: bytes, pos: int) -> "tuple[bytes, int]":
        """The frames from `pos` on as long as they are whole lines of one second, packed; and where they end."""
        streams: list[int] = []
        fractions: list[bytes] = []
        lines: list[bytes] = []
        unpack, begin, end, second = FRAME.unpack_from, pos, len(data), data[pos + 8 : pos + 28]
        while pos + FRAME.size <= end:
            stream, length, when, fraction, mark = unpack(data, pos)
            after = pos + 8 + length
            if after > end or length <= BARE or data[after - 1] != NEWLINE or when != second or mark != b"Z ":
                break
            streams.append(stream)
            fractions.append(fraction)
            lines.append(data[pos + 39 : after])
            pos = after
        if len(lines) < FEWEST:
            return data[begin:pos], pos
        return self.block(second, streams, fractions, lines) or data[begin:pos], pos

    def odd(self, data: bytes, pos: int) -> int:
        """The size of the next frame, which is no line; 0 when it is not whole yet, or no frame at all."""
        if len(data) - pos < SHORT.size:
            return 0
        stream, length = SHORT.unpack_from(data, pos)
        self.foreign = not 0 < stream < 3 or length > LONGEST
        whole = not self.foreign and pos + SHORT.size + length <= len(data)
        return SHORT.size + int(length) if whole else 0

    def block(self, second: bytes, streams: "list[int]", fractions: "list[bytes]", lines: "list[bytes]") -> bytes:
        """The block of these lines; b"" when they are none after all."""
        text, count = b"".join(lines), len(lines)
        odd = second.translate(ZEROS) != SECOND or not b"".join(fractions).isdigit() or min(streams) < 1
        if odd or max(streams) > 2 or text.count(b"\n") != count:
            return b""
        nanos = list(map(int, fractions))
        body = b"".join([bytes(streams), struct.pack("<%dI" % count, *nanos), text])
        return HEAD.pack(LINES, HEAD.size - 8 + len(body), count, second, min(nanos), max(nanos)) + body
