"""Which rank's lines tell the progress of a run: the lowest that has said some. Pure.

Most programs print it on rank 0 or on every rank, Megatron-LM and NeMo on the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from distui.runs.lines.events import LogLine
from distui.runs.state.progress import EVERY_S, Point, Progress, only_saved

LOOKED_AT = 64
"""Of what a rank said since it was looked at last so many lines count: behind its step many a program prints timers. Of
the lowest rank all do: most programs print their progress there.
"""


class LeadingRank:
    """Finds it, and keeps to it: another rank leads only when it is lower and says a step, too.

    A rank that reported nothing but a checkpoint gives way to any that says a step. All ranks that may lead are looked
    at once a second, in one question; where rank 0 leads, none is.
    """

    def __init__(self, regex: str, lowest: int) -> None:
        self._lowest = lowest
        self.rank: int | None = None
        """None until some rank has said progress."""
        self._steps = False
        self._reader = Progress(regex)
        self._unread: dict[int, deque[Sequence[LogLine]]] = {}
        self._heard: set[int] = set()
        self._looked = float("-inf")

    @property
    def given_up(self) -> str:
        """Why the pattern is not tried any more; empty while it is."""
        return self._reader.pattern.given_up

    def may_be(self, rank: int) -> bool:
        """Whether what this rank says could make it the one."""
        return self.rank is None or not self._steps or rank < self.rank

    def hear(self, rank: int, lines: Sequence[LogLine], now: float) -> bool:
        """Keep lines of a rank that may lead. Whether it is time to look at what is kept: once a second, and when a
        rank speaks for the first time.
        """
        most = self._most(rank)
        self._unread.setdefault(rank, deque(maxlen=most)).append(lines if most is None else lines[-most:])
        new = rank not in self._heard
        self._heard.add(rank)
        return new or self.due(now)

    def due(self, now: float) -> bool:
        """Whether something is kept that is to be looked at now."""
        return bool(self._unread) and not 0 <= now - self._looked < EVERY_S

    def look(self, now: float) -> tuple[list[LogLine], list[Point]]:
        """Look at what is kept: the lines of the rank that leads now, and the checkpoints that others reported."""
        unread = {rank: _last(parts, self._most(rank)) for rank, parts in self._unread.items()}
        self._unread, self._looked = {}, now
        asked = [(rank, line) for rank, lines in unread.items() for line in lines]
        saved: list[tuple[int, Point]] = []
        for index, found in self._reader.each([line.text for _, line in asked]):
            rank = asked[index][0]
            if only_saved(found):
                saved.append((rank, found))
            self._found(rank, steps=not only_saved(found))
        mine = unread.get(self.rank, []) if self.rank is not None else []
        return mine, [found for rank, found in saved if rank != self.rank]

    def _most(self, rank: int) -> int | None:
        return None if rank == self._lowest else LOOKED_AT

    def _found(self, rank: int, *, steps: bool) -> None:
        if self.rank is None or (steps, -rank) > (self._steps, -self.rank):
            self.rank, self._steps = rank, steps


def _last(parts: Sequence[Sequence[LogLine]], most: int | None) -> list[LogLine]:
    """The last lines of what was said part by part; no more of them are made than are looked at."""
    if most is None:
        return [line for part in parts for line in part]
    found: list[LogLine] = []
    for part in reversed(parts):
        found = [*part, *found]
        if len(found) >= most:
            break
    return found[-most:]
