"""Bulk writing to stdout that never blocks the event loop: a paused reader must not swallow Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import threading
import time

from distui.cli.console import unwritten

PENDING_LIMIT = 4 << 20
"""Bytes waiting for a slow reader; beyond that, writing waits, and so in the end do the hosts' log streams."""

ABANDONED = 1.0
"""Seconds that a reader which is not waited for has for the last words."""


class Outlet:
    """Writes bytes to a file descriptor in its own thread.

    A reader that goes away (`| head`) closes the outlet, and so does what can't be written (a full disk): `error`
    then says so, and further writes do nothing.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._pending = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self.error: OSError | None = None

    @property
    def lost(self) -> OSError | None:
        """Why what was written is lost, though it may be missed: not where nobody reads any more."""
        return None if isinstance(self.error, BrokenPipeError) else self.error

    def refuse_loss(self) -> None:
        """Raise OutputFailed when something is lost."""
        if self.lost is not None:
            raise unwritten(self.lost)

    async def write(self, data: bytes) -> None:
        """Queue `data`; waits while the reader is far behind."""
        if not data or self.error is not None or self._abandoned:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stdout", daemon=True)
            self._thread.start()
        with self._lock:
            self._pending += len(data)
        self._queue.put(data)
        await self._wait_below(PENDING_LIMIT)

    async def drain(self, limit: float = 3600.0) -> bool:
        """Wait until all is written, at most `limit` seconds; False when it is not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._wait_below(1)
        return self._pending == 0

    async def last(self, data: bytes, limit: float = 3600.0) -> None:
        """Write the last words, also when abandoned; a reader that was given up has `ABANDONED` seconds for them."""
        given_up, self._abandoned = self._abandoned, False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABANDONED if given_up else limit):
                await self.write(data)
                await self._wait_below(1)

    def abandon(self) -> None:
        """Wait for the reader no longer: what it has not taken is lost to it (the log files have it)."""
        self._abandoned = True

    async def _wait_below(self, limit: int) -> None:
        pause = 0.0005
        while self._pending >= limit and self.error is None and not self._abandoned:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _work(self) -> None:
        while self.error is None:
            data = self._queue.get()
            try:
                write_all(self._fd, data)
            except OSError as exc:
                self.error = exc
            with self._lock:
                self._pending -= len(data)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, also to a descriptor somebody made non-blocking. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select((), (fd,), (), 1.0)
            time.sleep(0)
