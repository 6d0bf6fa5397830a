"""The last five minutes of a host's GPUs and links, as they came in."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from math import isnan, nan

from distui.facts.host import Gpu
from distui.facts.limits import WARM_C
from distui.monitor import notes
from distui.monitor.notes import Note
from distui.runs.lines.events import GpuReading

HISTORY = 300
"""Samples kept for each GPU and link: five minutes at one a second."""

IDLE_PCT = 5.0
"""Below this a GPU that a run owns does nothing (all-smi's `util_idle_pct`)."""

SILENT_S = 15.0
"""So long after its last figures nothing is known of a GPU whose host sends others: its driver hangs, or it is gone."""


class Ring:
    """The last samples of one value, four bytes each; unknown ones are None."""

    __slots__ = ("_count", "_next", "_values")

    def __init__(self, size: int = HISTORY) -> None:
        self._values = array("f", [nan]) * size
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return min(self._count, len(self._values))

    def add(self, value: float | None) -> None:
        """Take in the newest sample; the oldest goes."""
        self._values[self._next] = nan if value is None else value
        self._next = (self._next + 1) % len(self._values)
        self._count += 1

    def last(self, count: int) -> list[float | None]:
        """At most `count` newest samples, oldest first."""
        take = min(count, len(self))
        start = self._next - take
        recent = self._values[start : self._next] if start >= 0 else self._values[start:] + self._values[: self._next]
        return [None if isnan(v) else v for v in recent]


@dataclass(slots=True)
class GpuHistory:
    """One GPU: what the probe said, what it does now, and its last five minutes."""

    index: int
    facts: Gpu | None = None
    reading: GpuReading | None = None
    load: Ring = field(default_factory=Ring)
    """Utilisation in percent."""
    warm_since: float | None = None
    """Since when it is above WARM_C, with 2 degrees of hysteresis."""
    idle_since: float | None = None
    """Since when it does nothing."""
    missing_since: float | None = None
    """Since when samples of its host do not name it."""
    silent: bool = False
    """Whether that is so long ago that its last figures say nothing of now."""
    _outlived: bool = False
    """Whether the last probe that found it was before that, or before one that its driver did not answer."""
    _taken: float | None = None
    """When its last figures came."""

    @property
    def _probed(self) -> Gpu | None:
        """What a probe says of now."""
        return None if self._outlived else self.facts

    @property
    def utilization(self) -> float | None:
        """Percent, live or as probed."""
        live = self.reading.utilization_pct if self.reading else None
        return live if live is not None or not self._probed else self._probed.utilization_pct

    @property
    def memory_used(self) -> int | None:
        """MiB, live or as probed."""
        live = self.reading.memory_used_mib if self.reading else None
        return live if live is not None or not self._probed else self._probed.memory_used_mib

    @property
    def memory_total(self) -> int | None:
        """MiB."""
        live = self.reading.memory_total_mib if self.reading else None
        return live if live is not None or not self.facts else self.facts.memory_total_mib

    @property
    def temperature(self) -> float | None:
        """Degrees Celsius."""
        live = self.reading.temperature_c if self.reading else None
        return live if live is not None or not self._probed else self._probed.temperature_c

    @property
    def power(self) -> float | None:
        """Watts."""
        live = self.reading.power_w if self.reading else None
        return live if live is not None or not self._probed else self._probed.power_w

    def probed(self, facts: Gpu) -> None:
        """A probe found it."""
        self.facts, self._outlived = facts, False

    def unanswered(self) -> None:
        """Its driver did not answer a probe."""
        self._outlived = True

    def take(self, reading: GpuReading, at: float) -> list[Note]:
        """One more second of it; what changed in it."""
        notices = list(notes.of_gpu(self.reading or GpuReading(self.index), reading, at))
        warm = self.warm_since is not None
        self._add(reading, at)
        if warm != (self.warm_since is not None):
            notices.append(notes.of_temperature(self.index, reading.temperature_c, WARM_C, warm=not warm, at=at))
        return notices

    def _add(self, reading: GpuReading, at: float) -> None:
        if self._taken is not None and at - self._taken >= SILENT_S:  # nobody knows what it did meanwhile
            self.warm_since = self.idle_since = None
        self.reading, self.missing_since, self.silent, self._taken = reading, None, False, at
        self.load.add(reading.utilization_pct)
        temperature, load = reading.temperature_c, reading.utilization_pct
        if temperature is None or temperature <= WARM_C - 2:
            self.warm_since = None
        elif temperature > WARM_C and self.warm_since is None:
            self.warm_since = at
        if load is None or load >= IDLE_PCT:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = at

    def missed(self, at: float) -> None:
        """A second in which its host said nothing of it. What was counted, and what stays as it is, is kept."""
        self.load.add(None)
        since = self.missing_since = at if self.missing_since is None else min(at, self.missing_since)
        if self.silent or self.reading is None or at - since < SILENT_S:
            return
        last = self.reading
        self.reading = GpuReading(
            self.index, memory_total_mib=last.memory_total_mib, power_limit_w=last.power_limit_w, ecc=last.ecc,
            slowdown_c=last.slowdown_c, xid=last.xid, xid_at=last.xid_at,
        )  # fmt: skip
        self.warm_since = self.idle_since = None
        self.silent = self._outlived = True


@dataclass(slots=True)
class LinkHistory:
    """One interface or InfiniBand port (`hca:port`): bytes per second now and for the last five minutes."""

    name: str
    rx: float | None = None
    tx: float | None = None
    history: Ring = field(default_factory=Ring)
    """The larger of received and sent, in bytes per second."""
    errors: int | None = None
    """Errors counted since the boot; None when the host does not tell."""
    errors_before: int = 0
    """What was counted when we began to look."""
    missed: int = 0
    """In how many samples in a row it had no rate."""

    def take(self, rx: float, tx: float) -> None:
        """One more second of it."""
        self.rx, self.tx, self.missed = rx, tx, 0
        self.history.add(max(rx, tx))

    def miss(self) -> None:
        """A second in which its host said nothing of it: nothing is known of now."""
        self.rx = self.tx = None
        self.missed += 1
        self.history.add(None)
