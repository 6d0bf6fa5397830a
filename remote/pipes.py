"""The channel ends: callbacks of asyncssh on one side, read, write and wait on the other.

Data arrives by callback, so stderr is always taken: unread, it would fill the window it shares with stdout
(FAULTS M21). Everything is bytes: one invalid UTF-8 byte in a text channel closes the connection (M19).
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable
from typing import Any

import asyncssh

from distui.remote.framing import Unframe

_HIGH_WATER = 1 << 20
"""Unread bytes at which the sender is asked to wait; asyncssh's own window allows 2 MiB more."""

_LOW_WATER = _HIGH_WATER // 4

_NOISE_LIMIT = 1 << 20
"""Bytes a login shell may print before the mark; beyond that it is not going to run anything."""


class Pipe:
    """One channel: `ended` when no more output comes, `closed` when both sides are done.

    `lost` is set when the connection broke, not when the other side ended the channel.
    """

    def __init__(
        self, *, mark: str = "", stderr_limit: int = 8192, on_stderr: Callable[[bytes], object] | None = None
    ) -> None:
        self.status: int | None = None
        self.status_at: float | None = None
        """When that came, by the loop's clock."""
        self.lost: Exception | None = None
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self.out = Unframe(mark)
        self.out.found = not mark
        self.stderr = StderrTail(mark, stderr_limit, on_stderr)
        self._chan: Any = None
        self._parts: deque[bytes] = deque()
        self._held = 0
        """Bytes in `_parts`."""
        self.flooded = False
        """The login shell printed more than it may before the mark."""
        self._finished = asyncio.Event()
        self._discard = False
        self._paused = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # What asyncssh calls.

    def connection_made(self, chan: Any) -> None:
        """The channel is open."""
        self._chan = chan

    def session_started(self) -> None:
        """The command runs (nothing to do: it speaks first)."""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Bytes of stdout, or of stderr."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.stderr.feed(data)
            return
        answer = self.out.feed(data)
        if self._discard:
            return
        if answer:
            self._parts.append(answer)
            self._held += len(answer)
            self._readable.set()
        elif self.out.dropped > _NOISE_LIMIT:
            self.flooded = True
            self.ended.set()
            self._readable.set()
        if self._held > _HIGH_WATER and not self._paused:
            self._paused = True
            self._chan.pause_reading()

    def eof_received(self) -> bool:
        """No more stdout; our side stays open."""
        self.ended.set()
        self._readable.set()
        return True

    def exit_status_received(self, status: int) -> None:
        """The command ended by itself."""
        self.status, self.status_at = status, asyncio.get_running_loop().time()
        self._finished.set()

    def exit_signal_received(self, name: str, core_dumped: bool, msg: str, lang: str) -> None:
        """A signal ended the command: 128 + its number, as shells say it."""
        number = signal.Signals.__members__.get(f"SIG{name}")
        self.status = 128 + number if number is not None else -1
        self._finished.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        self.lost = exc
        self.ended.set()
        self._readable.set()
        self._writable.set()
        self._finished.set()
        self.closed.set()

    def pause_writing(self) -> None:
        """The other side is slow."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The other side has caught up."""
        self._writable.set()

    # What the session calls.

    async def read(self, limit: int) -> bytes:
        """Up to `limit` bytes, b"" at the end; what arrived before a loss is handed out first."""
        while not self._parts and not self.ended.is_set():
            self._readable.clear()
            await self._readable.wait()
        data = self._take(limit)
        if self._paused and self._held < _LOW_WATER:
            self._paused = False
            self._chan.resume_reading()
        return data

    def _take(self, limit: int) -> bytes:
        """The first of what arrived, in one piece: copied once."""
        taken, size = [], 0
        while self._parts and size < limit:
            part = self._parts.popleft()
            if size + len(part) > limit:
                self._parts.appendleft(part[limit - size :])
                part = part[: limit - size]
            taken.append(part)
            size += len(part)
        self._held -= size
        return b"".join(taken)

    async def write(self, data: bytes) -> bool:
        """Send; False when the channel no longer takes anything."""
        await self._writable.wait()
        if self.closed.is_set() or self._chan.is_closing():
            return False
        try:
            self._chan.write(data)
        except OSError:
            return False
        await self._writable.wait()
        return True

    def write_eof(self) -> None:
        """Nothing more comes from us."""
        if not self.closed.is_set() and not self._chan.is_closing():
            self._chan.write_eof()

    def send_signal(self, name: str) -> None:
        """Ask the server to signal the command (OpenSSH >= 7.9 does, older ones ignore it)."""
        if not self.closed.is_set():
            self._chan.send_signal(name)

    async def finished(self) -> None:
        """Wait until the command's status is known or the channel is closed; throws away what it still says."""
        self._discard = True
        self._parts.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self._chan.resume_reading()
        await self._finished.wait()

    def close(self) -> None:
        """Close both directions at once."""
        if self._chan is not None and not self.closed.is_set():
            self._chan.abort()


class StderrTail:
    """The last bytes of stderr after the mark, and whether any were thrown away; `on_data` gets all as they come."""

    def __init__(self, mark: str, limit: int, on_data: Callable[[bytes], object] | None = None) -> None:
        self.frame = Unframe(mark)
        self.frame.found = not mark
        self.limit = limit
        self._on_data = on_data
        self._tail = bytearray()
        self.truncated = False

    def feed(self, data: bytes) -> None:
        """Take bytes in; trimming waits until twice the limit so that it stays cheap."""
        found = self.frame.feed(data)
        self._tail += found
        if found and self._on_data is not None:
            self._on_data(found)
        if len(self._tail) > 2 * self.limit:
            self._trim()

    def value(self) -> bytes:
        """The last `limit` bytes."""
        if len(self._tail) > self.limit:
            self._trim()
        return bytes(self._tail)

    def _trim(self) -> None:
        self.truncated = True
        del self._tail[: -self.limit]


class CommandPipe(Pipe, asyncssh.SSHClientSession[bytes]):
    """The end of an exec channel."""

    waited = False
    """Whether its shell was there before the command."""

    @property
    def waits(self) -> bool:
        """Whether the other end still waits for a command, as far as is known here."""
        return not (self.ended.is_set() or self.closed.is_set() or self._finished.is_set())

    def expect(self, mark: str, stderr_limit: int) -> None:
        """Take what a command says that is sent to a shell which waited for one."""
        self.waited = True
        self.out.expect(mark)
        self.stderr.frame.expect(mark)
        self.stderr.limit = stderr_limit


class SocketPipe(Pipe, asyncssh.SSHUNIXSession[bytes]):
    """The end of a forwarded unix socket."""
