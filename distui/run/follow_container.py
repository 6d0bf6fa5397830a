"""One docker container's log and end, exactly once across lost connections and restarts of dockerd (FOLLOW §4-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from distui.run.container import ContainerState, container_state
from distui.run.docker_frames import STDOUT, Batch, FrameParser
from distui.run.feed import EngineDown, Feed, Stream, get_json
from distui.run.followed import Drained, Emit, Exited, FollowTarget, Note, Records, Removed
from distui.run.pause import Pause
from distui.run.resume import Cursor, ReplayMismatch

EngineTold = Callable[[str], Awaitable[None]]
"""Told with a reason when the engine does not answer, with "" when it does."""


class ContainerReader:
    """Lives as long as its task; `read` is called anew with each feed and returns when the task is done."""

    def __init__(self, target: FollowTarget, emit: Emit, engine: EngineTold) -> None:
        self.task = target.task
        self.ref = target.ref
        self.cursor = Cursor(target.resume)
        self.done = False
        self.signalled = False
        """Whether the engine told that it sent it a signal."""
        self._target = target
        self._emit = emit
        self._engine = engine
        self._exited = False
        self._full = False
        self._said: set[str] = set()

    async def read(self, feed: Feed) -> None:
        """Follow until everything was read. Raises FeedLost when the feed breaks; call again with the next one."""
        pause = Pause(feed.lost)
        while not self.done:
            before = self.cursor.point.written
            try:
                await self._round(feed)
            except EngineDown as error:
                await self._engine(str(error))
            except ReplayMismatch as error:
                await self._mismatch(str(error))
                continue
            if self.cursor.point.written > before:
                pause.reset()
            if not self.done:
                await pause.wait()

    async def exit_seen(self, feed: Feed, code: int | None, at: float | None) -> None:
        """`/events` said that it died: ask for the OOM flag and report it now, the log may take longer."""
        try:
            state = await self._inspect(feed)
        except EngineDown:
            return
        if state is not None and state.ended:
            await self._report(state.exited(self.task))
        elif state is None and code is not None:
            await self._report(Exited(self.task, code, "exited", finished_at=at))

    async def _round(self, feed: Feed) -> None:
        """Look, read what there is (following while it runs), and if it had ended before the read: done."""
        state = await self._inspect(feed)
        await self._engine("")
        if state is None:
            await self._gone()
            return
        if not state.begun:
            return
        if state.log_gaps:
            await self._say(state.log_gaps)
        if state.ended:
            await self._report(state.exited(self.task))
        if state.ended and self.cursor.point.done:  # an earlier distui read it all; only its end was not known here
            await self._drained()
            return
        if await self._read_log(feed, state) and state.ended and await self._still_ended(feed):
            await self._drained()

    async def _inspect(self, feed: Feed) -> ContainerState | None:
        """None when there is no such container."""
        status, told = await get_json(feed, f"/containers/{self.ref}/json")
        if status == 404:
            return None
        try:
            return container_state(told)
        except ValueError as error:
            words = told.get("message") if isinstance(told, dict) else error
            raise EngineDown(f"inspect gave status {status}: {words}") from None

    async def _still_ended(self, feed: Feed) -> bool:
        """Asked after the last read: a daemon that died during it ends the stream just like the log's end does."""
        state = await self._inspect(feed)
        if state is None or not state.ended:
            return state is None
        if self.cursor.skipping:
            raise ReplayMismatch("the log is shorter than what was read of it before")
        return True

    async def _read_log(self, feed: Feed, state: ContainerState) -> bool:
        """Read it to the end of the stream; False when it was let go of before."""
        if not self._target.has_room:
            return False
        follow = 0 if state.ended else 1
        path = f"/containers/{self.ref}/logs?stdout=1&stderr=1&follow={follow}"
        if not state.tty:
            since = self.cursor.begin(full=self._full)
            path += "&timestamps=1" + (f"&since={since}" if since else "")
        stream = await feed.get(path, packed=not state.tty)
        try:
            if await stream.status() == 200:
                return await (self._pump_raw(stream) if state.tty else self._pump(stream))
            await self._unreadable(state, await stream.rest())
            return True
        finally:
            await stream.close()

    async def _pump(self, stream: Stream) -> bool:
        parser = FrameParser()
        while data := await stream.read():
            for batch in self._taken(parser, data):
                await self._emit(Records(self.task, batch, self.cursor.point))
            if not self._target.has_room:
                return False
            if parser.daemon_error:
                await self._say(f"the engine could not read the log on: {parser.daemon_error}")
        self._full = False
        return True

    def _taken(self, parser: FrameParser, data: bytes) -> Iterator[Batch]:
        """What is new of these bytes, each batch counted just before it is given."""
        try:
            for batch in parser.feed(data):
                if len(fresh := self.cursor.take(batch)):
                    yield fresh
        except ValueError as error:  # no frames, or no times in them
            raise EngineDown(str(error)) from None

    async def _pump_raw(self, stream: Stream) -> bool:
        """A container with a tty: one raw stream without stamps. Read from the start, drop what was had."""
        await self._say("this container has a tty: its log is read without stamps, stdout and stderr in one")
        had = self.cursor.point.written
        while data := await stream.read():
            fresh, had = data[had:], max(0, had - len(data))
            if fresh:
                self.cursor.count_raw(fresh)
                await self._emit(Records(self.task, Batch((STDOUT,), (b"",), (fresh,)), self.cursor.point))
            if not self._target.has_room:
                return False
        return True

    async def _unreadable(self, state: ContainerState, body: bytes) -> None:
        words = body.decode("utf-8", "replace").strip()
        await self._say(f"the log can't be read (log driver {state.log_driver}): {words}")

    async def _mismatch(self, words: str) -> None:
        """First read all and count from the start; if that differs too, the log was cut, and what is newer is taken."""
        if not self._full:
            self._full = True
            return
        self._full = False
        self.cursor.restart_after_top()
        await self._emit(
            Note(f"the log was rotated, truncated or replaced on the host, lines may be missing: {words}", self.task)
        )

    async def _report(self, exited: Exited) -> None:
        if not self._exited:
            self._exited = True
            await self._emit(replace(exited, signalled=self.signalled))

    async def _drained(self) -> None:
        self.cursor.finish()
        self.done = True
        await self._emit(Drained(self.task, self.cursor.point))

    async def _gone(self) -> None:
        self.done = True
        await self._emit(Removed(self.task))

    async def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            await self._emit(Note(text, self.task))
