"""How far a host's clock is ahead of ours, from questions and answers. Pure.

A host reads its clock at some moment between our question and its answer: what lies outside is impossible, whatever
the way there and back is like. Of several answers the bounds that are closest hold, so that one that came fast is
enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from distui.frozen import frozen

ALWAYS = 0.001
"""Seconds by which clocks are never known better: they are set, and a reading takes its time."""


@frozen
class Reading:
    """One question: when it was sent and answered by our clock, and what the host's clock said."""

    asked: float
    said: float
    heard: float


def clock(readings: Iterable[Reading]) -> tuple[float, float] | None:
    """By how many seconds a host's clock is ahead, and by how much that may be wrong; None without a reading."""
    bounds = [(one.said - one.heard, one.said - one.asked) for one in readings]
    if not bounds:
        return None
    least, most = max(low for low, _ in bounds), min(high for _, high in bounds)
    if least > most:  # a clock was set meanwhile
        least, most = min(low for low, _ in bounds), max(high for _, high in bounds)
    return (least + most) / 2, (most - least) / 2 + ALWAYS
