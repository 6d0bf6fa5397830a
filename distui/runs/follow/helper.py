"""The feed over the host's helper: everything of a host in one channel."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from typing import Any

from distui.agent import bundle as helper
from distui.errors import HostError
from distui.facts.values import as_object, loads
from distui.runs.follow.feed import EngineAccess, FeedKind, OnClock, OnHello, OnSample, Stream
from distui.runs.lines.frames import Frame, FrameReader, NoHelper
from distui.session import ByteChannel, Session
from distui.whole import moment

PING_EVERY = 15.0
SILENT_AFTER = 45.0
"""Seconds without a word, though asked, after which the channel counts as broken."""

_READ = 1 << 20
_FULL, _REST = 64 * 1024, 0.025
"""After a read of so many bytes the next one waits so many seconds: what costs is the number of batches, not their
size, and a stream at full speed has no line that anybody waits for."""
_MUCH = 0.003
"""Seconds of work for what was read from which on as long is rested: what comes meanwhile is taken together."""

_GREET_WITHIN = 20.0

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What reading the frames of something that is no helper of ours may end with."""


class HelperStream(Stream):
    """One id of the helper's channel."""

    def __init__(self, feed: HelperFeed, ident: int) -> None:
        super().__init__()
        self._feed = feed
        self._ident = ident

    async def finish(self) -> None:
        """Tell the helper that the file is complete."""
        await self._feed.send({"op": "finish", "id": self._ident})

    async def close(self) -> None:
        """Stop; what is still on its way is dropped."""
        self._room.set()
        if self._feed.forget(self._ident) and self.ended is None:
            await self._feed.send({"op": "cancel", "id": self._ident})


class HelperFeed:
    """See Feed. Made by `open_helper`."""

    kind: FeedKind = "helper"
    why = ""

    def __init__(
        self,
        channel: ByteChannel,
        word: str,
        on_sample: OnSample | None,
        on_hello: OnHello | None,
        on_clock: OnClock | None = None,
    ) -> None:
        self.lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._channel = channel
        self._reader = FrameReader(word)
        self._on_sample = on_sample
        self._on_hello = on_hello
        self._on_clock = on_clock
        self._asked: dict[int, float] = {}
        """Pings that are not answered, and when each was sent by our clock."""
        self._pings = 0
        self._streams: dict[int, Stream] = {}
        self._ident = 0
        self._sending = asyncio.Lock()
        self.heard = asyncio.get_running_loop().time()
        self._waiting = False
        self._met = False
        """Whether the helper has said who it is, which it does first."""
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def greet(self) -> None:
        """Wait for the helper's greeting and its hello: whatever is asked of it is asked of a host whose boot is known.

        Raises NoHelper when the command ended or printed other things.
        """
        while not self._met:
            data = await self._channel.read(_READ)
            if not data:
                raise NoHelper(await self._no_helper())
            try:
                await self._dispatch(data)
            except _UNREADABLE as error:
                raise NoHelper(f"what came from the helper can't be read: {error}") from error
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._ping())]

    async def get(self, path: str, *, packed: bool = False) -> Stream:
        """See Feed."""
        return await self._ask({"op": "req", "path": path, "packed": packed})

    async def tail(self, path: str, offset: int) -> Stream:
        """See Feed."""
        return await self._ask({"op": "tail", "path": path, "offset": offset})

    async def wait(self, folder: str) -> Stream:
        """See Feed."""
        return await self._ask({"op": "wait", "path": f"{folder}/exit"})

    async def execute(self, argv: tuple[str, ...]) -> Stream:
        """See Feed."""
        return await self._ask({"op": "exec", "argv": argv})

    async def ask_clock(self) -> None:
        """See Feed."""
        self._pings += 1
        self._asked[self._pings] = time.time()
        await self.send({"op": "ping", "n": self._pings})

    async def send(self, command: dict[str, Any]) -> None:
        """One command to the helper; a broken channel shows in `lost`."""
        if self.lost.done():
            return
        try:
            async with self._sending:
                await self._channel.write(json.dumps(command).encode() + b"\n")
        except HostError as error:
            # One that has ended costs itself alone: commands on its connection go on.
            self._break(self._ended() if error.code == "channel_ended" else error)

    def forget(self, ident: int) -> bool:
        """Drop what comes for this id from now on; False if it was forgotten already."""
        return self._streams.pop(ident, None) is not None

    async def close(self) -> None:
        """See Feed: closing the channel ends the helper and its children."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._break(ConnectionError("closed"))
        await self._channel.close()

    async def _ask(self, command: dict[str, Any]) -> Stream:
        ident = self._next_ident()
        stream = HelperStream(self, ident)
        if self.lost.done():
            stream.break_off(self.lost.result())
            return stream
        self._streams[ident] = stream
        await self.send({**command, "id": ident})
        return stream

    def _next_ident(self) -> int:
        """Ids are 16 bits; 0 is the helper itself. One in use, or cancelled a moment ago, is not given again soon."""
        self._ident = self._ident % 65535 + 1
        while self._ident in self._streams:
            self._ident = self._ident % 65535 + 1
        return self._ident

    async def _read(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while data := await self._channel.read(_READ):
                began = clock()
                await self._dispatch(data)
                await asyncio.sleep(0)  # whoever reads the streams has his turn
                took = clock() - began
                if len(data) >= _FULL or took >= _MUCH:
                    await asyncio.sleep(_REST if len(data) >= _FULL else min(took, _REST))
            self._break(self._ended())
        except HostError as error:
            self._break(error)
        except (NoHelper, *_UNREADABLE) as error:
            self._break(ConnectionError(f"what came from the helper can't be read: {error}"))

    async def _dispatch(self, data: bytes) -> None:
        self.heard = asyncio.get_running_loop().time()
        full = None
        for frame in self._reader.feed(data):
            stream = self._streams.get(frame.ident)
            if stream is None:
                self._own(frame)
                continue
            self._give(stream, frame)
            full = stream.room() or full
        self._waiting = full is not None
        if full is not None:
            await full.wait()

    def _give(self, stream: Stream, frame: Frame) -> None:
        if frame.kind == b"D":
            stream.take(frame.payload)
        elif frame.kind == b"S":
            stream.take_status(frame.payload)
        else:
            self._streams.pop(frame.ident, None)
            stream.take_end(as_object(loads(frame.payload)))

    def _own(self, frame: Frame) -> None:
        if frame.kind == b"M" and self._on_sample is not None:
            self._on_sample(loads(frame.payload))
        elif frame.kind == b"H":
            self._met = True
            self._greeted(loads(frame.payload))

    def _greeted(self, hello: Any) -> None:
        heard = time.time()
        if self._on_hello is not None:
            self._on_hello(hello)
        if (said := moment(hello["wall"])) is None:
            raise ValueError("no clock goes like that")
        asked = self._asked.pop(hello.get("ping", 0), None)
        if asked is not None and self._on_clock is not None:
            self._on_clock(asked, said, heard)

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.lost.done():
            await self.ask_clock()
            await asyncio.sleep(PING_EVERY)
            if not self._waiting and loop.time() - self.heard > SILENT_AFTER:
                self._break(ConnectionError(f"silent for {SILENT_AFTER:.0f} s"))

    def _break(self, error: Exception) -> None:
        if not self.lost.done():
            self.lost.set_result(error)
        for stream in self._streams.values():
            stream.break_off(error)
        self._streams.clear()

    def _ended(self) -> ConnectionError:
        words = self._channel.stderr_tail().decode("utf-8", "replace").strip()
        return ConnectionError(words or "the helper on the host ended")

    async def _no_helper(self) -> str:
        status = await self._channel.wait()
        words = self._channel.stderr_tail().decode("utf-8", "replace").strip() or self._reader.noise
        return f"python3 ended with status {status}: {words.splitlines()[-1] if words else 'no words'}"


async def open_helper(
    session: Session,
    engine: EngineAccess,
    *,
    disks: tuple[str, ...] = (),
    metrics: bool = True,
    on_sample: OnSample | None = None,
    on_hello: OnHello | None = None,
    on_clock: OnClock | None = None,
) -> HelperFeed:
    """Start the helper on the host. Raises NoHelper when it can't run there, SessionLost, HostCommandError."""
    word = secrets.token_hex(8)
    channel = await session.open(helper.start(word))
    feed = HelperFeed(channel, word, on_sample, on_hello, on_clock)
    try:
        await channel.write(helper.program())
        async with asyncio.timeout(_GREET_WITHIN):
            await feed.greet()
    except TimeoutError:
        await feed.close()
        raise NoHelper(f"no greeting within {_GREET_WITHIN:.0f} s") from None
    except BaseException:
        with suppress(Exception):
            await feed.close()
        raise
    dial = () if engine.socket or engine.kind != "docker" else (*engine.command, "system", "dial-stdio")
    await feed.send({"op": "setup", "socket": engine.socket, "dial": dial})
    if metrics:
        await feed.send({"op": "metrics", "disks": disks})
    return feed
