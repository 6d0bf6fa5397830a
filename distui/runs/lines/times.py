"""When each line of a log file was said: a file of its own beside it, eight bytes a line, on our clock.

Line `n` of `rank-00013.log` was said at the n-th little-endian double of `rank-00013.times`: UTC seconds since the
epoch, the engine's stamp minus the host's clock offset. Engines that stamp nothing (processes) give the moment the
line arrived. The log itself stays byte for byte what the rank wrote.
"""

from __future__ import annotations

import contextlib
import math
import struct
import sys
from array import array
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from distui.files import open_to_read
from distui.whole import FIRST, LAST, moment

WIDTH = 8
STAMP = len(b"2026-11-21T02:35:34.123456789Z")
"""Bytes of Docker's own stamps, which all look like this."""


def times_of(log: Path) -> Path:
    """The file of times that belongs to a log file."""
    return log.with_suffix(".times")


class Stamps:
    """Reads an engine's stamps (RFC 3339, any offset from UTC) fast: lines of one second share all but the fraction."""

    def __init__(self) -> None:
        self._second = b""
        self._at = 0.0

    def parse_all(self, stamps: Sequence[bytes]) -> Sequence[float | None]:
        """UTC seconds of each; None for what is no stamp."""
        if self._of_one_second(stamps):
            with contextlib.suppress(ValueError):
                times = [self._at + float(stamp[19:29]) for stamp in stamps]
                if math.isfinite(sum(times)) and self._at <= min(times) and max(times) <= self._at + 1:
                    return times
        return [self.parse(stamp.decode("ascii", "replace")) for stamp in stamps]

    def _of_one_second(self, stamps: Sequence[bytes]) -> bool:
        """Whether these are Docker's own, of the second in `_second`: at full speed nearly always."""
        if not stamps or set(map(len, stamps)) != {STAMP}:
            return False
        known = self.parse(stamps[0].decode("ascii", "replace")) is not None
        return known and min(stamps)[:19] == self._second == max(stamps)[:19]

    def parse(self, stamp: str) -> float | None:
        """UTC seconds; None when it is no stamp."""
        fraction = stamp[19:-1]
        if not stamp.endswith("Z") or (fraction and fraction[0] != "."):
            return _slowly(stamp)
        try:
            if stamp[:19].encode() != self._second:
                self._at = datetime.fromisoformat(stamp[:19] + "+00:00").timestamp()
                self._second = stamp[:19].encode()
            part = float(fraction) if len(fraction) > 1 else 0.0
        except ValueError:
            return None
        return self._at + part if part <= 1 else None


def _slowly(stamp: str) -> float | None:
    if len(stamp) < 20:  # without an offset from UTC nobody knows when that is
        return None
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment(at.timestamp()) if at.tzinfo is not None else None


def pack(moments: list[float]) -> bytes:
    """Times as they stand in the file."""
    return struct.pack(f"<{len(moments)}d", *moments)


def unpack(times: bytes) -> array[float]:
    """Times of a file as numbers."""
    moments = array("d", times)
    if sys.byteorder == "big":
        moments.byteswap()
    return moments


def read_times(path: Path, first: int, count: int) -> Sequence[float | None]:
    """Times of `count` lines from line `first` on; shorter where the file is, empty without one.

    None where what stands there is no time.
    """
    try:
        with open_to_read(path, buffering=0) as file:
            return times_in(file, first, count)
    except OSError:
        return ()


def times_in(file: BinaryIO, first: int, count: int) -> Sequence[float | None]:
    """The same from a file that is open. Raises OSError."""
    file.seek(first * WIDTH)
    data = file.read(count * WIDTH)
    found = unpack(data[: len(data) // WIDTH * WIDTH])
    if not found or (math.isfinite(sum(found)) and min(found) >= FIRST and max(found) <= LAST):
        return found
    return [moment(at) for at in found]
