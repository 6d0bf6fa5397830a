"""Where an answer begins behind what else comes on a channel, in bounded memory and linear time."""

from __future__ import annotations


class Behind:
    """Drops bytes up to a marker and keeps the last of them, for an error message.

    Each byte is looked at a bounded number of times, in reads of any size: a host may send for ever, a byte at a time.
    """

    def __init__(self, marker: bytes, *, kept: int = 2048) -> None:
        self._marker = marker
        self._kept = max(kept, len(marker))
        self._before = bytearray()
        self.dropped = 0
        """How many bytes came before the marker, as far as they are not kept any more."""

    @property
    def before(self) -> bytes:
        """The last of what came before the marker."""
        return bytes(self._before)

    def feed(self, data: bytes) -> bytes | None:
        """What follows the marker; None while it has not come. Not to be asked again afterwards."""
        begin = max(0, len(self._before) - len(self._marker) + 1)
        self._before += data
        at = self._before.find(self._marker, begin)
        if at >= 0:
            rest = bytes(self._before[at + len(self._marker) :])
            del self._before[at:]
            return rest
        if (over := len(self._before) - self._kept) > self._kept:  # now and then, not with every byte
            self.dropped += over
            del self._before[:over]
        return None
