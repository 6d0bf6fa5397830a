"""One run's events for any number of readers that come and go: the run never waits for a reader.

Log lines, samples and progress are not kept for a slow reader, since all are on disk, and of what ranks said of their
steps only the last few of each; everything else is kept for ever, so that a reader who comes late first gets the whole
story.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import zip_longest

from distui.runs.lines.batch import bytes_of
from distui.runs.lines.events import (
    Event,
    HostSampled,
    LogLines,
    Progressed,
    RanksStepped,
    RankStep,
    RunEnded,
    RunOpened,
)
from distui.runs.state.our_clock import OurClock, after
from distui.runs.state.reducer import RunState, apply

MOST_WAITING = 4000
"""Events that may wait for one reader, beside those that are kept, before its log lines and samples are dropped."""

MOST_LINES = 100_000
"""Log lines in them."""

MOST_BYTES = 32 << 20
"""Bytes of these lines."""

MOST_STEPS = 50_000
"""Steps of ranks in them."""

STEPS_EACH = 8
"""So many steps of a rank are kept: enough to tell how long one usually takes."""


class _Story:
    """What is kept of a run's events."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self._events: list[Event] = []
        self._steps: dict[int, deque[RankStep]] = {}
        self._place = 0
        """How many events came before the last step: an answer of why nothing goes on holds until the next one."""
        self.add(events)

    def add(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if isinstance(event, RanksStepped):
                self._place = len(self._events)
                for step in event.steps:
                    self._steps.setdefault(step.rank, deque(maxlen=STEPS_EACH)).append(step)
            elif not isinstance(event, LogLines | HostSampled | Progressed):
                if isinstance(event, RunOpened):  # another attempt: its ranks have said no step yet
                    self._steps.clear()
                self._events.append(event)

    def events(self) -> list[Event]:
        """All that is kept, in the order in which it came; the steps are where the last of them was."""
        rounds = [[step for step in steps if step is not None] for steps in zip_longest(*self._steps.values())]
        stepped = [RanksStepped(max(step.at for step in steps), tuple(steps)) for steps in rounds]
        return [*self._events[: self._place], *stepped, *self._events[self._place :]]


class _Reader:
    """What waits for one reader."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.waiting: list[Event] = list(events)
        self._kept = len(self.waiting)
        """How many of them stay whatever comes: a story of days may be long, and is not sifted with each batch."""
        self.lines = self.bytes = self.steps = 0
        self.woken = asyncio.Event()
        if self.waiting:
            self.woken.set()

    def give(self, batch: Sequence[Event]) -> None:
        self.waiting += batch
        self.lines += sum(len(event.lines) for event in batch if isinstance(event, LogLines))
        self.bytes += sum(map(bytes_of, batch))
        self.steps += sum(len(event.steps) for event in batch if isinstance(event, RanksStepped))
        if self._too_much():
            self.waiting = _Story(self.waiting).events()
            self._kept = len(self.waiting)
            self.lines = self.bytes = self.steps = 0
        self.woken.set()

    def _too_much(self) -> bool:
        many = len(self.waiting) > self._kept + MOST_WAITING or self.lines > MOST_LINES or self.steps > MOST_STEPS
        return many or self.bytes > MOST_BYTES

    def take(self) -> tuple[Event, ...]:
        self.woken.clear()
        taken, self.waiting, self._kept = tuple(self.waiting), [], 0
        self.lines = self.bytes = self.steps = 0
        return taken


class Fanout:
    """Folds the state of a run and hands its events on."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        waited: Callable[[], float] = time.monotonic,
        *,
        beside: bool = False,
    ) -> None:
        """`beside`: see `RunState`."""
        self._state = RunState(beside=beside)
        self._ours = OurClock(clock, waited)
        self._story = _Story()
        self._readers: set[_Reader] = set()
        self._closed = False

    @property
    def state(self) -> RunState:
        """What the events add up to. Our clock may have been set since they came: else a laptop that wakes would show a
        run that stands still.
        """
        if (change := self._ours.news()) is not None and self._state.ended is None:
            self._state = after(self._state, change)
        return self._state

    @property
    def sent(self) -> Sequence[Event]:
        """What a reader who comes now gets first."""
        return self._story.events()

    def put(self, batch: Sequence[Event]) -> None:
        """Take the next events of the run."""
        state = self.state
        for event in batch:
            state = apply(state, event)
        self._state = state
        self._story.add(batch)
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
        """What has happened so far but log lines, samples and old steps, then everything as it comes, to the end."""
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
