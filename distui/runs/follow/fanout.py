"""One run's events for any number of readers that come and go: the run never waits for a reader.

Log lines, samples and progress are not kept for a slow reader, since all are on disk; everything else is kept for
ever, so that a reader who comes late first gets the whole story.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from distui.runs.lines.batch import bytes_of
from distui.runs.lines.events import Event, HostSampled, LogLines, Progressed, RunEnded
from distui.runs.state.reducer import RunState, apply

MOST_WAITING = 4000
"""Events that may wait for one reader before its log lines and samples are dropped."""

MOST_LINES = 100_000
"""Log lines in them."""

MOST_BYTES = 32 << 20
"""Bytes of these lines."""


class _Reader:
    """What waits for one reader."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.waiting: list[Event] = list(events)
        self.lines = self.bytes = 0
        self.woken = asyncio.Event()
        if self.waiting:
            self.woken.set()

    def give(self, batch: Sequence[Event]) -> None:
        self.waiting += batch
        self.lines += sum(len(event.lines) for event in batch if isinstance(event, LogLines))
        self.bytes += sum(map(bytes_of, batch))
        if len(self.waiting) > MOST_WAITING or self.lines > MOST_LINES or self.bytes > MOST_BYTES:
            self.waiting = [event for event in self.waiting if _kept(event)]
            self.lines = self.bytes = 0
        self.woken.set()

    def take(self) -> tuple[Event, ...]:
        self.woken.clear()
        taken, self.waiting = tuple(self.waiting), []
        self.lines = self.bytes = 0
        return taken


class Fanout:
    """Folds the state of a run and hands its events on."""

    def __init__(self) -> None:
        self.state = RunState()
        self.sent: list[Event] = []
        self._readers: set[_Reader] = set()
        self._closed = False

    def put(self, batch: Sequence[Event]) -> None:
        """Take the next events of the run."""
        for event in batch:
            self.state = apply(self.state, event)
        self.sent += filter(_kept, batch)
        for reader in self._readers:
            reader.give(batch)
        if any(isinstance(event, RunEnded) for event in batch):
            self.close()

    def close(self) -> None:
        """No more events will come: every reader ends after what waits for it."""
        self._closed = True
        for reader in self._readers:
            reader.woken.set()

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """What has happened so far but log lines and samples, then everything as it comes, to the end."""
        reader = _Reader(self.sent)
        self._readers.add(reader)
        try:
            while True:
                if not self._closed:
                    await reader.woken.wait()
                batch = reader.take()
                if batch:
                    yield batch
                elif self._closed:
                    return
        finally:
            self._readers.discard(reader)


def _kept(event: Event) -> bool:
    return not isinstance(event, LogLines | HostSampled | Progressed)
