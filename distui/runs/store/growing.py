"""A private file that grows: what can't be written now waits in memory and goes first, in order, the next time."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from pathlib import Path
from typing import IO

from distui.files import open_private, open_to_read
from distui.runs.store.open_files import most_logs


class Changed(OSError):
    """Somebody else emptied, cut, removed, replaced or wrote to the file."""


class _Pool:
    """The files that are open, the one written to last at the end: a run may have more than may be open at once."""

    def __init__(self) -> None:
        self._open: dict[GrowingFile, None] = {}

    def used(self, file: GrowingFile) -> None:
        """It is open and written to; another one is closed where there are too many."""
        self._open.pop(file, None)
        self._open[file] = None
        if len(self._open) > most_logs():
            next(iter(self._open)).close()

    def closed(self, file: GrowingFile) -> None:
        """It is open no longer."""
        self._open.pop(file, None)


_POOL = _Pool()


class GrowingFile:
    """Bytes are appended once each, whatever the disk says in between. Opened when there is something to write, or by
    `open`; closed again, to be opened again, while others are written to and there are too many of them.
    """

    def __init__(self, path: Path, *, ours: bool = False) -> None:
        self._path = path
        self._ours = ours
        """Whether it counts that nobody else touches it: it must then hold just what was written here."""
        self._known: tuple[int, int] | None = None
        """Its inode and size as this process left them."""
        self._file: IO[bytes] | None = None
        self._waiting: deque[memoryview] = deque()

    @property
    def waiting(self) -> int:
        """Bytes that are not in the file yet."""
        return sum(map(len, self._waiting))

    @property
    def torn(self) -> bool:
        """Whether the file ends within a line. Raises OSError."""
        with open_to_read(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read(1) not in (b"", b"\n")

    def hold(self, data: bytes) -> None:
        """Keep bytes for the next `write`."""
        if data:
            self._waiting.append(memoryview(data))

    def open(self) -> IO[bytes]:
        """The file itself, unbuffered: what a write that failed has left is known to the byte. Raises OSError."""
        if self._file is None:
            self._file = open_private(self._path, buffering=0)
            if self._known is None:
                self._known = self._found()
        _POOL.used(self)
        return self._file

    def _found(self) -> tuple[int, int]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (stat.st_ino, stat.st_size)

    def refuse_changed(self) -> None:
        """Raise Changed when the file is `ours` and another than it was left."""
        if self._ours and self._known is not None and self._found() != self._known:
            raise Changed(errno.ESTALE, f"somebody emptied, removed or changed {self._path.name} here", str(self._path))

    def write(self) -> None:
        """Append all that waits. Raises OSError; what is in the file by then waits no more.

        Raises Changed, and writes nothing, when the file is `ours` and another than it was left.
        """
        if self._waiting:
            self.refuse_changed()
        while self._waiting:
            count = self.open().write(self._waiting[0])
            self._waiting[0] = self._waiting[0][count:]
            if not self._waiting[0]:
                self._waiting.popleft()
            if self._known is not None:
                self._known = (self._known[0], self._known[1] + count)

    def close(self) -> None:
        """Close the file; never raises."""
        _POOL.closed(self)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
