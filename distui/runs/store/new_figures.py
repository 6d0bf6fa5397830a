"""Figures of a run (samples of its hosts, progress) as whoever follows it writes them, read on by another process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from distui.facts.values import loads
from distui.files import open_to_read
from distui.runs.lines.event_json import event_of
from distui.runs.lines.events import HostSampled, Progressed
from distui.runs.lines.text import WholeLines
from distui.runs.store.recorded import TAIL_BYTES
from distui.runs.store.runs import StoredRun

Figure = HostSampled | Progressed

CHUNK = 1 << 20
"""Bytes that are read at once."""


class NewFigures:
    """Reads `metrics.ndjson` on. Of a file that was shortened meanwhile only what comes from then on."""

    def __init__(self, stored: StoredRun) -> None:
        self._path = stored.path / "metrics.ndjson"
        self._lines = WholeLines()
        self._at = 0
        self._inode = 0

    def move(self, stored: StoredRun) -> None:
        """Read on in `stored`, a copy of the folder."""
        self._path = stored.path / "metrics.ndjson"
        with contextlib.suppress(OSError):
            self._inode = self._path.stat().st_ino

    def newest(self) -> list[Figure]:
        """The newest sample of each host and the newest progress there are; `read` goes on behind them."""
        self._at = max(0, self._size() - TAIL_BYTES)
        found: dict[str, Figure] = {}
        while figures := self.read():
            found |= {figure.host if isinstance(figure, HostSampled) else "": figure for figure in figures}
        return list(found.values())

    def read(self) -> list[Figure]:
        """What came since the last call; never raises."""
        with contextlib.suppress(OSError), open_to_read(self._path, buffering=0) as file:
            return list(self._figures(self._news(file)))
        return []

    def _news(self, file: BinaryIO) -> bytes:
        status = os.fstat(file.fileno())
        if (self._inode and status.st_ino != self._inode) or status.st_size < self._at:
            self._at, self._lines = status.st_size, WholeLines()
        self._inode = status.st_ino
        file.seek(self._at)
        data = file.read(CHUNK)
        self._at += len(data)
        return data

    def _figures(self, data: bytes) -> Iterator[Figure]:
        for line in self._lines.feed(data):
            with contextlib.suppress(ValueError):
                figure = event_of(loads(line))
                if isinstance(figure, HostSampled | Progressed):
                    yield figure

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
