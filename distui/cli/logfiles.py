"""Logs of a run from the files on this machine, once or as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from distui.cli.loglines import LogOut
from distui.run.docker_frames import stamp_at
from distui.run.events import LogLine
from distui.run.lines import WholeLines, text_of
from distui.run.store import StoredRun
from distui.run.times import times_in, times_of

CHUNK = 1 << 20
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RankFile:
    """The log file of one rank; rank None is a launcher's own."""

    rank: int | None
    host: str
    path: Path
    name: str = ""
    """What the rank is called, where it is more than a number."""


def rank_files(stored: StoredRun) -> list[RankFile]:
    """The log files the run has or will have, by rank, launchers' own last."""
    plan = stored.read_plan() or {}
    ranks: list[RankFile] = []
    nodes: list[RankFile] = []
    for task in plan.get("tasks") or ():
        name = task["name"] if (task.get("labels") or {}).get("distui.name") else ""
        ranks += [RankFile(r, task["host"], stored.rank_log(r), name) for r in task["ranks"]]
        nodes.append(RankFile(None, task["host"], stored.node_log(task["index"])))
    ranks.sort(key=lambda f: f.rank if f.rank is not None else -1)
    return [*ranks, *(n for n in nodes if n.path.exists() or plan.get("launcher") == "torchrun")]


async def show(stored: StoredRun, out: LogOut, *, follow: bool) -> None:
    """Write the wanted lines of every rank; with `follow` go on until the run is over or stdout closed."""
    files = [f for f in rank_files(stored) if out.wanted.rank(f.rank)]
    ranks = [f for f in files if f.rank is not None]
    out.open({f.rank or 0: f.host for f in ranks}, {f.rank or 0: f.name for f in ranks if f.name})
    readers = [_Reader(f, timed=bool(out.writer.timestamps or out.wanted.since)) for f in files]
    try:
        for reader in readers:
            reader.seek_tail(out.wanted.tail)
            await _copy(reader, out, to_end=not follow)
        while follow and not out.closed:
            over = not stored.is_followed  # asked before reading: what came until then is read
            for reader in readers:
                await _copy(reader, out, to_end=over)
            if over:
                break
            await asyncio.sleep(POLL_SECONDS)
    finally:
        for reader in readers:
            reader.close()
    await out.outlet.drain()


async def _copy(reader: _Reader, out: LogOut, *, to_end: bool) -> None:
    for lines in reader.lines(to_end=to_end):
        if out.closed:
            return
        await out.lines(reader.file.rank, reader.file.host, lines)
        await asyncio.sleep(0)


class _Reader:
    """Reads one file in whole lines, a megabyte at a time; `timed` with the time of each from the file beside it."""

    def __init__(self, file: RankFile, *, timed: bool) -> None:
        self.file = file
        self._timed = timed
        self._open: BinaryIO | None = None
        self._times: BinaryIO | None = None
        self._lines = WholeLines()
        self._line = 0
        """The number of the next line."""

    def lines(self, *, to_end: bool) -> Iterator[Sequence[LogLine]]:
        """Lines that are complete by now; with `to_end` also a last one without newline."""
        moved = self._moved()
        yield from self._read_on(to_end=to_end or moved)
        if moved:  # the run's next attempt has begun, with a file of its own
            self.close()
            yield from self._read_on(to_end=to_end)

    def _read_on(self, *, to_end: bool) -> Iterator[Sequence[LogLine]]:
        handle = self._handle()
        while handle is not None and (data := handle.read(CHUNK)):
            yield self._dated(self._lines.feed(data))
        if to_end:
            yield self._dated(self._lines.rest())

    def _dated(self, lines: list[bytes]) -> Sequence[LogLine]:
        if not self._timed:
            return [LogLine("stdout", text_of(line)) for line in lines]
        times = times_in(self._times, self._line, len(lines)) if self._times is not None else ()
        self._line += len(lines)
        stamps = [stamp_at(round(at * 1e6) * 1000).decode() for at in times]
        stamps += [""] * (len(lines) - len(stamps))
        return [LogLine("stdout", text_of(line), stamp) for line, stamp in zip(lines, stamps, strict=True)]

    def _moved(self) -> bool:
        """Whether another file has taken the place of the one that is read."""
        if self._open is None:
            return False
        try:
            return not os.path.samestat(self.file.path.stat(), os.fstat(self._open.fileno()))
        except FileNotFoundError:
            return False

    def seek_tail(self, count: int | None) -> None:
        """Begin `count` lines before the end."""
        handle = self._handle()
        if count is None or handle is None:
            return
        start, left = _tail_start(handle, count), 0
        if self._timed:
            handle.seek(0)
            while data := handle.read(min(CHUNK, start - left)):
                self._line += data.count(b"\n")
                left += len(data)
        handle.seek(start)

    def _handle(self) -> BinaryIO | None:
        if self._open is None:
            with contextlib.suppress(FileNotFoundError):
                self._open = self.file.path.open("rb")
                self._times = times_of(self.file.path).open("rb", buffering=0) if self._timed else None
        return self._open

    def close(self) -> None:
        for file in (self._open, self._times):
            if file is not None:
                file.close()
        self._open = self._times = None
        self._line = 0


def _tail_start(handle: BinaryIO, count: int) -> int:
    """Where the last `count` lines begin, looked for from the end."""
    end = start = handle.seek(0, os.SEEK_END)
    newlines = 0
    while start > 0 and count:
        size = min(CHUNK, start)
        start -= size
        handle.seek(start)
        data = handle.read(size)
        if start + size == end and not data.endswith(b"\n"):
            newlines += 1  # the last line's own is missing
        if (before := newlines + data.count(b"\n")) > count:
            at = -1
            for _ in range(before - count):
                at = data.index(b"\n", at + 1)
            return start + at + 1
        newlines = before
    return start
