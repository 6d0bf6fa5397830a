"""Events of a run on their way to its one reader, in batches. A slow reader makes the logs of the run's hosts wait, and
nothing else: that a rank has failed is known, and acted on, while its reader looks at the first page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from distui.runs.lines.batch import bytes_of
from distui.runs.lines.events import Event, LogLines, RunEnded

BATCH_S = 0.008
"""Seconds from one batch to the next: few batches cost little. What one host sends comes 10 ms apart as a rule, so that
its lines need not wait here, and no timer wakes the process for them."""
QUEUE_EVENTS = 2000
QUEUE_LINES = 100_000
"""Log lines that may wait for a slow reader, some 25 MB; beyond that the hosts wait."""
QUEUE_BYTES = 32 << 20
"""The same for lines of any length."""
RESERVE = 2
"""So many times as many events may wait: of what came while there was room, and of the little that no log brings."""


class Outbox(asyncio.Queue[Event]):
    """`behind` with so many events, or so many lines or bytes in them: one at full speed holds thousands."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.bytes = 0
        self._ended = False
        """Whether the last event was read."""
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def behind(self) -> bool:
        """Whether logs have to wait for the reader."""
        return self.qsize() >= QUEUE_EVENTS or self.lines >= QUEUE_LINES or self.bytes >= QUEUE_BYTES

    def full(self) -> bool:
        """Whether any event has to wait."""
        return self.qsize() >= RESERVE * QUEUE_EVENTS

    async def room(self) -> None:
        """Wait while the reader is behind."""
        await self._room.wait()

    async def put(self, item: Event) -> None:
        """Put it behind all that were there before it, also those that wait for room: the order is kept."""
        async with self._turn:
            await super().put(item)

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events as they come, some 8 ms of them at a time; ends after the batch that holds RunEnded, and at once where
        that was read.
        """
        clock, given = asyncio.get_running_loop().time, 0.0
        while not self._ended:
            batch = [await self.get()]
            if self.empty() and not isinstance(batch[-1], RunEnded):
                await asyncio.sleep(max(0.0, given + BATCH_S - clock()))
            while not self.empty():
                batch.append(self.get_nowait())
            self._ended, given = isinstance(batch[-1], RunEnded), clock()
            yield tuple(batch)

    async def discard(self) -> None:
        """Take what nobody reads any more: a full queue would hold the followers up, which must end by themselves."""
        while True:
            await self.get()

    def _put(self, item: Event) -> None:
        self.lines += _lines(item)
        self.bytes += bytes_of(item)
        super()._put(item)
        self._note_room()

    def _get(self) -> Event:
        item = super()._get()
        self.lines -= _lines(item)
        self.bytes -= bytes_of(item)
        self._note_room()
        return item

    def _note_room(self) -> None:
        if self.behind:
            self._room.clear()
        else:
            self._room.set()


def _lines(event: Event) -> int:
    return len(event.lines) if isinstance(event, LogLines) else 0
