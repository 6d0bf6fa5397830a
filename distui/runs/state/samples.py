"""What the helper measures once a second -> rates and readings; every unknown is None and never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from distui.facts.gpus import throttle
from distui.facts.gpus.gpu import pci_key
from distui.facts.values import number
from distui.frozen import frozen
from distui.runs.lines.events import GpuReading, HostSampled
from distui.whole import count, moment, whole


@frozen
class Traffic:
    """Bytes since the boot, and bytes per second since the last sample (None in the first)."""

    rx_bytes: int
    tx_bytes: int
    rx_rate: float | None = None
    tx_rate: float | None = None


@frozen
class Sample:
    """One host in one second. `at` is the host's clock."""

    at: float
    cpu_pct: float | None = None
    load: float | None = None
    memory_total_mib: int | None = None
    memory_available_mib: int | None = None
    gpus: tuple[GpuReading, ...] = ()
    net: Mapping[str, Traffic] = field(default_factory=dict)
    ib: Mapping[str, Traffic] = field(default_factory=dict)
    """`hca:port` -> traffic of that RDMA port, which no network interface counts."""
    disks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Path -> (free, total) bytes."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Interface or `hca:port` -> errors counted since the boot."""
    lower: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Interface -> those that carry its traffic and count it, too: of a bond, a VLAN, a bridge."""


@frozen
class _Counters:
    """What rates are made of: counters of one sample, and when they were read by the boot clock."""

    boot: float
    cpu: tuple[int, int] | None
    """Ticks that were busy, and all of them."""
    net: Mapping[str, tuple[int, int]]
    ib: Mapping[str, tuple[int, int]]


class Sampler:
    """Remembers the last sample for the rates. Rates use the boot clock: nobody sets it.

    The host says what it likes: what comes out is what the types say, numbers are finite and bounded.
    """

    def __init__(self) -> None:
        self._last: _Counters | None = None
        self._lower: dict[str, tuple[str, ...]] = {}
        """Given in the first sample only."""
        self._has_nvidia = False
        """Whether an NVIDIA GPU was named: where these fall silent, graphics of the processor are no GPU 0."""

    def take(self, sample: Mapping[str, Any]) -> Sample:
        """One M frame's object as a sample. Raises ValueError when it is none."""
        last, self._last = self._last, None
        try:
            return self._take(sample, last)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a sample: {error!r}") from error

    def _take(self, sample: Mapping[str, Any], last: _Counters | None) -> Sample:
        at, boot = moment(sample["wall"]), number(sample["boot"])
        if at is None or boot is None:
            raise ValueError("not a sample: no clock goes like that")
        now = _Counters(boot, _pair(sample["cpu"]), _pairs(sample["net"]), _ib_bytes(sample["ib"]))
        before = last or _Counters(boot, None, {}, {})
        seconds = now.boot - before.boot
        if "lower" in sample:
            self._lower = {name: tuple(map(str, below)) for name, below in sample["lower"].items()}
        memory = [_kib_to_mib(text) for text in sample["memory"]]
        rows = (_nvidia(row, sample, at - boot) for row in sample["gpus"]["rows"])
        nvidia = tuple(sorted((g for g in rows if g is not None), key=lambda g: g.index))
        self._has_nvidia = self._has_nvidia or bool(nvidia)
        amd = tuple(_amd(i, row) for i, row in enumerate(sample["amd"]))
        made = Sample(
            at=at,
            cpu_pct=_cpu(now.cpu, before.cpu),
            load=number(sample["load"]),
            memory_total_mib=memory[0],
            memory_available_mib=memory[1],
            gpus=nvidia if self._has_nvidia else amd,
            net=_traffic(now.net, before.net, seconds),
            ib=_traffic(now.ib, before.ib, seconds),
            disks=_pairs(sample["disks"]),
            errors={
                name: found for name, said in sample.get("errors", {}).items() if (found := count(said)) is not None
            },
            lower=self._lower,
        )
        self._last = now
        return made


def host_sampled(at: float, host: str, sample: Sample) -> HostSampled:
    """The helper's figures as an event; interfaces whose rate is not known yet are left out.

    Times of the host's clock become times of ours.
    """
    gpus = tuple(g if g.xid_at is None else replace(g, xid_at=moment(g.xid_at + at - sample.at)) for g in sample.gpus)
    traffic = {**sample.net, **sample.ib}
    net = {
        name: (t.rx_rate, t.tx_rate)
        for name, t in traffic.items()
        if t.rx_rate is not None and t.tx_rate is not None and name != "lo"
    }
    free = min((pair[0] for pair in sample.disks.values()), default=None)
    memory = (sample.memory_total_mib, sample.memory_available_mib)
    return HostSampled(at, host, gpus, net, free, sample.cpu_pct, sample.load, *memory, sample.errors)


_LEAST_S = 0.01
"""Seconds between two samples at least, for a rate: they come once a second."""


def _pairs(said: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    """Name -> two counters; what is not that is unknown."""
    return {name: pair for name, value in said.items() if (pair := _pair(value)) is not None}


def _pair(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    one, two = map(count, value)
    return None if one is None or two is None else (one, two)


def _cpu(now: tuple[int, int] | None, before: tuple[int, int] | None) -> float | None:
    if now is None or before is None or now[1] <= before[1]:
        return None
    return 100.0 * (now[0] - before[0]) / (now[1] - before[1])


def _traffic(
    now: Mapping[str, tuple[int, int]], before: Mapping[str, tuple[int, int]], seconds: float
) -> dict[str, Traffic]:
    return {name: _one(pair, before.get(name), seconds) for name, pair in now.items()}


def _one(now: tuple[int, int], before: tuple[int, int] | None, seconds: float) -> Traffic:
    if before is None or seconds < _LEAST_S or now[0] < before[0] or now[1] < before[1]:
        return Traffic(now[0], now[1])
    return Traffic(now[0], now[1], (now[0] - before[0]) / seconds, (now[1] - before[1]) / seconds)


def _ib_bytes(ports: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """The counters count words of four bytes (kernel: Documentation/infiniband, port_xmit_data)."""
    words = {name: [whole(text, 20) for text in pair] for name, pair in ports.items()}
    return _pairs({name: [4 * n for n in pair if n is not None] for name, pair in words.items()})


def _nvidia(row: str, sample: Mapping[str, Any], booted: float) -> GpuReading | None:
    """One row of the query by the names of its fields; a row with other cells is none. The host was `booted` then."""
    fields = sample["gpus"]["fields"]
    cells = dict(zip(fields, (cell.strip() for cell in row.split(",")), strict=False))
    index = cells.get("index", "")
    place = whole(index)
    if row.count(",") + 1 != len(fields) or place is None:
        return None
    heat, margin = number(cells.get("temperature.gpu")), number(cells.get("temperature.gpu.tlimit"))
    rx, tx = (number(text) for text in sample["gpus"]["pcie"].get(index, ("", "")))
    xids = {pci_key(pci): found for pci, found in (sample["gpus"]["xid"] or {}).items()}
    xid, since_boot = xids.get(pci_key(cells.get("pci.bus_id")), (None, 0.0))
    known, at = count(xid), number(since_boot)
    return GpuReading(
        place,
        utilization_pct=number(cells.get("utilization.gpu")),
        memory_used_mib=_whole(number(cells.get("memory.used"))),
        memory_total_mib=_whole(number(cells.get("memory.total"))),
        temperature_c=heat,
        power_w=number(cells.get("power.draw")),
        power_limit_w=number(cells.get("power.limit")),
        sm_mhz=_whole(number(cells.get("clocks.sm"))),
        pcie_rx=None if rx is None else rx * _MB,
        pcie_tx=None if tx is None else tx * _MB,
        ecc=_whole(number(cells.get("ecc.errors.uncorrected.volatile.total"))),
        throttle=throttle.bits_of(cells),
        slowdown_c=None if heat is None or margin is None else heat + margin,
        xid=known,
        xid_at=None if known is None or at is None else moment(booted + at),
    )


_MB = 1_000_000
"""dmon's MB."""


def _amd(index: int, row: list[str]) -> GpuReading:
    load, used, total, heat, power = (number(cell) for cell in row)
    return GpuReading(
        index,
        utilization_pct=load,
        memory_used_mib=None if used is None else int(used) >> 20,
        memory_total_mib=None if total is None else int(total) >> 20,
        temperature_c=None if heat is None else heat / 1000,
        power_w=None if power is None else power / 1_000_000,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _kib_to_mib(text: str) -> int | None:
    kib = whole(text)
    return None if kib is None else kib >> 10
