"""The feed of a host without python3: a channel for each stream.

The engine's API is reached by forwarding its socket, or through `docker system dial-stdio` where sshd or the user's
rights forbid that; files are read with `tail`. Nothing rests on the host, so it costs more packets (FOLLOW §6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from distui.errors import HostCommandError, HostError
from distui.framing import Behind
from distui.plan.command import process
from distui.runs.follow.feed import EngineAccess, FeedKind, Stream
from distui.session import ByteChannel, Session

_READ = 256 * 1024
_LOOK = 1.0
"""Seconds between two looks at an exit file; each is a command of its own."""

_HEAD_LIMIT = 1 << 20
"""Bytes of a login shell's noise, or of an HTTP head, that are waited through."""

_BEGIN = b"distui-begin\n"

_FOLLOW = 'tail -c "+$0" -f "$1" & cat >/dev/null; kill 0'
"""Ends with its stdin: a `tail -f` alone would outlive the connection (FAULTS M22). sshd makes the group."""

_READ_REST = 'exec tail -c "+$0" "$1"'


class ChannelStream(Stream):
    """A stream that is one channel, read by a task of its own."""

    def __init__(self, feed: ChannelFeed, channel: ByteChannel | None) -> None:
        super().__init__()
        self._feed = feed
        self._channel = channel
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Awaitable[None]) -> Stream:
        """Begin reading."""
        self._task = asyncio.ensure_future(self._guard(work))
        return self

    async def close(self) -> None:
        """Stop reading and close the channel."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._feed.forget(self)
        if self._channel is not None:
            await self._channel.close()

    async def pour(self, channel: ByteChannel, begin: bytes = b"") -> None:
        """Pass on the channel's bytes, those before `begin` (a noisy login shell's) left out."""
        noise = Behind(begin) if begin else None
        while data := await channel.read(_READ):
            if noise is not None:
                answer = noise.feed(data)
                if answer is None:
                    self._bound(noise.dropped + len(noise.before))
                    continue
                noise, data = None, answer
            await self.pass_on(data)

    async def pass_on(self, data: bytes) -> None:
        """Give bytes to the reader and wait while it holds too many."""
        if data:
            self.take(data)
        if (full := self.room()) is not None:
            await full.wait()

    async def pour_http(self, channel: ByteChannel, ask: bytes) -> None:
        """Send the request; find the head, then pass on the body."""
        await channel.write(ask)
        head, found, body = b"", b"", b""
        while not found and (data := await channel.read(_READ)):
            head = head[max(head.find(b"HTTP/1."), 0) :] + data
            head, found, body = head.partition(b"\r\n\r\n")
            if not found:
                self._bound(len(head))
        if not found:
            words = channel.stderr_tail().decode("utf-8", "replace").strip()
            self.take_end({"error": words or "the engine closed the connection without an answer"})
            return
        self.take_status(head[head.find(b"HTTP/1.") :].split(b"\r\n")[0])
        await self.pass_on(body)
        await self.pour(channel)
        self.take_end({})

    def _bound(self, size: int) -> None:
        """Raise HostCommandError when what comes before the answer has no end."""
        if size > _HEAD_LIMIT:
            message = f"over {_HEAD_LIMIT} bytes and no answer among them"
            raise HostCommandError(self._feed.host, message, code="rubbish")

    async def _guard(self, work: Awaitable[None]) -> None:
        try:
            await work
        except HostCommandError as error:
            self.take_end({"error": error.message})
        except HostError as error:
            self._feed.broke(error)
            self.break_off(error)


class TailStream(ChannelStream):
    """A growing file read with `tail`."""

    def __init__(self, feed: ChannelFeed, session: Session, path: str, offset: int) -> None:
        super().__init__(feed, None)
        self._session = session
        self._path = path
        self._offset = offset
        self._complete = asyncio.Event()

    async def finish(self) -> None:
        """The file is complete: read what is left."""
        self._complete.set()

    async def pass_on(self, data: bytes) -> None:
        """Count the bytes, for the last read."""
        self._offset += len(data)
        await super().pass_on(data)

    async def follow(self) -> None:
        """Follow until the file is said to be complete, then read its rest."""
        self._channel = await self._session.open(self._argv(_FOLLOW))
        pouring = asyncio.ensure_future(self.pour(self._channel, _BEGIN))
        waiting = asyncio.ensure_future(self._complete.wait())
        try:
            await asyncio.wait((pouring, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            ended = pouring.done()
            pouring.cancel()
            await asyncio.gather(pouring, return_exceptions=True)
        if ended:
            await pouring
        await self._channel.close()
        if ended:  # it ends with us only: somebody killed it, and that says nothing about the file
            words = self._channel.stderr_tail().decode("utf-8", "replace").strip()
            self.take_end({"error": words or "`tail` ended"})
            return
        self._channel = await self._session.open(self._argv(_READ_REST))
        await self.pour(self._channel, _BEGIN)
        self.take_end({"offset": self._offset} if await self._channel.wait() == 0 else {"missing": True})

    def _argv(self, script: str) -> tuple[str, ...]:
        return ("sh", "-c", f"echo distui-begin; {script}", str(self._offset + 1), self._path)


class ChannelFeed:
    """See Feed. Made by `open_channels`."""

    def __init__(self, session: Session, engine: EngineAccess, kind: FeedKind, why: str) -> None:
        self.kind: FeedKind = kind
        self.why = why
        self.lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.host = session.host
        self._session = session
        self._engine = engine
        self._streams: set[ChannelStream] = set()

    @property
    def heard(self) -> float | None:
        """See Feed. Each stream has a channel of its own."""
        return None

    async def get(self, path: str, *, packed: bool = False) -> Stream:
        """See Feed."""
        ask = f"GET {path} HTTP/1.0\r\nHost: distui\r\n\r\n".encode()
        return await self._open(self._dial, lambda stream, channel: stream.pour_http(channel, ask))

    async def tail(self, path: str, offset: int) -> Stream:
        """See Feed."""
        stream = TailStream(self, self._session, path, offset)
        self._streams.add(stream)
        return stream.start(stream.follow())

    async def wait(self, folder: str) -> Stream:
        """See Feed."""
        stream = ChannelStream(self, None)
        self._streams.add(stream)
        return stream.start(self._look(stream, folder))

    async def execute(self, argv: tuple[str, ...]) -> Stream:
        """See Feed."""

        async def work(stream: ChannelStream, channel: ByteChannel) -> None:
            await stream.pour(channel)
            status = await channel.wait()
            stream.take_end({"status": status, "stderr": channel.stderr_tail().decode("utf-8", "replace").strip()})

        return await self._open(lambda: self._session.open(argv), work)

    async def ask_clock(self) -> None:
        """See Feed. Nothing here tells the host's time."""

    def forget(self, stream: ChannelStream) -> None:
        """A stream was closed."""
        self._streams.discard(stream)

    def broke(self, error: Exception) -> None:
        """The session is gone."""
        if not self.lost.done():
            self.lost.set_result(error)
        for stream in self._streams:
            stream.break_off(error)

    async def close(self) -> None:
        """See Feed."""
        self.broke(ConnectionError("closed"))
        for stream in tuple(self._streams):
            with suppress(Exception):
                await stream.close()

    async def _dial(self) -> ByteChannel:
        if self.kind == "socket":
            return await self._session.open_unix(self._engine.socket or "/var/run/docker.sock")
        return await self._session.open((*self._engine.command, "system", "dial-stdio"))

    async def _open(
        self,
        dial: Callable[[], Awaitable[ByteChannel]],
        work: Callable[[ChannelStream, ByteChannel], Awaitable[None]],
    ) -> Stream:
        stream = ChannelStream(self, None)
        try:
            channel = await dial()
        except HostCommandError as error:
            stream.take_end({"error": error.message})
            return stream
        except HostError as error:
            self.broke(error)
            stream.break_off(error)
            return stream
        stream = ChannelStream(self, channel)
        self._streams.add(stream)
        return stream.start(work(stream, channel))

    async def _look(self, stream: ChannelStream, folder: str) -> None:
        """What the helper's `wait` does, with a command a second."""
        run_dir, _, index = folder.rpartition("/task-")
        dead = 0
        while dead <= 2:
            answer = await self._session.run(process.inspect(run_dir, (int(index),)))
            state = next(iter(process.parse_states(answer.stdout)), None)
            if state is not None and state.state in ("missing", "exited"):
                stream.take_end({"gone": True} if state.state == "missing" else {"exit": _exit_text(state)})
                return
            dead = dead + 1 if state is not None and state.state == "lost" else 0
            await asyncio.sleep(_LOOK)
        stream.take_end({"lost": True})


def _exit_text(state: process.ProcessState) -> str:
    """The task's exit file as it stands there."""
    return " ".join(str(n) for n in (state.exit, state.finished_ns, state.started_ns) if n is not None)


async def open_channels(session: Session, engine: EngineAccess, why: str) -> ChannelFeed:
    """Forwarding if it works, else `dial-stdio` (a refusal has many causes that look alike: FOLLOW §6)."""
    if engine.kind != "docker":
        return ChannelFeed(session, engine, "dial", why)
    if engine.socket:
        try:
            channel = await session.open_unix(engine.socket)
            await channel.close()
            return ChannelFeed(session, engine, "socket", why)
        except HostCommandError as error:
            why = f"{why}; {error.message}"
    return ChannelFeed(session, engine, "dial", why)
