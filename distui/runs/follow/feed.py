"""Reading a host: one interface over the helper, forwarded sockets and `dial-stdio`, and the choice between them.

A feed gives streams: the answer to a GET on the engine's API, a file that grows, a process's exit, a command's
output. When its connection breaks, every stream raises FeedLost once what came before has been read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol

from distui.facts.values import loads
from distui.frozen import frozen
from distui.whole import whole

FeedKind = Literal["helper", "socket", "dial"]

HELD = 4 << 20
"""Bytes one stream may hold unread before the whole feed waits: a slow reader slows the host, never fills memory."""


@frozen
class EngineAccess:
    """How to talk to a host's engine: the API's socket when the login may open it, and the client's command."""

    kind: Literal["docker", "podman", "process"]
    command: tuple[str, ...] = ("docker",)
    socket: str | None = None


class FeedLost(Exception):
    """The channel under the feed broke or its helper ended; what runs on the host is unknown until it is back."""


class EngineDown(Exception):
    """The engine did not answer, in words; says nothing about its containers."""


class Stream:
    """One answer: bytes in order, then `ended` with what is known about the end."""

    def __init__(self) -> None:
        self.ended: Mapping[str, Any] | None = None
        self._status: int | None = None
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._lost: Exception | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def status(self) -> int:
        """The HTTP status. Raises EngineDown when there is none, FeedLost when the feed broke."""
        while self._status is None:
            if self.ended is not None:
                raise EngineDown(str(self.ended.get("error") or "no answer"))
            await self._wait()
        return self._status

    async def read(self, within: float | None = None) -> bytes:
        """All that came since the last read; b"" at the end. Raises TimeoutError when nothing comes within so many
        seconds: `asyncio.timeout` takes longer, and this is done for each batch of lines.
        """
        loop = asyncio.get_running_loop()
        until = loop.call_later(within, self._news.set) if within is not None and not self._parts else None
        try:
            while not self._parts:
                if self.ended is not None:
                    return b""
                if until is not None and until.when() <= loop.time():
                    raise TimeoutError
                await self._wait()
        finally:
            if until is not None:
                until.cancel()
        data = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
        self._parts.clear()
        self._held = 0
        self._room.set()
        return data

    async def rest(self, limit: int = 4 << 20) -> bytes:
        """Everything up to the end. Raises EngineDown when it is more than `limit` bytes."""
        whole = b""
        while data := await self.read():
            whole += data
            if len(whole) > limit:
                raise EngineDown(f"an answer of over {limit} bytes")
        return whole

    async def finish(self) -> None:
        """For a growing file: it is complete now, so read to its end and end."""

    async def close(self) -> None:
        """Stop reading; idempotent."""

    async def _wait(self) -> None:
        if self._lost is not None:
            raise FeedLost(str(self._lost)) from self._lost
        self._news.clear()
        await self._news.wait()

    # The feed's side.

    def take_status(self, line: bytes) -> None:
        """An HTTP status line came."""
        words = line.split(b" ")
        self._status = (whole(words[1]) if len(words) > 1 else None) or 0
        self._news.set()

    def take(self, data: bytes) -> None:
        """Bytes came."""
        self._parts.append(data)
        self._held += len(data)
        if self._held > HELD:
            self._room.clear()
        self._news.set()

    def take_end(self, end: Mapping[str, Any]) -> None:
        """The end came."""
        self.ended = end
        self._news.set()

    def break_off(self, error: Exception) -> None:
        """The feed broke."""
        if self.ended is None:
            self._lost = error
        self._room.set()
        self._news.set()

    def room(self) -> asyncio.Event | None:
        """What to wait for before giving more; None when there is room."""
        return None if self._room.is_set() else self._room


class Feed(Protocol):
    """Streams from one host over one session."""

    @property
    def kind(self) -> FeedKind:
        """Which transport was chosen."""

    @property
    def why(self) -> str:
        """Why no better one, in words; empty for the helper."""

    @property
    def lost(self) -> asyncio.Future[Exception]:
        """Done once the feed is broken, with the reason as its result."""

    @property
    def heard(self) -> float | None:
        """When anything came from the host last, by the loop's clock; None where this transport does not know."""

    async def get(self, path: str, *, packed: bool = False) -> Stream:
        """GET `path` of the engine's API. `packed`: it is a log with stamps, and may come in blocks (`agent/pack`)."""

    async def tail(self, path: str, offset: int) -> Stream:
        """The file from a byte offset on as it grows, until `finish`. `ended` may say `error` or `missing`."""

    async def wait(self, folder: str) -> Stream:
        """No bytes; `ended` once the process of this task folder did: `exit` text, `lost` or `gone`."""

    async def execute(self, argv: tuple[str, ...]) -> Stream:
        """The command's stdout; `ended` says `status` and `stderr`."""

    async def ask_clock(self) -> None:
        """Have the host's clock read now, where this transport can tell it."""

    async def close(self) -> None:
        """Let go of everything on the host; idempotent, never raises."""


OnSample = Callable[[Mapping[str, Any]], None]
OnHello = Callable[[Mapping[str, Any]], None]
OnClock = Callable[[float, float, float], None]
"""Called with when a host was asked for its time, what its clock said, and when that was heard; the first and the last
by our clock."""


async def whole_lines(stream: Stream, limit: int = 1 << 20) -> AsyncIterator[bytes]:
    """The stream's lines as they are completed. Raises EngineDown when one does not end within `limit` bytes."""
    rest = b""
    while data := await stream.read():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > limit:
            raise EngineDown(f"a line of over {limit} bytes")


async def get_json(feed: Feed, path: str, timeout: float = 15.0) -> tuple[int, Any]:
    """Status and JSON of a GET. Raises EngineDown when there is no answer within `timeout` seconds or no JSON."""
    stream: Stream | None = None
    try:
        async with asyncio.timeout(timeout):
            stream = await feed.get(path)
            status, body = await stream.status(), await stream.rest()
        return status, loads(body) if body.strip() else None
    except TimeoutError:
        raise EngineDown(f"no answer within {timeout:g} s") from None
    except ValueError as error:
        raise EngineDown(f"the answer is no JSON: {error}") from None
    finally:
        if stream is not None:
            await stream.close()
