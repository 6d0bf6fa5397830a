"""Logs of a run from the files on this machine, once or as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Literal, cast

from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.codec import reads
from distui.facts.values import as_object, as_objects
from distui.files import open_to_read, reason
from distui.frozen import frozen
from distui.runs.lines.docker_frames import stamp_at
from distui.runs.lines.events import LogLine
from distui.runs.lines.text import WholeLines, text_of
from distui.runs.lines.times import Stamps, times_in, times_of
from distui.runs.report.states import ENDED
from distui.runs.report.summary import summary
from distui.runs.report.timeline import Timeline
from distui.runs.store.held_folder import HeldFolder
from distui.runs.store.new_lines import NO_CUT, cut_of, inode_of
from distui.runs.store.runs import StoredRun
from distui.whole import whole

CHUNK = 1 << 20
PART = 1 << 16
"""Bytes of each file that are read at once when several are merged."""
POLL_SECONDS = 0.1
HANDED_OVER_SECONDS = 15.0
"""How long another distui here may take to go on with a run whose owner has left: it asks the hosts first."""


@frozen
class RankFile:
    """The log file of one rank; rank None is a launcher's own."""

    rank: int | None
    host: str
    path: Path
    name: str = ""
    """What the rank is called, where it is more than a number."""


def rank_files(stored: StoredRun) -> list[RankFile]:
    """The log files the run has or will have, by rank, launchers' own last; without a plan those that are there."""
    plan = stored.read_plan() or {}
    ranks: list[RankFile] = []
    nodes: list[RankFile] = []
    for task in as_objects(plan.get("tasks")):
        host, index, placed = task.get("host"), task.get("index"), task.get("ranks")
        if not (isinstance(host, str) and reads(int, index) and isinstance(placed, list)):
            continue
        name = str(task.get("name", "")) if as_object(task.get("labels")).get("distui.name") else ""
        ranks += [RankFile(r, host, stored.rank_log(r), name) for r in placed if reads(int, r)]
        nodes.append(RankFile(None, host, stored.node_log(cast("int", index))))
    if not ranks:
        return [*_found(stored, "rank"), *_found(stored, "node")]
    ranks.sort(key=lambda f: f.rank if f.rank is not None else -1)
    return [*ranks, *(n for n in nodes if n.path.exists() or plan.get("launcher") == "torchrun")]


def _found(stored: StoredRun, kind: Literal["rank", "node"]) -> Iterator[RankFile]:
    for path in sorted(stored.log_dir.glob(f"{kind}-*.log")):
        number = whole(path.stem.removeprefix(f"{kind}-"))
        if number is not None:
            yield RankFile(number if kind == "rank" else None, "?", path)


async def show(stored: StoredRun, out: LogSink, *, follow: bool, merge: bool = False) -> tuple[str, ...]:
    """Write the wanted lines rank after rank, with `merge` in the order they were said; with `follow` go on until the
    run is over or stdout closed. Returns what could not be read, in words.
    """
    over = _Owners(stored).are_gone if follow else None
    return await show_files(rank_files(stored), out, merge=merge, over=over)


class _Owners:
    """Who follows a run here, one after the other."""

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored
        self._folder = HeldFolder(stored)
        self._until: float | None = None
        """Until when the next one is waited for."""

    def are_gone(self) -> bool:
        """Whether the run has ended, or the last one has left it for so long that nobody is about to go on."""
        if not self._folder.is_here:  # removed, or another run has its name by now
            return True
        if self._stored.is_followed:
            self._until = None
            return False
        if self._until is None:
            ended = (summary(self._stored).result or {}).get("state") in ENDED
            self._until = time.monotonic() + (0.0 if ended else HANDED_OVER_SECONDS)
        return time.monotonic() >= self._until


async def show_files(
    files: Sequence[RankFile], out: LogSink, *, merge: bool = False, over: Callable[[], bool] | None = None
) -> tuple[str, ...]:
    """The same from these files; without `over` what there is by now, else until that says that no more comes."""
    files = [f for f in files if out.wanted.rank(f.rank)]
    ranks = [f for f in files if f.rank is not None]
    out.open({f.rank or 0: f.host for f in ranks}, {f.rank or 0: f.name for f in ranks if f.name})
    readers = [_Reader(f, timed=merge or out.timestamps or out.wanted.needs_times) for f in files]
    merged = _Merge(readers, out) if merge else None
    try:
        for reader in readers:
            if out.wanted.counts_after:
                reader.keep = out.wanted
            else:
                reader.seek_tail(out.wanted.tail)
        while not out.closed:
            ended = over is None or over()  # asked before reading: what came until then is read
            if merged is not None:
                await merged.copy(to_end=ended)
            else:
                for reader in readers:
                    await _copy(reader, out, to_end=ended)
            if ended:
                break
            await asyncio.sleep(POLL_SECONDS)
    finally:
        for reader in readers:
            reader.close()
    await out.drain()
    return tuple(reader.trouble for reader in readers if reader.trouble)


async def _copy(reader: _Reader, out: LogSink, *, to_end: bool) -> None:
    for lines in reader.lines(to_end=to_end):
        if out.closed:
            return
        await out.lines(reader.file.rank, reader.file.host, lines)
        await asyncio.sleep(0)


class _Merge:
    """Writes the lines of several files in the order they were said. Of each, at most a part waits in memory."""

    def __init__(self, readers: Sequence[_Reader], out: LogSink) -> None:
        self._out = out
        self._order: Timeline[tuple[RankFile, LogLine]] = Timeline()
        self._readers = {self._order.source(reader.file.rank): reader for reader in readers}
        self._counts = dict.fromkeys(self._readers, 0)
        self._stamps = Stamps()

    async def copy(self, *, to_end: bool) -> None:
        """What the files have by now, but for what may still be overtaken; with `to_end` all."""
        parts = {source: reader.lines(to_end=to_end, size=PART) for source, reader in self._readers.items()}
        for source in parts:
            source.more = True
        while parts:  # on with the file that is furthest behind: the others wait for it
            source = min(parts, key=lambda s: s.latest)
            lines = next(parts[source], None)
            if lines is None:
                source.more = False
                del parts[source]
            else:
                file = self._readers[source].file
                times = self._stamps.parse_all([line.stamp.encode() for line in lines])
                self._order.take(source, self._counts[source], [(file, line) for line in lines], times)
                self._counts[source] += len(lines)
            await self._write(inf if to_end and not parts else self._order.horizon(time.time()))
            if self._out.closed:
                return

    async def _write(self, horizon: float) -> None:
        said = [line for *_, line in self._order.ready(horizon)]
        for file, lines in groupby(said, key=itemgetter(0)):
            await self._out.lines(file.rank, file.host, [line for _, line in lines])
        await asyncio.sleep(0)


class _Reader:
    """Reads one file in whole lines, a megabyte at a time; `timed` with the time of each from the file beside it."""

    def __init__(self, file: RankFile, *, timed: bool) -> None:
        self.file = file
        self._timed = timed
        self._open: BinaryIO | None = None
        self._times: BinaryIO | None = None
        self._run = file.path.parent.parent
        self._folder = inode_of(self._run)
        self._cut = cut_of(self._run)
        self._lines = WholeLines()
        self._line = 0
        """The number of the next line."""
        self.trouble = ""
        """Why it can't be read, in words."""
        self.keep: Wanted | None = None
        """What is wanted of all there is by now, of which only the last lines are."""

    def lines(self, *, to_end: bool, size: int = 0) -> Iterator[Sequence[LogLine]]:
        """Lines that are complete by now; with `to_end` also a last one without newline. `size`: bytes read at once."""
        moved = self._moved() and not self._again()
        found = self._read_on(size, to_end=to_end or moved)
        if (wanted := self.keep) is None:
            yield from found
        else:
            self.keep = None
            yield list(deque(chain.from_iterable(map(wanted.kept, found)), wanted.tail))
        if moved:  # the run's next attempt has begun, with a file of its own
            self.close()
            yield from self._read_on(size, to_end=to_end)

    def _read_on(self, size: int, *, to_end: bool) -> Iterator[Sequence[LogLine]]:
        handle = self._handle()
        while handle is not None and (data := self._read(handle, size or CHUNK)):
            yield self._dated(self._lines.feed(data))
        if to_end:
            yield self._dated(self._lines.rest())

    def _read(self, handle: BinaryIO, size: int) -> bytes:
        try:
            return handle.read(size)
        except OSError as error:
            self.trouble = f"{self.file.path} {reason(error)}"
            return b""

    def _dated(self, lines: list[bytes]) -> Sequence[LogLine]:
        if not self._timed:
            return [LogLine("stdout", text_of(line)) for line in lines]
        times = times_in(self._times, self._line, len(lines)) if self._times is not None else ()
        self._line += len(lines)
        stamps = [stamp_at(round(at * 1e6) * 1000).decode() if at is not None else "" for at in times]
        stamps += [""] * (len(lines) - len(stamps))
        return [LogLine("stdout", text_of(line), stamp) for line, stamp in zip(lines, stamps, strict=True)]

    def _moved(self) -> bool:
        """Whether another file has taken the place of the one that is read."""
        if self._open is None or not self._is_same_run:
            return False
        try:
            return not os.path.samestat(self.file.path.stat(), os.fstat(self._open.fileno()))
        except FileNotFoundError:
            return False

    def _again(self) -> bool:
        """Whether that is the same log, which was removed and is written again by the run's next owner: read on in it
        where the first one was left.
        """
        cut = cut_of(self._run)
        if self._open is None or cut in (self._cut, NO_CUT):
            return False
        line, at = self._line, self._open.tell()
        self.close()
        self._cut, self._line = cut, line
        if (handle := self._handle()) is not None:
            handle.seek(at)
        return True

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

    @property
    def _is_same_run(self) -> bool:
        """Not so where another run has its name by now: a file that is open is still its own."""
        return inode_of(self._run) == self._folder

    def _handle(self) -> BinaryIO | None:
        if self._open is None and self._is_same_run:
            try:
                self._open = open_to_read(self.file.path)
            except FileNotFoundError:
                return None
            except OSError as error:
                self.trouble = f"{self.file.path} {reason(error)}"
                return None
            if self._timed:
                with contextlib.suppress(OSError):
                    self._times = open_to_read(times_of(self.file.path), buffering=0)
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
