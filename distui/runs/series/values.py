"""What is measured over time, and the bins that measurements are kept in. Pure.

A bin is what one series said within some seconds: how often, mean, lowest, highest. A row is all bins of the same
seconds, and the steps that the run was at. Numbers come from programs: a bin may have been given only NaN or infinity,
its mean is then NaN; whatever else was said in the same bin counts without these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from distui.frozen import frozen

LARGEST = 3.4e38
"""Numbers beyond it are kept as this one: the files have four bytes for each."""
MOST_COUNTED = 0xFFFF
NAN = float("nan")


class Series(NamedTuple):
    """One thing that is measured: of a rank, of a host, or of the run as a whole."""

    name: str
    rank: int | None = None
    host: str = ""


def in_order(series: Series) -> tuple[str, int, str]:
    """A key to sort series by: name, then rank and host; what is of the run as a whole comes first."""
    return series.name, -1 if series.rank is None else series.rank, series.host


UNITS: Mapping[str, str] = {
    "step_time": "s", "tokens_per_s": "1/s", "samples_per_s": "1/s", "gpu_load": "%", "gpu_memory": "MiB",
    "gpu_power": "W", "net_rx": "B/s", "net_tx": "B/s", "cpu_load": "%", "late": "s",
}  # fmt: skip
"""Series of distui's own; the others are called as in the job's `progress` and have no unit."""


def unit_of(series: Series) -> str:
    """The unit of its values; empty where nobody knows."""
    return UNITS.get(series.name, "")


class Bin(NamedTuple):
    """What a series said within the seconds of a row."""

    samples: int
    mean: float
    low: float
    high: float


def bin_of(value: float) -> Bin:
    """A single value."""
    value = max(-LARGEST, min(LARGEST, value)) if math.isfinite(value) else NAN
    return Bin(1, value, value, value)


def joined(one: Bin, other: Bin) -> Bin:
    """Both together. What is no number has no part in it, unless there is nothing else."""
    if one.mean != one.mean or other.mean != other.mean:
        return other if one.mean != one.mean else one
    samples = one.samples + other.samples
    mean = one.mean + (other.mean - one.mean) * (other.samples / samples) if samples else one.mean
    return Bin(min(samples, MOST_COUNTED), mean, min(one.low, other.low), max(one.high, other.high))


@frozen
class Row:
    """All that was measured within `width` seconds from `start` on (UTC, our clock)."""

    start: float
    width: float
    first_step: float
    """The steps it began and ended with; NaN where none was given."""
    last_step: float
    bins: Mapping[Series, Bin]

    @property
    def end(self) -> float:
        """When the next one may begin."""
        return self.start + self.width


class Spread(NamedTuple):
    """What all ranks or hosts said of one thing: the median of their means, the lowest and the highest of all."""

    mid: float
    low: float
    high: float


class Places:
    """Where the series of one name stand in a row of `count` series: all means, then all lowest, then all highest."""

    def __init__(self, places: Sequence[int], count: int) -> None:
        self._places = places
        self._count = count
        self._mids, self._lows, self._highs = (itemgetter(*(at + more * count for at in places)) for more in range(3))

    def spread(self, floats: Sequence[float]) -> Spread:
        """Of all of them; what is no number has no part in it."""
        if len(self._places) == 1:
            return Spread(self._mids(floats), self._lows(floats), self._highs(floats))
        mids = self._mids(floats)
        if sum(mids) != sum(mids):
            given = [at for at in self._places if floats[at] == floats[at]]
            return Places(given, self._count).spread(floats) if given else Spread(NAN, NAN, NAN)
        ordered, middle = sorted(mids), len(mids) // 2
        mid = ordered[middle] if len(mids) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
        return Spread(mid, min(self._lows(floats)), max(self._highs(floats)))


@frozen
class Folded:
    """A row with one value for each name, over all ranks or hosts."""

    start: float
    width: float
    last_step: float
    """NaN where none was given."""
    values: Mapping[str, Spread]

    @property
    def middle(self) -> float:
        """The moment that stands for it."""
        return self.start + self.width / 2


class OpenRow:
    """A row that still grows."""

    def __init__(self, start: float, width: float) -> None:
        self.start = start
        self.width = width
        self._first = self._last = NAN
        self._bins: dict[Series, Bin] = {}

    def put(self, series: Series, value: float) -> None:
        """A measurement."""
        known = self._bins.get(series)
        self._bins[series] = bin_of(value) if known is None else joined(known, bin_of(value))

    def at_step(self, first: float, last: float) -> None:
        """The run was at these steps."""
        if math.isfinite(first) and math.isfinite(last):
            self._first = first if math.isnan(self._first) else self._first
            self._last = last

    def take(self, row: Row) -> None:
        """All of a finer row."""
        self.at_step(row.first_step, row.last_step)
        bins = self._bins
        for series, found in row.bins.items():
            known = bins.get(series)
            bins[series] = found if known is None else joined(known, found)

    def row(self) -> Row:
        """As it is now."""
        return Row(self.start, self.width, self._first, self._last, self._bins)


def start_of(at: float, width: float) -> float:
    """When the row began that a moment is in."""
    return math.floor(at / width) * width
