"""A private file that grows: what can't be written now waits in memory and goes first, in order, the next time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

from distui.files import open_private, open_to_read


class GrowingFile:
    """Bytes are appended once each, whatever the disk says in between. Opened by its first bytes, or by `open`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._waiting = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes that are not in the file yet."""
        return len(self._waiting)

    @property
    def torn(self) -> bool:
        """Whether the file ends within a line. Raises OSError."""
        with open_to_read(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read(1) not in (b"", b"\n")

    def hold(self, data: bytes) -> None:
        """Keep bytes for the next `write`."""
        self._waiting += data

    def open(self) -> IO[bytes]:
        """The file itself, unbuffered: what a write that failed has left is known to the byte. Raises OSError."""
        if self._file is None:
            self._file = open_private(self._path, buffering=0)
        return self._file

    def write(self) -> None:
        """Append all that waits. Raises OSError; what is in the file by then waits no more."""
        while self._waiting:
            del self._waiting[: self.open().write(self._waiting)]

    def close(self) -> None:
        """Close the file; never raises."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
