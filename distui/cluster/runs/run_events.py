"""The events of a run, each read once, by whoever reads next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from distui.runs.lines.events import Event

Batches = Callable[[], AsyncIterator[tuple[Event, ...]]]
"""Begins to read a run: its events in batches."""


class RunEvents:
    """Events one by one. Who stops reading in between, or is cancelled while it waits, leaves the rest to the next."""

    def __init__(self, batches: Batches) -> None:
        self._begin = batches
        self._batches: AsyncIterator[tuple[Event, ...]] | None = None
        self._unread: deque[Event] = deque()
        self._reading = asyncio.Lock()
        self._coming: asyncio.Task[tuple[Event, ...]] | None = None
        """The next batch, which is not lost when who waits for it is cancelled."""
        self._closed = False

    async def take(self) -> Event | None:
        """The next event; None after the last one, and once nothing is read any more."""
        async with self._reading:
            if not self._unread and not self._closed:
                self._unread.extend(await self._batch())
            return self._unread.popleft() if self._unread else None

    async def close(self) -> None:
        """Read no more."""
        self._closed = True
        self._unread.clear()
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)

    async def _batch(self) -> tuple[Event, ...]:
        if self._coming is None:
            self._coming = asyncio.create_task(self._next())
        try:
            batch = await asyncio.shield(self._coming)
        except asyncio.CancelledError:
            if self._closed and self._coming.cancelled() and not _asked_to_end():
                return ()
            raise
        self._coming = None
        return batch

    async def _next(self) -> tuple[Event, ...]:
        if self._batches is None:
            self._batches = self._begin()
        try:
            return await anext(self._batches)
        except StopAsyncIteration:
            return ()


def _asked_to_end() -> bool:
    """Whether the task that reads is itself to be cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
