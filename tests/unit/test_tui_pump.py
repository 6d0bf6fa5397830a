"""Panes are flushed one at a time, each now and then; what is far behind is read on while nobody waits."""

from __future__ import annotations

from typing import cast

from distui.tui.logs.pane import Pane
from distui.tui.logs.pump import EVERY_S, Pump


class Stub:
    """What the pump knows of a pane: `left` is how often it must be read to its end."""

    def __init__(self, left: int = 1) -> None:
        self.dirty, self.more, self.flushed, self.left, self.flushes = True, False, 0.0, left, 0

    def grow(self, budget: float) -> bool:
        """Read on."""
        self.left -= 1
        return self.left > 0

    def flush(self, budget: float) -> bool:
        """Read on and paint."""
        self.flushes += 1
        self.dirty = self.more = self.grow(budget)
        return self.more


def pumped(*panes: Stub) -> tuple[Pump, list[float]]:
    """A pump whose clock is the number in the list."""
    clock = [10.0]
    return Pump(lambda: [cast(Pane, pane) for pane in panes], clock=lambda: clock[0]), clock


def test_one_pane_a_tick_the_longest_waiting_first() -> None:
    """None is painted again before its time."""
    first, second = Stub(), Stub()
    pump, clock = pumped(first, second)
    second.flushed = -1.0

    assert pump.tick() is second
    clock[0] += EVERY_S / 10
    assert pump.tick() is first
    first.dirty = second.dirty = True
    assert pump.tick() is None
    clock[0] += 2 * EVERY_S
    assert pump.tick() is second


def test_a_long_log_is_read_on_between_its_paints() -> None:
    """Every tick reads, no tick before its time paints."""
    pane = Stub(left=4)
    pump, clock = pumped(pane)
    for _ in range(10):
        pump.tick()

    assert (pane.left, pane.more, pane.flushes) == (0, False, 1)
    clock[0] += 2 * EVERY_S
    pump.tick()
    assert pane.flushes == 2
