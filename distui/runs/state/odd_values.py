"""What is odd in the figures of a run's progress: NaN, infinity, a loss that jumps. Pure."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterator, Mapping

RECENT, FEWEST = 50, 10
"""Values that new ones are compared with, and without how many they are not."""
TIMES, SPREADS = 3.0, 10.0
"""A value has risen that is so many times the largest of them, and so many times as far from their median as usual."""
LEAST, ABOVE = 1.5, 4.0
"""Where they are close together less is enough: so many times the largest, and so many times as far above it as that is
above their median."""
LASTS = 3
"""Values in a row that have risen where a loss has jumped. With a small batch one or two are every so often."""
USUAL = "usual reasons: the learning rate, the data, a division by zero, half precision without scaling"


class OddValues:
    """Tells once of each figure that it is no number any more, and once of each jump of a loss."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._bad: set[str] = set()
        self._levels: dict[str, _Level] = {}

    def take(self, values: Mapping[str, float], step: float | None) -> Iterator[str]:
        """What is odd in the newest values, in words."""
        at = f" at step {step:.0f}" if step is not None and math.isfinite(step) else ""
        for name, value in values.items():
            if math.isfinite(value):
                self._bad.discard(name)
                self._before[name] = value
                if "loss" in name.lower():
                    yield from self._levels.setdefault(name, _Level(name)).take(value, at)
            elif name not in self._bad:
                self._bad.add(name)
                before = f", after {self._before[name]:g}" if name in self._before else ""
                yield f"{name} is {value:g}{at}{before} ({USUAL})"


class _Level:
    """Where the values of one loss are, and those in a row, up to now, that are far above."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._risen: list[float] = []
        self._since = ""

    def take(self, value: float, at: str) -> Iterator[str]:
        """The jump, where this value shows that it lasts. The next one is from there."""
        risen = _rises(value, self._recent)
        if risen:
            self._since = self._since if self._risen else at
            self._risen.append(value)
            if len(self._risen) < LASTS:
                return
            before, after = statistics.median(self._recent), statistics.median(self._risen)
            yield f"{self._name} jumped from about {before:g} to {after:g}{self._since}"
            self._recent.clear()
        self._recent.extend(self._risen)  # those that did not last are noise, which later ones are compared with
        self._risen.clear()
        if not risen:
            self._recent.append(value)


def _rises(value: float, recent: deque[float]) -> bool:
    if len(recent) < FEWEST:
        return False
    middle = statistics.median(recent)
    spread = statistics.median(abs(one - middle) for one in recent)
    top = max(recent)
    limit = min(TIMES * top, max(LEAST * top, top + ABOVE * (top - middle)))
    return top > 0 and value > limit and value - middle > SPREADS * spread
