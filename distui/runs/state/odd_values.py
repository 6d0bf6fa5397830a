"""What is odd in the figures of a run's progress: NaN, infinity, a loss that jumps. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median

RECENT, FEWEST = 20, 10
"""Values that a new one is compared with, and without how many it is not."""
TIMES, SPREADS = 3.0, 10.0
"""A jump is to so many times the largest of them, and so many times as far from their median as they are usually."""


USUAL = "usual reasons: the learning rate, the data, a division by zero, half precision without scaling"


class OddValues:
    """Tells once of each figure that it is no number any more, and once of each jump of a loss."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._bad: set[str] = set()

    def take(self, values: Mapping[str, float], step: float | None) -> Iterator[str]:
        """What is odd in the newest values, in words."""
        at = f" at step {step:.0f}" if step is not None and math.isfinite(step) else ""
        for name, value in values.items():
            recent = self._recent.setdefault(name, deque(maxlen=RECENT))
            if not math.isfinite(value):
                if name not in self._bad:
                    self._bad.add(name)
                    before = f", after {recent[-1]:g}" if recent else ""
                    yield f"{name} is {value:g}{at}{before} ({USUAL})"
                continue
            self._bad.discard(name)
            if "loss" in name.lower() and _jumps(value, recent):
                yield f"{name} jumped from about {median(recent):g} to {value:g}{at}"
                recent.clear()
            recent.append(value)


def _jumps(value: float, recent: deque[float]) -> bool:
    if len(recent) < FEWEST:
        return False
    middle = median(recent)
    spread = median(abs(one - middle) for one in recent)
    return max(recent) > 0 and value > TIMES * max(recent) and value - middle > SPREADS * spread
