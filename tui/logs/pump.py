"""Flushes panes: one dirty pane a tick, each at most ten times a second, so that input is never far away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from distui.tui.logs.pane import Pane

HZ = 50
EVERY_S = 0.1
"""A pane is repainted at most this often."""
BUDGET_S = 0.006
"""How long one flush may read, in seconds."""


class Pump:
    """Called `HZ` times a second with `tick`."""

    def __init__(self, panes: Callable[[], Sequence[Pane]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.panes = panes
        self.clock = clock

    def tick(self) -> Pane | None:
        """Flush the dirty pane that waits longest, if one may be flushed; returns it."""
        now = self.clock()
        panes = self.panes()
        waiting = [pane for pane in panes if pane.dirty and now - pane.flushed >= EVERY_S]
        if not waiting:
            behind = next((pane for pane in panes if pane.more), None)
            if behind is not None:  # nobody waits: read on, and paint when it is due
                behind.more = behind.grow(BUDGET_S)
            return None
        pane = min(waiting, key=lambda p: p.flushed)
        pane.flushed = now
        pane.flush(BUDGET_S)
        return pane
