"""Files that another process of this machine writes, read on: each line of them once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from distui.files import open_to_read
from distui.frozen import frozen
from distui.runs.lines.text import WholeLines
from distui.runs.lines.times import WIDTH, times_of
from distui.runs.store.logs import saved_lengths
from distui.runs.store.runs import StoredRun

CHUNK = 1 << 20
"""Bytes of a file that are read at once."""


class NewLines:
    """A file that grows, read from a position on."""

    def __init__(self, path: Path, at: int = 0, inode: int = 0) -> None:
        self.path = path
        self.at = at
        self.lines = WholeLines()
        self._inode = inode
        """Of the file that is read: another one in its place is the next attempt's."""

    def move(self, folder: Path) -> None:
        """Read on in the copy that is in `folder`."""
        self.path = folder / self.path.name
        self._inode = inode_of(self.path)

    def read(self, until: int | None = None) -> list[bytes]:
        """Lines completed since the last call, of at most CHUNK bytes. A shorter file is being rewritten."""
        return self.lines.feed(self._news(until))

    def _news(self, until: int | None = None) -> bytes:
        try:
            now = self.path.stat()
            self._inode = self._inode or now.st_ino
            if now.st_ino != self._inode or now.st_size <= self.at:
                return b""
            with open_to_read(self.path) as file:
                if os.fstat(file.fileno()).st_ino != self._inode:  # the next attempt's, since a moment ago
                    return b""
                file.seek(self.at)
                data = file.read(CHUNK if until is None else min(CHUNK, until - self.at))
        except OSError:
            return b""
        self.at += len(data)
        return data


MARK_BYTES = 4 << 20
"""So far apart are places up to which a log may turn out to stay as it is."""

Cut = tuple[int, int]
"""When the logs of a run were last cut back, as a value that is another one each time."""
NO_CUT: Cut = (0, 0)


@frozen
class LogBegin:
    """Where a log is read from on."""

    at: int = 0
    base: int = 0
    """Up to where it is not cut back any more: before that its lines stay as they are."""
    passed: int = 0
    """Line ends between these two."""
    lines: int = 0
    """Whole lines before `at`."""


class NewLogLines(NewLines):
    """The same for a log. Its next owner cuts it back to its checkpoint and writes the same lines again, which may have
    other lengths: it may know other values of secrets than the one before.
    """

    def __init__(self, path: Path, begin: LogBegin, cut: Cut) -> None:
        super().__init__(path, begin.at, inode_of(path))
        self._base = begin.base
        self._passed = begin.passed
        """Line ends that were read by now, behind the base."""
        self._marks: deque[tuple[int, int]] = deque()
        """Places behind it: where they are, and how many line ends are in between."""
        self._skip = 0
        """How many of them are to be passed again, since the log was cut."""
        self._cut = cut

    def read(self, until: int | None = None) -> list[bytes]:
        """See NewLines."""
        while True:
            skipping, data = self._skip > 0, self._news(until)
            cut = cut_of(self.path.parent.parent)  # asked after reading: what is written again comes after the cut
            if cut != self._cut:
                self._cut, self.at, self._skip, self.lines = cut, self._base, self._passed, WholeLines()
                self._marks.clear()
                if cut != NO_CUT:
                    self._inode = inode_of(self.path)  # one that was removed is written again as another file
                continue
            new = self._without_skipped(data)
            if new or not (skipping and data):
                self._passed += new.count(b"\n")
                if b"\n" in new:
                    self._mark(self.at - len(new) + new.rindex(b"\n") + 1)
                return self.lines.feed(new)

    def _mark(self, end: int) -> None:
        """Note now and then where the last line ends, and what of that is not cut back any more: else all that was said
        since it is read would be passed again when its owner changes, which takes long after days.
        """
        if end - (self._marks[-1][0] if self._marks else self._base) < MARK_BYTES:
            return
        self._marks.append((end, self._passed))
        kept = saved_lengths(StoredRun(self.path.parent.parent)).get(self.path.name, 0)
        if safe := [mark for mark in self._marks if mark[0] <= kept]:
            self._base, passed = safe[-1]
            self._passed -= passed
            self._marks = deque((at, ends - passed) for at, ends in self._marks if at > self._base)

    def _without_skipped(self, data: bytes) -> bytes:
        """What is behind the lines that were read before the log was cut."""
        if not self._skip:
            return data
        if (ends := data.count(b"\n")) < self._skip:
            self._skip -= ends
            return b""
        at = 0
        for _ in range(self._skip):
            at = data.index(b"\n", at) + 1
        self._skip = 0
        return data[at:]


def begins_of(stored: StoredRun) -> dict[str, LogBegin]:
    """Name of a log -> its end as it is now, but for a line that has no end yet."""
    saved = saved_lengths(stored)
    return {path.name: _begin(path, saved) for path in stored.log_dir.glob("*.log")}


def _begin(path: Path, saved: Mapping[str, int]) -> LogBegin:
    """The end of a log, of which an owner that goes on keeps as much as was `saved`. Lines up to there are known by
    their times: the log itself may have gigabytes.
    """
    kept, begun = saved.get(path.name, 0), saved.get(times_of(path).name, 0) // WIDTH
    try:
        with open_to_read(path) as file:
            at = base = end = file.seek(max(0, min(kept, size_of(path))))
            torn = base > 0 and os.pread(file.fileno(), 1, base - 1) != b"\n"
            passed = 0
            while data := file.read(CHUNK):
                if ends := data.count(b"\n"):
                    passed, at = passed + ends, end + data.rindex(b"\n") + 1
                end += len(data)
    except OSError:
        return LogBegin()
    return LogBegin(at, base, passed, max(0, begun - torn) + passed)


def cut_of(folder: Path) -> Cut:
    """When the logs in a run's folder were cut back."""
    try:
        found = StoredRun(folder).cut_file.stat()
    except OSError:
        return NO_CUT
    return (found.st_ino, found.st_mtime_ns)


def inode_of(path: Path) -> int:
    """0 for a file that is not there yet."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def size_of(path: Path) -> int:
    """0 for a file that is not there yet."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
