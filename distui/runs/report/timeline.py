"""Lines of several logs put into one order: by the moment each was said, on our clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")

WINDOW_S = 0.5
"""How long a line waits for earlier ones of other logs."""

Placed = tuple[float, int, int, T]
"""When it was said, by whom, its number there, and the line."""


class Source(Generic[T]):
    """One log on its way into the order."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        """Who says it; launchers have numbers below zero."""
        self.latest = float("-inf")
        self.waiting: list[Placed[T]] = []
        self.more = False
        """Whether there is more of it that was not read yet: nothing later than what was read can be placed."""


class Timeline(Generic[T]):
    """Takes lines of logs, each log in its own order, and gives them back by time."""

    def __init__(self) -> None:
        self.sources: list[Source[T]] = []
        self.timed = True
        """Whether every line so far had a time."""

    def source(self, rank: int | None) -> Source[T]:
        """One log more; None for a launcher's own."""
        self.sources.append(Source(-1 if rank is None else rank))
        return self.sources[-1]

    def take(self, source: Source[T], first: int, lines: Sequence[T], times: Iterable[float | None]) -> None:
        """The next lines of a log, from line `first` on."""
        for number, (line, at) in enumerate(zip(lines, times, strict=False), first):
            moment = self._untimed(source, number) if at is None else at
            source.latest = max(source.latest, moment)
            source.waiting.append((moment, source.rank, number, line))

    def _untimed(self, source: Source[T], line: int) -> float:
        """A line without a time is as old as the one before; a log without any goes line by line beside the others."""
        if self.timed and source.latest > 0:
            return source.latest
        self.timed = False
        return float(line)

    def horizon(self, now: float) -> float:
        """Up to when no earlier line can come: half a second ago, but no later than where a log with more stands."""
        unread = [source.latest for source in self.sources if source.more]
        newest = max((source.latest for source in self.sources), default=0.0)
        return min([now - WINDOW_S if self.timed else newest, *unread])

    def ready(self, horizon: float) -> list[Placed[T]]:
        """What was said up to then, in order; each line once."""
        ready: list[Placed[T]] = []
        for source in self.sources:
            kept = [item for item in source.waiting if item[0] > horizon]
            if len(kept) < len(source.waiting):
                ready += [item for item in source.waiting if item[0] <= horizon]
                source.waiting = kept
        ready.sort(key=itemgetter(0, 1, 2))
        return ready
