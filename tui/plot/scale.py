"""Where a value lies on an axis, which ticks it has, and in how many digits they are written. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

from distui.amounts import duration
from distui.frozen import frozen

_STEPS = (1.0, 2.0, 5.0)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
HOUR, DAY = 3600, 86400
_LARGE = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
MOST_DECADES = 60
LARGEST = 1e100
"""Values beyond it lie at the end of the axis."""


@frozen
class Scale:
    """An axis from `low` to `high`, which differ; on a logarithmic one both are above zero."""

    low: float
    high: float
    log: bool = False

    def part(self, value: float) -> float | None:
        """Where a value lies, 0 at `low` and 1 at `high`, also beyond them; None where it has no place."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            low = math.log(self.low)
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)

    def at(self, part: float) -> float:
        """The value at a part of the axis."""
        if self.log:
            return self.low * math.exp(part * math.log(self.high / self.low))
        return self.low + part * (self.high - self.low)


def step_for(span: float, most: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that `span` has at most `most` of."""
    least = span / max(1, most)
    if not 1e-300 < least < 1e300:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next((s * power for s in _STEPS if s * power >= least * (1 - 1e-9)), 10 * power)


def scale_of(values: Iterable[float], most: int, *, log: bool = False, zero: bool = False) -> Scale:
    """A scale with round ends that has room for all values and some `most` steps; with `zero` that is in it.

    On a logarithmic one only values above zero count; where there are none the scale is a linear one.
    """
    finite = [max(-LARGEST, min(LARGEST, v)) for v in values if math.isfinite(v)]
    if log and (positive := [v for v in finite if v > 0]):
        return Scale(*_decades(min(positive), max(positive), most), log=True)
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(high) / 10 or 1.0
        low, high = (low, high + room) if zero and high <= 0 else (low - room * (not zero), high + room)
    step = step_for(high - low, most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, max(last, first + 1) * step)


def _decades(low: float, high: float, most: int) -> tuple[float, float]:
    """Ends of a logarithmic axis: 1, 2 or 5 times a power of ten; within one of these, multiples of a step."""
    low = max(low, high / 10.0**MOST_DECADES, 1e-300)
    if low < high < 10 * low:
        step = step_for(high - low, most)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if first > 0:
            return first * step, last * step
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    bottom = max((s * 10.0**first for s in _STEPS if s * 10.0**first <= low * (1 + 1e-9)), default=10.0**first)
    tops = (s * 10.0**last for s in (*_STEPS, 10.0))
    top = min((t for t in tops if t >= high * (1 - 1e-9)), default=10.0 ** (last + 1))
    return (bottom, top) if top > bottom else (bottom, bottom * 2)


def ticks(scale: Scale, most: int) -> list[float]:
    """At most `most` + 1 round values on the axis, from low to high; both ends where these are round."""
    if scale.log:
        return _log_ticks(scale, most)
    step = step_for(scale.high - scale.low, most)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(scale: Scale, most: int) -> list[float]:
    powers = [10.0**power for power in range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)]

    def inside(steps: Sequence[float]) -> list[float]:
        found = (step * power for power in powers for step in steps)
        return [v for v in found if scale.low * (1 - 1e-9) <= v <= scale.high * (1 + 1e-9)]

    fine, coarse = inside(_STEPS), inside((1.0,))
    if len(fine) <= most + 1 or not coarse:
        return fine[: most + 1]
    return coarse[:: -(-len(coarse) // (most + 1))]


def tick_words(values: Sequence[float]) -> list[str]:
    """Ticks in as many digits as tell them apart: `0`, `50`, `100`; `2.05`, `2.10`; `12k`; `1e-9`."""
    largest = max(map(abs, values), default=0.0)
    if not largest:
        return ["0" for _ in values]
    factor, sign = next(((f, s) for f, s in _LARGE if largest >= (10 * f if s == "k" else f)), (1.0, ""))
    scaled = [v / factor for v in values]
    exact = (d for d in range(5) if all(abs(round(v, d) - v) <= 1e-6 * largest / factor for v in scaled))
    digits = next(exact, None)
    if digits is None or largest >= 1e13:
        return [f"{v:.3g}" if v else "0" for v in values]
    return [f"{v:.{digits}f}{sign}" if v else "0" for v in scaled]


def log_words(values: Sequence[float]) -> list[str]:
    """Ticks of a logarithmic axis, each in its own digits: `0.001`, `1`, `20k`."""
    return [tick_words([v])[0] for v in values]


# Time.


def time_ticks(low: float, high: float, most: int, *, clock: bool) -> list[float]:
    """Round moments: of the day where `clock`, in local time, else seconds since zero."""
    span = max(1e-9, high - low)
    least = span / max(1, most)
    if least <= _SECONDS[-1]:
        step = float(next(s for s in _SECONDS if s >= least))
    else:
        step = float(DAY * max(1, math.ceil(step_for(span / DAY, most) - 1e-9)))
    shift = time.localtime(low).tm_gmtoff if clock else 0
    first, last = math.ceil((low + shift) / step), math.floor((high + shift) / step)
    if not clock or step <= HOUR:
        return [number * step - shift for number in range(first, last + 1)]
    moments = (_moment(number * step) for number in range(first - 1, last + 2))  # the clock may be set within it
    return [at for at in moments if low <= at <= high]


def _moment(local: float) -> float:
    """The moment at which local clocks have gone so many seconds since the day of zero began on them."""
    at = local - time.localtime(local).tm_gmtoff
    return local - time.localtime(at).tm_gmtoff


def clock_words(values: Sequence[float]) -> list[str]:
    """Moments in local time: `14:30`, with seconds where they are closer than a minute; a midnight as its day."""
    close = any(b - a < 60 for a, b in pairwise(values))
    return [_clock(at, seconds=close) for at in values]


def _clock(at: float, *, seconds: bool) -> str:
    local = time.localtime(at)
    if (local.tm_hour, local.tm_min, local.tm_sec) == (0, 0, 0):
        return f"{local.tm_mday} {time.strftime('%b', local)}"
    return time.strftime("%H:%M:%S" if seconds else "%H:%M", local)


def length_words(values: Sequence[float]) -> list[str]:
    """Lengths of time since the begin: `0`, `10m`, `1h 30m`; before now: `-5m`."""
    return [("-" if v < 0 else "") + duration(abs(v)) if v else "0" for v in values]
