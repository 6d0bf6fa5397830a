"""Frames of the host's helper, on our side: bytes of any size in, whole frames out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from distui.agent.helper.wire import GREETING
from distui.framing import Behind

_HEAD = struct.Struct(">IHcx")
_NOISE_LIMIT = 1 << 20
_FRAME_LIMIT = 4 << 20
"""Twice what the helper ever puts into one: a host that promises more does not get our memory."""


class Frame(NamedTuple):
    """One frame: H, S, D, E or M, and the id of the request it belongs to (0: the helper itself)."""

    ident: int
    kind: bytes
    payload: bytes


class NoHelper(Exception):
    """What came is no helper: its greeting is missing after much other text, or a frame is beyond all measure."""


class FrameReader:
    """Finds the greeting behind what a login shell printed, then cuts frames. Lengths are trusted after it.

    The greeting holds the `word` the helper was started with, so that nothing else that prints can pass for it.
    """

    def __init__(self, word: str) -> None:
        self._before = Behind(GREETING + word.encode() + b"\n")
        self._rest = b""
        self.greeted = False

    @property
    def noise(self) -> str:
        """The last of what came instead of a greeting, in words."""
        return "" if self.greeted else self._before.before[-500:].decode("utf-8", "replace").strip()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. Raises NoHelper: no greeting in 1 MiB, a frame too long."""
        if not self.greeted:
            answer = self._greeting(data)
            if answer is None:
                return
            data = answer
        self._rest = self._rest + data if self._rest else data
        buf, pos, end = self._rest, 0, len(self._rest)
        while pos + 8 <= end:
            length, ident, kind = _HEAD.unpack_from(buf, pos)
            if length > _FRAME_LIMIT:
                raise NoHelper(f"the helper announced {length} bytes at once")
            after = pos + 8 + length
            if after > end:
                break
            yield Frame(ident, kind, buf[pos + 8 : after])
            pos = after
        self._rest = buf[pos:]

    def _greeting(self, data: bytes) -> bytes | None:
        """What follows the greeting; None while it has not come."""
        answer = self._before.feed(data)
        if answer is None and self._before.dropped > _NOISE_LIMIT:
            raise NoHelper("the login printed over 1 MiB and no helper came")
        self.greeted = answer is not None
        return answer
