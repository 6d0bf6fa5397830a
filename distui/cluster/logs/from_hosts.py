"""Logs of a run straight from its hosts: nothing is written here, stopped or cleaned up there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from distui.cluster.attach.live_run import Live
from distui.cluster.logs.folder import into_folder
from distui.cluster.logs.from_files import show_files
from distui.cluster.logs.sink import LogSink, Tell
from distui.copies import copy_folder
from distui.errors import DistuiError, HostCommandError, HostError, UsageError
from distui.facts.troubles import in_words, shared
from distui.plan.command import docker, process
from distui.plan.command.torchrun import split_pieces
from distui.plan.labels import named_ranks
from distui.plan.model import Task
from distui.runs.follow.feed import EngineAccess
from distui.runs.follow.followed import Drained, FollowEvent, FollowTarget, Lost, Note, Records, Removed
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.survived import survived, unborne
from distui.runs.lines.batch import STDERR, Batch
from distui.runs.lines.docker_frames import stamp_ns
from distui.runs.lines.events import LogLine
from distui.runs.lines.text import LineAssembler, Stream, WholeLines, safe, text_of
from distui.runs.lines.times import STAMP
from distui.runs.task.host_run import HostRun
from distui.session import ByteChannel, Connector
from distui.whole import whole

CHUNK = 1 << 20
POLL_SECONDS = 0.1

Pieces = Sequence[tuple[int | None, bytes]]
Split = Callable[[bytes], Pieces]


def splitter(live: Live, task: Task) -> Split:
    """Whose a line of this task is."""
    if live.plan.launcher == "torchrun":
        return lambda line: split_pieces(line, task.ranks)
    return lambda line: ((task.ranks[0], line),)


def _ranks(live: Live) -> dict[int, str]:
    return {rank: task.host for task in live.plan.tasks for rank in task.ranks}


# What there is by now


async def show(
    connector: Connector, live: Live, out: LogSink, say: Callable[[str], None], *, stamps: bool, merge: bool = False
) -> bool:
    """Write what the run has printed so far, rank after rank, with `merge` in the order it was said; False when a host
    could not be read. One that did not answer just now is not asked again, for each of its tasks.
    """
    if (out.wanted.needs_engine or merge) and any(t.engine == "process" for t in live.plan.tasks):
        raise UsageError(
            "runs without containers keep neither times nor streams of their lines: no --since, --until, --stderr, "
            "--merge until they were followed here"
        )
    if merge:
        return await _show_merged(connector, live, out, say)
    out.open(_ranks(live), live.plan.rank_names, hold=True)
    good = not live.unreachable
    for one in shared(live.unreachable):
        say(one.message)
    for task in live.plan.tasks:
        if task.host in live.unreachable:
            continue
        try:
            await _show_task(connector, live, task, out, stamps=stamps)
        except HostError as exc:
            say(exc.message)
            good = False
        if out.closed:
            break
    await out.go_live()
    await out.drain()
    return good


async def _show_merged(connector: Connector, live: Live, out: LogSink, say: Callable[[str], None]) -> bool:
    """Fetched whole into a folder first, since one host after the other is asked; the times there become ours."""
    clocks = {host: (facts.clock_offset_ms or 0.0) / 1000 for host, facts in live.facts.items()}
    tail = None if out.wanted.counts_after else out.wanted.tail
    wanted = replace(out.wanted, since="", until="", grep=None, tail=tail)
    with copy_folder() as folder:
        with into_folder(folder, wanted, clocks=clocks) as spool:
            spool.mask = out.mask
            good = await show(connector, live, spool, say, stamps=True)
        files = [replace(f, name=live.plan.rank_names.get(f.rank, "") if f.rank is not None else "")
                 for f in spool.files.values()]  # fmt: skip
        await show_files(files, out, merge=True)
    return good


async def _show_task(connector: Connector, live: Live, task: Task, out: LogSink, *, stamps: bool) -> None:
    host = HostRun(task.host, live.plan, connector)
    stamps = stamps and task.engine != "process"  # only an engine stamps lines
    await host.connect()
    try:
        await host.find()
        if task.index not in host.ids:
            raise HostCommandError(task.host, f"nothing of {named_ranks(task.ranks)} is on {task.host} any more")
        argv = await _argv(host, task, out, stamps=stamps)
        session = await host.link.session()
        redirect = "2>&1 >/dev/null" if out.wanted.stderr_only else "2>&1"
        channel = await session.open(("sh", "-c", f'exec "$@" {redirect}', "sh", *argv))
        try:
            await _copy(channel, task, out, splitter(live, task), stamps=stamps)
        finally:
            await channel.close()
    finally:
        await host.link.close()


async def _copy(channel: ByteChannel, task: Task, out: LogSink, split: Split, *, stamps: bool) -> None:
    """Write what the command that prints a task's log says. Raises HostCommandError when that ends with an error, of
    which its last line tells.
    """
    lines, held = WholeLines(out.mask.cut), list[bytes]()
    while data := await channel.read(CHUNK):
        held += lines.feed(data)
        await _write(out, task.host, split, held[:-1], stamps=stamps)
        held = held[-1:]
    held += lines.rest()
    status = await channel.wait()
    await _write(out, task.host, split, held[:-1] if status else held, stamps=stamps)
    if status:
        said = safe(out.mask.text(text_of(held[-1])))[:300] if held else "it said nothing"
        words = f"{named_ranks(task.ranks)}: its log could not be read to its end: {said} (exit {status})"
        raise HostCommandError(task.host, f"{task.host}: {words}")


async def _argv(host: HostRun, task: Task, out: LogSink, *, stamps: bool) -> tuple[str, ...]:
    """The command that prints a task's log. With several ranks in a task the tail is taken here, not there."""
    tail = out.wanted.tail if len(task.ranks) == 1 and not out.wanted.counts_after else None
    if task.engine == "process":
        path = process.log_path(await host.run_dir(), task.index)
        return ("tail", "-n", str(tail), path) if tail is not None else ("cat", path)
    return docker.logs(task.engine_command, host.ids[task.index], stamps=stamps, since=out.wanted.since, tail=tail)


async def _write(out: LogSink, host: str, split: Split, lines: Sequence[bytes], *, stamps: bool) -> None:
    groups: dict[int | None, list[LogLine]] = {}
    stream: Stream = "stderr" if out.wanted.stderr_only else "stdout"
    for line in lines:
        stamp, text = _parted(line) if stamps else (b"", line)
        for rank, piece in split(text):
            groups.setdefault(rank, []).append(LogLine(stream, text_of(piece), stamp.decode("ascii", "replace")))
    for rank, kept in groups.items():
        await out.lines(rank, host, kept)


def _parted(line: bytes) -> tuple[bytes, bytes]:
    """The stamp in front of a line, and the line. The engine gives a long one in pieces and stamps each (FAULTS M5)."""
    stamp, space, text = line.partition(b" ")
    if not space:
        return b"", line
    return stamp, text.replace(stamp + space, b"") if len(stamp) == STAMP else text


# From now on


async def follow(connector: Connector, live: Live, out: LogSink, tell: Tell) -> bool:
    """Write what the run prints, exactly once over lost connections, until all its tasks ended or stdout closed; False
    when a host could not be read, or a task was removed before all of it was.

    A host that did not answer just now, or to which the first connection fails, costs its own ranks alone.
    """
    out.open(_ranks(live), live.plan.rank_names, hold=True)
    for one in shared(live.unreachable):
        tell(one.message, "warning")
    hosts = [host for host in live.plan.hosts if host not in live.unreachable]
    viewers = [_Viewer(HostRun(host, live.plan, connector), live, out, tell) for host in hosts]
    running = [asyncio.ensure_future(viewer.run()) for viewer in viewers]
    try:
        await _read(running, out)
        await out.go_live()
        await out.drain()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return not live.unreachable and not any(viewer.misses for viewer in viewers)


async def _read(running: Sequence[asyncio.Future[None]], out: LogSink) -> None:
    """Until every host is read to its end, or stdout closed. Raises what reading one raises."""
    waiting = set(running)
    while waiting and not out.closed:
        done, waiting = await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()


@dataclass(slots=True)
class _Old:
    """How far a task's log went when it began to be followed: what comes up to there is old.

    An engine tells the stamp of its last record, a process's file its size.
    """

    stamp: int = 0
    """Nanoseconds since the epoch."""
    size: int = 0

    def is_over(self, batch: Batch) -> bool:
        """Whether the old lines are over with this batch."""
        if self.stamp:
            return _stamp(batch.stamps[-1]) >= self.stamp
        self.size -= batch.size
        return self.size <= 0


class _Viewer:
    """Follows the tasks of one host."""

    def __init__(self, host: HostRun, live: Live, out: LogSink, tell: Tell) -> None:
        self._host = host
        self._live = live
        self._out = out
        self._tell = tell
        self._tasks: Mapping[int, Task] = {t.index: t for t in host.tasks}
        self._assemblers = {t.index: LineAssembler(out.mask.cut) for t in host.tasks}
        self._stamps: dict[tuple[int, str], str] = {}
        self._old: dict[int, _Old] = {}
        """With -n: of each task that has old lines, where they end."""
        self._heard: set[int] = set()
        """Tasks of which something came."""
        self.misses = False
        """Whether something of its tasks could not be read."""

    async def run(self) -> None:
        """Until every task is read to its end, or the host can't be read, which is said."""
        try:
            await self._host.connect()
            await self._read()
        except HostError as exc:
            self._miss(f"{in_words(self._host.host, exc.message)}; its ranks are missing here")

    async def _read(self) -> None:
        """Over the connection that was made. Raises HostError when the tasks can't be found."""
        follower: HostFollower | None = None
        try:
            await self._host.find()
            for task in self._host.tasks if self._out.wanted.tail is not None else ():
                await self._look_at(task)
            follower = await self._follower()
            running = asyncio.ensure_future(follower.run())
            drained = asyncio.ensure_future(follower.drained())
            await asyncio.wait((running, drained), return_when=asyncio.FIRST_COMPLETED)
            await follower.close()
            drained.cancel()
            await asyncio.gather(running, drained, return_exceptions=True)
            self._tell_error(running)
        finally:
            if follower is not None:
                await follower.close()
            await self._host.link.close()

    def _tell_error(self, running: asyncio.Future[None]) -> None:
        """Say why nothing more of this host is shown, where an error is why."""
        error = None if running.cancelled() else running.exception()
        if isinstance(error, HostError):
            self._miss(f"{in_words(self._host.host, error.message)}; lines of its ranks may be missing here")
        elif isinstance(error, Exception) and not isinstance(error, DistuiError | OSError):  # stdout may be closed
            survived(error, f"logs of {self._host.host}")
            self._miss(f"{self._host.host}: {unborne(error)}")

    def _miss(self, words: str) -> None:
        """Say what of it is missing here, and why."""
        self.misses = True
        self._tell(words, "warning")

    async def _follower(self) -> HostFollower:
        first = self._host.first
        access = EngineAccess(first.engine, first.engine_command, None)
        return HostFollower(
            self._host.link,
            access,
            self._take,
            run_id=self._live.plan.run_id,
            targets=[self._target(task) for task in self._host.tasks],
            metrics=False,
        )

    async def _look_at(self, task: Task) -> None:
        """Ask how far the task's log goes by now. What is not known counts as no old lines."""
        if task.index not in self._host.ids:
            await self._go_live(task)
            return
        session = await self._host.link.session()
        if task.engine == "process":
            path = process.log_path(await self._host.run_dir(), task.index)
            done = await session.run(("wc", "-c", path))
            word = done.text.split()[0] if done.ok and done.text.split() else ""
            old = _Old(size=whole(word) or 0)
        else:
            argv = docker.logs(task.engine_command, self._host.ids[task.index], stamps=True, tail=1)
            done = await session.run(argv)
            old = _Old(stamp=_stamp(done.stdout or done.stderr) if done.ok else 0)
        if old.stamp or old.size:
            self._old[task.index] = old
        else:
            await self._go_live(task)

    async def _go_live(self, task: Task) -> None:
        """The task's old lines are over."""
        self._old.pop(task.index, None)
        await self._out.go_live_of((*task.ranks, None), task.host)

    def _target(self, task: Task) -> FollowTarget:
        return FollowTarget(task.index, self._host.ids.get(task.index, ""), find=partial(self._host.ref, task))

    async def _take(self, event: FollowEvent) -> None:
        match event:
            case Records():
                task = self._tasks[event.task]
                self._heard.add(event.task)
                await self._show(task, event.batch)
                if (old := self._old.get(task.index)) is not None and old.is_over(event.batch):
                    await self._go_live(task)
            case Drained() | Removed():
                await self._flush(self._tasks[event.task])
                await self._go_live(self._tasks[event.task])
                if isinstance(event, Removed) and not event.read:
                    self._say_removed(self._tasks[event.task])
            case Lost():
                self._tell(f"{self._host.host}: {event.reason}; trying again", "info")
            case Note():
                whose = f"{named_ranks(self._tasks[event.task].ranks)}: " if event.task is not None else ""
                self._tell(f"{self._host.host}: {whose}{event.text}", "info")
            case _:
                return

    def _say_removed(self, task: Task) -> None:
        """Somebody removed it before it was read to its end."""
        ranks, host = named_ranks(task.ranks), self._host.host
        if task.index in self._heard:
            self._miss(f"{host}: {ranks}: removed there before its log was read to its end: lines may be missing here")
        else:
            self._miss(f"nothing of {ranks} is on {host} any more")

    async def _show(self, task: Task, batch: Batch) -> None:
        groups: dict[int | None, list[LogLine]] = {}
        split, assembler = splitter(self._live, task), self._assemblers[task.index]
        for number, stamp, data in zip(batch.streams, batch.stamps, batch.pieces, strict=True):
            stream: Stream = "stderr" if number == STDERR else "stdout"
            self._stamps[task.index, stream] = stamp.decode("ascii", "replace")
            for line in assembler.feed(stream, data):
                self._sort(groups, split, task, stream, line)
        for rank, lines in groups.items():
            await self._out.lines(rank, task.host, lines)

    async def _flush(self, task: Task) -> None:
        groups: dict[int | None, list[LogLine]] = {}
        for stream, line in self._assemblers[task.index].flush():
            self._sort(groups, splitter(self._live, task), task, stream, line)
        for rank, lines in groups.items():
            await self._out.lines(rank, task.host, lines)

    def _sort(
        self, groups: dict[int | None, list[LogLine]], split: Split, task: Task, stream: Stream, line: bytes
    ) -> None:
        stamp = self._stamps.get((task.index, stream), "")
        for rank, piece in split(line):
            groups.setdefault(rank, []).append(LogLine(stream, text_of(piece), stamp))


def _stamp(line: bytes) -> int:
    """The stamp in front of a line, in nanoseconds since the epoch; 0 when there is none."""
    try:
        return stamp_ns(line.split(b" ", 1)[0])
    except (ValueError, IndexError):
        return 0
