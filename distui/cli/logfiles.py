"""Logs of a run from the files on this machine, once or as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from distui.cli import runs
from distui.cli.loglines import LogOut
from distui.run.events import LogLine
from distui.run.lines import text_of
from distui.run.store import StoredRun

CHUNK = 1 << 20
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RankFile:
    """The log file of one rank; rank None is a launcher's own."""

    rank: int | None
    host: str
    path: Path


def rank_files(stored: StoredRun) -> list[RankFile]:
    """The log files the run has or will have, by rank, launchers' own last."""
    plan = stored.read_plan() or {}
    ranks: list[RankFile] = []
    nodes: list[RankFile] = []
    for task in plan.get("tasks") or ():
        ranks += [RankFile(r, task["host"], stored.rank_log(r)) for r in task["ranks"]]
        nodes.append(RankFile(None, task["host"], stored.node_log(task["index"])))
    ranks.sort(key=lambda f: f.rank if f.rank is not None else -1)
    return [*ranks, *(n for n in nodes if n.path.exists() or plan.get("launcher") == "torchrun")]


async def show(stored: StoredRun, out: LogOut, *, follow: bool) -> None:
    """Write the wanted lines of every rank; with `follow` go on until the run is over or stdout closed."""
    files = [f for f in rank_files(stored) if out.wanted.rank(f.rank)]
    out.open({f.rank: f.host for f in files if f.rank is not None})
    readers = [_Reader(f) for f in files]
    try:
        for reader in readers:
            reader.seek_tail(out.wanted.tail)
            await _copy(reader, out, to_end=not follow)
        while follow and not out.closed:
            over = not runs.is_followed(stored)  # asked before reading: what came until then is read
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
    """Reads one file in whole lines, a megabyte at a time."""

    def __init__(self, file: RankFile) -> None:
        self.file = file
        self._open: BinaryIO | None = None
        self._rest = b""

    def lines(self, *, to_end: bool) -> Iterator[list[LogLine]]:
        """Lines that are complete by now; with `to_end` also a last one without newline."""
        moved = self._moved()
        yield from self._read_on(to_end=to_end or moved)
        if moved:  # the run's next attempt has begun, with a file of its own
            self.close()
            yield from self._read_on(to_end=to_end)

    def _read_on(self, *, to_end: bool) -> Iterator[list[LogLine]]:
        handle = self._handle()
        while handle is not None and (data := handle.read(CHUNK)):
            *whole, self._rest = (self._rest + data).split(b"\n")
            yield [LogLine("stdout", text_of(line)) for line in whole]
        if to_end and self._rest:
            rest, self._rest = self._rest, b""
            yield [LogLine("stdout", text_of(rest))]

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
        end = handle.seek(0, 2)
        start, found = end, 0
        while start > 0 and found <= count:
            start = max(0, start - CHUNK)
            handle.seek(start)
            found = handle.read(end - start).count(b"\n")
        handle.seek(start)
        data = handle.read(end - start)
        parts = data.splitlines(keepends=True)
        skipped = sum(map(len, parts[: max(0, len(parts) - count)]))
        handle.seek(start + skipped)

    def _handle(self) -> BinaryIO | None:
        if self._open is None:
            with contextlib.suppress(FileNotFoundError):
                self._open = self.file.path.open("rb")
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
