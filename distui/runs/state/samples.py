"""What the helper measures once a second -> rates and readings; every unknown is None and never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from distui.facts.gpus import throttle
from distui.facts.gpus.gpu import pci_key
from distui.frozen import frozen
from distui.runs.lines.events import GpuReading, HostSampled
from distui.whole import whole


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


class Sampler:
    """Remembers the last sample for the rates. Rates use the boot clock: nobody sets it."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._lower: dict[str, tuple[str, ...]] = {}
        """Given in the first sample only."""

    def take(self, sample: Mapping[str, Any]) -> Sample:
        """One M frame's object as a sample. Raises ValueError when it is none."""
        try:
            return self._take(sample)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            self._last = {}
            raise ValueError(f"not a sample: {error!r}") from error

    def _take(self, sample: Mapping[str, Any]) -> Sample:
        last, self._last = self._last, sample
        seconds = sample["boot"] - last["boot"] if last else 0.0
        if "lower" in sample:
            self._lower = {name: tuple(map(str, below)) for name, below in sample["lower"].items()}
        memory = [_kib_to_mib(text) for text in sample["memory"]]
        nvidia = (_nvidia(row, sample) for row in sample["gpus"]["rows"])
        amd = tuple(_amd(i, row) for i, row in enumerate(sample["amd"]))
        return Sample(
            at=sample["wall"],
            cpu_pct=_cpu(sample["cpu"], last.get("cpu")),
            load=_number(sample["load"]),
            memory_total_mib=memory[0],
            memory_available_mib=memory[1],
            gpus=tuple(sorted((g for g in nvidia if g is not None), key=lambda g: g.index)) or amd,
            net=_traffic(sample["net"], last.get("net", {}), seconds),
            ib=_traffic(_ib_bytes(sample["ib"]), _ib_bytes(last.get("ib", {})), seconds),
            disks={path: (pair[0], pair[1]) for path, pair in sample["disks"].items() if pair},
            errors=sample.get("errors", {}),
            lower=self._lower,
        )


def host_sampled(at: float, host: str, sample: Sample) -> HostSampled:
    """The helper's figures as an event; interfaces whose rate is not known yet are left out.

    Times of the host's clock become times of ours.
    """
    gpus = tuple(g if g.xid_at is None else replace(g, xid_at=g.xid_at + at - sample.at) for g in sample.gpus)
    traffic = {**sample.net, **sample.ib}
    net = {
        name: (t.rx_rate, t.tx_rate)
        for name, t in traffic.items()
        if t.rx_rate is not None and t.tx_rate is not None and name != "lo"
    }
    free = min((pair[0] for pair in sample.disks.values()), default=None)
    memory = (sample.memory_total_mib, sample.memory_available_mib)
    return HostSampled(at, host, gpus, net, free, sample.cpu_pct, sample.load, *memory, sample.errors)


def _cpu(now: list[int], before: list[int] | None) -> float | None:
    if before is None or now[1] <= before[1]:
        return None
    return 100.0 * (now[0] - before[0]) / (now[1] - before[1])


def _traffic(now: Mapping[str, list[int]], before: Mapping[str, list[int]], seconds: float) -> dict[str, Traffic]:
    return {name: _one(pair, before.get(name), seconds) for name, pair in now.items()}


def _one(now: list[int], before: list[int] | None, seconds: float) -> Traffic:
    if before is None or seconds <= 0 or now[0] < before[0] or now[1] < before[1]:
        return Traffic(now[0], now[1])
    return Traffic(now[0], now[1], (now[0] - before[0]) / seconds, (now[1] - before[1]) / seconds)


def _ib_bytes(ports: Mapping[str, list[str]]) -> dict[str, list[int]]:
    """The counters count words of four bytes (kernel: Documentation/infiniband, port_xmit_data)."""
    words = {name: [whole(text, 20) for text in pair] for name, pair in ports.items()}
    return {name: [4 * n for n in pair if n is not None] for name, pair in words.items() if None not in pair}


def _nvidia(row: str, sample: Mapping[str, Any]) -> GpuReading | None:
    """One row of the query by the names of its fields; a row with other cells is none."""
    fields = sample["gpus"]["fields"]
    cells = dict(zip(fields, (cell.strip() for cell in row.split(",")), strict=False))
    index = cells.get("index", "")
    number = whole(index)
    if row.count(",") + 1 != len(fields) or number is None:
        return None
    heat, margin = _number(cells.get("temperature.gpu")), _number(cells.get("temperature.gpu.tlimit"))
    rx, tx = (_number(text) for text in sample["gpus"]["pcie"].get(index, ("", "")))
    xids = {pci_key(pci): found for pci, found in (sample["gpus"]["xid"] or {}).items()}
    xid, since_boot = xids.get(pci_key(cells.get("pci.bus_id")), (None, 0.0))
    return GpuReading(
        number,
        utilization_pct=_number(cells.get("utilization.gpu")),
        memory_used_mib=_whole(_number(cells.get("memory.used"))),
        memory_total_mib=_whole(_number(cells.get("memory.total"))),
        temperature_c=heat,
        power_w=_number(cells.get("power.draw")),
        power_limit_w=_number(cells.get("power.limit")),
        sm_mhz=_whole(_number(cells.get("clocks.sm"))),
        pcie_rx=None if rx is None else rx * _MB,
        pcie_tx=None if tx is None else tx * _MB,
        ecc=_whole(_number(cells.get("ecc.errors.uncorrected.volatile.total"))),
        throttle=throttle.bits_of(cells),
        slowdown_c=None if heat is None or margin is None else heat + margin,
        xid=xid,
        xid_at=None if xid is None else sample["wall"] - sample["boot"] + since_boot,
    )


_MB = 1_000_000
"""dmon's MB."""


def _amd(index: int, row: list[str]) -> GpuReading:
    load, used, total, heat, power = (_number(cell) for cell in row)
    return GpuReading(
        index,
        utilization_pct=load,
        memory_used_mib=None if used is None else int(used) >> 20,
        memory_total_mib=None if total is None else int(total) >> 20,
        temperature_c=None if heat is None else heat / 1000,
        power_w=None if power is None else power / 1_000_000,
    )


def _number(text: str | None) -> float | None:
    """`[N/A]`, `[GPU is lost]`, `ERR!` and other words for unknown are None."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _kib_to_mib(text: str) -> int | None:
    kib = whole(text)
    return None if kib is None else kib >> 10
