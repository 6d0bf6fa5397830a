"""Points of a curve, as columns of a plot: bins, gaps, smoothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """A value at `x`: its mean, with the lowest and the highest that were seen around there."""

    x: float
    mid: float
    low: float
    high: float


def point(x: float, value: float) -> Point:
    """A single value."""
    return Point(x, value, value, value)


def binned(points: Iterable[Point], low: float, high: float, cells: int) -> list[Point | None]:
    """The points between two ends in `cells` equal columns: mean of means, lowest, highest; None where there is none.

    Values that are no numbers are left out.
    """
    found: list[Point | None] = [None] * max(0, cells)
    if cells <= 0 or not high > low:
        return found
    sums, counts, factor = [0.0] * cells, [0] * cells, cells / (high - low)
    for each in points:
        if not (low <= each.x <= high and math.isfinite(each.mid)):
            continue
        at = min(cells - 1, int((each.x - low) * factor))
        known, counts[at], sums[at] = found[at], counts[at] + 1, sums[at] + each.mid
        if known is None:
            found[at] = each
        else:
            lowest, highest = min(known.low, each.low), max(known.high, each.high)
            mid = min(highest, max(lowest, sums[at] / counts[at]))  # not beyond them by rounding
            found[at] = Point(known.x, mid, lowest, highest)
    return found


def joined(columns: Sequence[Point | None], gap: float) -> list[Point | None]:
    """Columns between two that are no further apart than `gap` in x, filled with what is between them."""
    filled = list(columns)
    before: int | None = None
    for at, known in enumerate(columns):
        if known is None:
            continue
        if before is not None and at - before > 1:
            left = columns[before]
            if left is not None and known.x - left.x <= gap:
                for between in range(before + 1, at):
                    filled[between] = _between(left, known, (between - before) / (at - before))
        before = at
    return filled


def _between(left: Point, right: Point, part: float) -> Point:
    return Point(*(a + (b - a) * part for a, b in zip(left, right, strict=True)))


def smoothed(columns: Sequence[Point | None], radius: int) -> list[Point | None]:
    """Each column as the mean of those up to `radius` beside it; gaps stay gaps, and nothing lags behind."""
    if radius <= 0:
        return list(columns)
    sums, counts = [0.0], [0]
    for known in columns:
        sums.append(sums[-1] + (known.mid if known is not None else 0.0))
        counts.append(counts[-1] + (known is not None))
    found: list[Point | None] = []
    for at, known in enumerate(columns):
        begin, end = max(0, at - radius), min(len(columns), at + radius + 1)
        mean = (sums[end] - sums[begin]) / max(1, counts[end] - counts[begin])
        found.append(None if known is None else Point(known.x, mean, mean, mean))
    return found


def usual_gap(points: Sequence[Point], least: float) -> float:
    """How far apart two points may be that are joined: three times as far as is usual, and at least `least`."""
    apart = sorted(b.x - a.x for a, b in pairwise(points))
    return max(3 * apart[len(apart) // 2], least) if apart else least


def nearest(points: Sequence[Point], x: float) -> Point | None:
    """The point that is closest to `x`; points are in order."""
    begin, end = 0, len(points)
    while begin < end:
        middle = (begin + end) // 2
        if points[middle].x < x:
            begin = middle + 1
        else:
            end = middle
    around = points[max(0, begin - 1) : begin + 1]
    return min(around, key=lambda p: abs(p.x - x), default=None)
