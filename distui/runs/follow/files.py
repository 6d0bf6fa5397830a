"""Tasks whose log is a file on the host: plain processes, and podman containers. Resumed by byte offset."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from distui.facts.values import loads
from distui.regex import regex
from distui.runs.follow.feed import EngineDown, Feed, Stream
from distui.runs.follow.followed import Drained, Emit, Exited, FollowEvent, FollowTarget, Note, Records, Removed
from distui.runs.follow.inspect import ContainerState, container_state
from distui.runs.follow.pause import Pause
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.cri import CriParser
from distui.whole import moment_ns

_NOTICED = 3.0
"""Seconds within which a host says that a task is gone with all it had."""
_ANSWERS, _WAITS = 60.0, 30.0
"""Seconds in which podman must answer, and after which one that waits for an end is asked again."""
_VANISHED = 15.0
"""Seconds in which podman takes in that a container ended whose processes are gone, if its conmon reported it."""
_UNTOLD, _TOLD = 600.0, 60.0
"""Seconds in a row in which a host can't tell whether a process has ended, after which it counts as lost: its home may
be out of reach for a while, or the host too busy for a command. And for how long a question goes on of a host that can.
"""

_LOST = "its supervisor vanished without an exit code: killed from outside, or the host rebooted"
_ALIVE = '[ -d /proc/1 ] || echo hidden; for pid; do [ ! -d "/proc/$pid" ] || echo alive; done'
"""Prints something where one of these processes is there, or may be: /proc may be mounted with `hidepid`."""

_GONE = regex(r"no such (?:container|object)|no container with (?:name|id)", re.IGNORECASE)
"""What podman says where it has no such container; that it misses a file or folder of its own is another thing."""
_EXIT = regex(r"(-?\d{1,10})\s+(\d{1,20})(?:\s+(\d{1,20}))?", re.ASCII)


class FileReader(ABC):
    """Lives as long as its task; `read` is called again with each feed and returns when the task is done."""

    def __init__(self, target: FollowTarget, emit: Emit) -> None:
        self.task = target.task
        self.ref = target.ref
        self.point = target.resume or ResumePoint()
        self.done = False
        self.target = target
        self._emit = emit
        self._exited = False
        self._tail: Stream | None = None
        self._file_gone = False
        self._said: set[str] = set()

    @abstractmethod
    async def read(self, feed: Feed) -> None:
        """Follow until everything was read. Raises FeedLost when the feed breaks; call again with the next one."""

    @abstractmethod
    def _begin(self) -> None:
        """The file is read again, from `point.offset` on."""

    @abstractmethod
    def _records(self, data: bytes) -> tuple[Batch, int]:
        """The records these bytes complete, and how many bytes of the file they took."""

    @abstractmethod
    async def _ended(self, feed: Feed) -> FollowEvent:
        """Waits for the end of the task: Exited, or Removed."""

    async def _follow(self, feed: Feed, path: str) -> None:
        """Read the file until the task has ended and then to its end."""
        if self.point.done:
            await self._again(feed)
            return
        end = asyncio.ensure_future(self._end(feed))
        pause = Pause(feed.lost)
        try:
            while not await self._read_file(feed, path, end):
                await pause.wait()
            await self._lost_file(end)
            await self._done(await end)
        finally:
            if not feed.lost.done():
                end.cancel()
            await asyncio.gather(end, return_exceptions=True)

    async def _again(self, feed: Feed) -> None:
        """An earlier distui read it all; only its end is not known here."""
        await self._done(await self._end(feed))

    async def _read_file(self, feed: Feed, path: str, end: asyncio.Future[FollowEvent]) -> bool:
        """Read it once; whether that was all there will ever be."""
        if not self.target.has_room:
            return False
        self._begin()
        self._tail = await feed.tail(path, self.point.offset)
        complete = end.done()
        try:
            if complete:
                await self._tail.finish()
            if not await self._pump(self._tail):
                return False
            log_end = self._tail.ended or {}
        finally:
            await self._tail.close()
        if "error" not in log_end:
            self._file_gone = "missing" in log_end
            return True
        return await self._broken_file(str(log_end["error"]), complete=complete)

    async def _lost_file(self, end: asyncio.Future[FollowEvent]) -> None:
        """Say that the file is gone, unless all of the task is, which takes the host a moment to notice."""
        if not self._file_gone:
            return
        await asyncio.wait((end,), timeout=_NOTICED)
        if not (end.done() and isinstance(end.result(), Removed)):
            await self._say(f"its log file was removed on the host: {self._missing}", lines_missing=True)

    @property
    def _missing(self) -> str:
        """Which lines are missing when no more can be read, in words."""
        what = f"what it printed after {self.point.written} bytes" if self.point.written else "what it printed"
        return f"{what} is missing here"

    async def _end(self, feed: Feed) -> FollowEvent:
        """Say that it ended as soon as it did; its file is complete then."""
        event = await self._ended(feed)
        if isinstance(event, Exited) and not self._exited:
            self._exited = True
            await self._emit(event)
        if self._tail is not None:
            await self._tail.finish()
        return event

    async def _pump(self, tail: Stream) -> bool:
        """Read it to the end of the stream; False when it was let go of before."""
        while data := await tail.read():
            batch, size = self._records(data)
            written = self.point.written + batch.size
            self.point = replace(self.point, written=written, offset=self.point.offset + size)
            if len(batch):
                await self._emit(Records(self.task, batch, self.point))
            if not self.target.has_room:
                return False
        return True

    async def _done(self, event: FollowEvent) -> None:
        self.done = True
        self.point = replace(self.point, done=True)
        gone = isinstance(event, Removed)
        await self._emit(Removed(self.task, read=not self._file_gone) if gone else Drained(self.task, self.point))

    async def _broken_file(self, error: str, *, complete: bool) -> bool:
        """Somebody cut or replaced the file: go on with the new one from its start. Else it can't be read (yet).

        Whether nothing more is read of it: it can't be, and is `complete`.
        """
        if error in ("truncated", "replaced"):
            self.point = replace(self.point, offset=0)
            await self._say(f"the log file was {error} on the host, lines may be missing", lines_missing=True)
            return False
        text = f"the log file can't be read: {error}"
        await self._say(f"{text}; {self._missing}" if complete else text, lines_missing=complete)
        return complete

    async def _say(self, text: str, *, lines_missing: bool = False) -> None:
        if text not in self._said:
            self._said.add(text)
            await self._emit(Note(text, self.task, lines_missing))


class ProcessReader(FileReader):
    """A process under distui's supervisor: `log`, and once it is complete `exit` with `code finished_ns started_ns`."""

    async def read(self, feed: Feed) -> None:
        """See FileReader."""
        await self._follow(feed, f"{self.ref}/log")

    def _begin(self) -> None:
        """Its bytes are taken as they come."""

    def _records(self, data: bytes) -> tuple[Batch, int]:
        return Batch((STDOUT,), (b"",), (data,)), len(data)

    async def _ended(self, feed: Feed) -> FollowEvent:
        pause, clock = Pause(feed.lost), asyncio.get_running_loop().time
        asked = since = clock()
        while "error" in (end := await self._wait(feed)):
            text = f"its host can't tell whether it has ended: {end['error']}"
            if clock() - asked >= _TOLD:  # it could tell all that time that it had not
                since = clock()
            if clock() - since >= _UNTOLD:
                return Exited(self.task, None, "lost", error=text)
            await self._say(text)
            await pause.wait()
            asked = clock()
        if "gone" in end:
            return Removed(self.task)
        if "exit" not in end:
            return Exited(self.task, None, "lost", error=_LOST)
        return process_exit(self.task, str(end["exit"]))

    async def _wait(self, feed: Feed) -> Mapping[str, Any]:
        """What the host says once it has ended, or why it can't tell."""
        waiting = await feed.wait(self.ref)
        try:
            await waiting.read()
            return waiting.ended or {}
        finally:
            await waiting.close()


def process_exit(task: int, text: str) -> Exited:
    """The exit file's `code finished_ns started_ns` as an event; older ones have no third word."""
    found = _EXIT.fullmatch(text.strip())
    if found is None:
        return Exited(task, None, "lost", error=f"the exit file can't be understood: {text[:100]!r}")
    code, finished, started = found.groups()
    began = moment_ns(int(started)) if started else None
    return Exited(task, int(code), "exited", oom=None, started_at=began, finished_at=moment_ns(int(finished)))


class PodmanReader(FileReader):
    """A podman container with a k8s-file log; podman has no daemon, so its client is asked."""

    def __init__(self, target: FollowTarget, emit: Emit, command: tuple[str, ...]) -> None:
        super().__init__(target, emit)
        self._command = command
        self._parser = CriParser()
        self._log = ""

    async def read(self, feed: Feed) -> None:
        """See FileReader."""
        pause = Pause(feed.lost)
        while not self.done:
            try:
                await self._round(feed)
            except EngineDown as error:
                await self._say(f"podman can't be asked: {error}")
            if not self.done:
                await pause.wait()

    async def _round(self, feed: Feed) -> None:
        if self.point.done:
            await self._again(feed)
            return
        if not self._log and not await self._find_log(feed):
            return
        await self._follow(feed, self._log)

    async def _find_log(self, feed: Feed) -> bool:
        """Ask once where the log is; podman takes long to answer. False while there is nothing to follow."""
        state = await self._inspect(feed)
        if state is None:
            self.done = True
            await self._emit(Removed(self.task))
            return False
        if state.log_driver not in ("k8s-file", "json-file"):
            await self._say(f"the log can't be read: log driver {state.log_driver}", lines_missing=True)
        self._log = state.log_path if state.begun else ""
        return state.begun

    def _begin(self) -> None:
        self._parser = CriParser()

    def _records(self, data: bytes) -> tuple[Batch, int]:
        records = self._parser.feed(data)
        return records.batch, records.size

    async def _ended(self, feed: Feed) -> FollowEvent:
        pause, clock, vanished = Pause(feed.lost), asyncio.get_running_loop().time, None
        while True:
            try:
                state = await self._inspect(feed)
            except EngineDown as error:
                await self._say(f"podman can't be asked: {error}")
            else:
                if state is None:
                    return Removed(self.task)
                if state.ended:
                    return state.exited(self.task)
                if await self._lives(feed, state):
                    vanished = None
                elif vanished is not None and clock() - vanished > _VANISHED:
                    return Exited(self.task, None, "lost", error=_LOST, started_at=state.started_at)
                else:
                    vanished = vanished or clock()
                await self._ask(feed, *self._command, "wait", self.ref, limit=_VANISHED if vanished else _WAITS)
            await pause.wait()

    async def _inspect(self, feed: Feed) -> ContainerState | None:
        """None when there is no such container."""
        asked = await self._ask(feed, *self._command, "container", "inspect", self.ref, limit=_ANSWERS)
        if asked is None:
            raise EngineDown(f"no answer within {_ANSWERS:.0f} s")
        body, ended = asked
        message = str(ended.get("stderr") or ended.get("error") or "")
        if _GONE.search(message):
            return None
        try:
            return container_state(loads(body)[0])
        except (ValueError, KeyError, TypeError, IndexError):
            raise EngineDown(message or f"{self._command[0]} inspect gave no JSON") from None

    async def _lives(self, feed: Feed, state: ContainerState) -> bool:
        """Whether a process of it, or the conmon that would see its end, is there, for all that is known.

        Whoever kills both, as a logout does without lingering, leaves a container that podman calls running for ever.
        """
        if len(state.pids) < 2:
            return True
        asked = await self._ask(feed, "sh", "-c", _ALIVE, "sh", *map(str, state.pids), limit=_ANSWERS)
        return asked is None or bool(asked[0]) or asked[1].get("status") != 0

    async def _ask(self, feed: Feed, *argv: str, limit: float) -> tuple[bytes, Mapping[str, Any]] | None:
        """What a command on the host prints, and how it ended; None when that takes longer than `limit` seconds."""
        stream = await feed.execute(argv)
        try:
            async with asyncio.timeout(limit):
                return await stream.rest(), stream.ended or {}
        except TimeoutError:
            return None
        finally:
            await stream.close()
