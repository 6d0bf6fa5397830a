"""Which part of a run's time is looked at, and where the cursor is in it. Pure."""

from __future__ import annotations

from dataclasses import replace

from distui.frozen import frozen

LEAST_S = 10.0
"""No closer than this."""


@frozen
class Window:
    """From `low` to `high` of what there is from `begin` to `end`. Without a cursor the newest values are meant."""

    begin: float
    end: float
    low: float
    high: float
    cursor: float | None = None

    @staticmethod
    def of(begin: float, end: float) -> Window:
        """All of it."""
        end = max(end, begin + LEAST_S)
        return Window(begin, end, begin, end)

    @property
    def span(self) -> float:
        """Seconds that are looked at."""
        return self.high - self.low

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.low <= self.begin and self.high >= self.end

    @property
    def at(self) -> float:
        """The moment whose values are shown."""
        return self.high if self.cursor is None else self.cursor

    def grown(self, begin: float, end: float) -> Window:
        """There is more now: what showed all of it still does, and what showed the end goes with it."""
        end = max(end, begin + LEAST_S)
        if self.is_whole:
            return replace(self, begin=begin, end=end, low=begin, high=end)
        moved = end - self.end if self.high >= self.end and self.cursor is None else 0.0
        return replace(self, begin=begin, end=end).show(self.low + moved, self.high + moved)

    def show(self, low: float, high: float) -> Window:
        """This part, moved to where there is something, no wider than all and no closer than may be."""
        span = min(max(high - low, LEAST_S), self.end - self.begin)
        low = max(self.begin, min(low, self.end - span))
        cursor = self.cursor
        if cursor is not None:
            cursor = max(low, min(low + span, cursor))
        return replace(self, low=low, high=low + span, cursor=cursor)

    def zoomed(self, factor: float) -> Window:
        """`factor` times as much time, around the cursor; the end stays the end while there is none."""
        span = self.span * factor
        part = 1.0 if self.cursor is None else (self.cursor - self.low) / self.span
        low = self.at - part * span
        return self.show(low, low + span)

    def panned(self, part: float) -> Window:
        """Earlier or later by a part of what is seen; the cursor keeps its place in it."""
        moved = replace(self, cursor=None).show(self.low + part * self.span, self.high + part * self.span)
        cursor = None if self.cursor is None else self.cursor + moved.low - self.low
        return replace(moved, cursor=cursor)

    def moved(self, seconds: float) -> Window:
        """The cursor earlier or later; the window goes along with it. Beyond the end there is none any more."""
        at = max(self.begin, self.at + seconds)
        if at >= self.end:
            return self.last()
        low = min(self.low, at)
        low += max(0.0, at - (low + self.span))
        return replace(self, cursor=at).show(low, low + self.span)

    def first(self) -> Window:
        """The cursor at the begin."""
        return replace(self, cursor=self.begin).show(self.begin, self.begin + self.span)

    def last(self) -> Window:
        """No cursor: the end, and what comes."""
        return replace(self, cursor=None).show(self.end - self.span, self.end)

    def whole(self) -> Window:
        """All of it; the cursor stays."""
        return replace(self, low=self.begin, high=self.end)
