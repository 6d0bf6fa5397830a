"""Podman's k8s-file log: `stamp stdout|stderr F|P text` per line; P is a piece of a line that goes on."""

from __future__ import annotations

from distui.frozen import frozen
from distui.runs.lines.batch import STDERR, STDOUT, Batch

_LINE_LIMIT = 64 << 20
"""A line that is longer is none of Podman's, which are of some KiB, and is not kept in memory."""

_STREAMS = {b"stdout": STDOUT, b"stderr": STDERR}


@frozen
class CriBatch:
    """Records, the file's bytes they took, and the lines that were no records."""

    batch: Batch
    size: int
    bad: int


class CriParser:
    """Turns reads of any size into records. Counts only whole lines: resume at the offset after the last one."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> CriBatch:
        """The records that `data` completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        rows = [row for row in map(_row, lines) if row is not None]
        size, bad = sum(map(len, lines)) + len(lines), len(lines) - len(rows)
        if len(self._rest) > _LINE_LIMIT:
            size, bad, self._rest = size + len(self._rest), bad + 1, b""
        if not rows:
            return CriBatch(Batch(), size, bad)
        streams, stamps, pieces = zip(*rows, strict=True)
        return CriBatch(Batch(streams, stamps, pieces), size, bad)


def _row(line: bytes) -> tuple[int, bytes, bytes] | None:
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in _STREAMS or parts[2] not in (b"F", b"P"):
        return None
    return _STREAMS[parts[1]], parts[0], parts[3] + (b"\n" if parts[2] == b"F" else b"")
