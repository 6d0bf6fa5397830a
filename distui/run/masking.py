"""Values of a job's secrets, hidden in what its ranks print: in the log files, and so in all that reads them."""

from __future__ import annotations

from collections.abc import Mapping

from distui.run.line_block import LineBlock

HIDDEN = b"***"

SHORTEST = 6
"""Bytes of the shortest value that is hidden: shorter ones are words that logs are full of."""


class Mask:
    """Knows the values. A value is found as it stands, in one line; not encoded in any way."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        values = [(value.encode("utf-8", "surrogateescape"), name) for name, value in secrets.items()]
        self._values = sorted((v for v in values if len(v[0]) >= SHORTEST), key=lambda v: -len(v[0]))

    def hide(self, block: LineBlock, data: bytes) -> tuple[LineBlock, bytes, tuple[str, ...]]:
        """The block and its bytes with each value as `***`, and the names of the secrets that were in it."""
        found = tuple(name for value, name in self._values if value in data)
        if not found:
            return block, data, ()
        hidden = LineBlock(block.streams, block.stamps, [self._hide(piece) for piece in block.pieces])
        return hidden, hidden.data, found

    def _hide(self, piece: bytes) -> bytes:
        for value, _ in self._values:  # the longest first: one may be part of another
            piece = piece.replace(value, HIDDEN)
        return piece


NOTHING = Mask({})
