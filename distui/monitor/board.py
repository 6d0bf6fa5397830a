"""All hosts at a glance: probe results, live samples and uses folded into figures with five minutes of history.

Nothing here waits or reads a clock: times are given. How a host's state follows, first match wins:
1. its last probe failed and nothing came since: `down`
2. its live connection broke and is not back: `lost`
3. it answered a probe or sends samples: `up`
4. nothing is known yet: `unknown`
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Literal

from distui.amounts import counted
from distui.facts.gpus.gpu import with_processes
from distui.facts.host import Gpu, GpuProcess, HostDown, HostFacts, IbPort, Nic, ProbeResult, Trouble
from distui.facts.limits import WARM_C, is_taken
from distui.facts.network import kind_of, main_nic
from distui.frozen import frozen
from distui.monitor import notes
from distui.monitor.notes import Note
from distui.runs.lines.events import GpuReading, HostSampled

if TYPE_CHECKING:
    from distui.runs.hosts.uses import Use
    from distui.spec.hosts.inventory import Host

HISTORY = 300
"""Samples kept for each GPU and link: five minutes at one a second."""

BUSY_PCT = 10.0
"""A GPU at or above this is busy even when nobody owns up to it (nvitop's lower threshold)."""

IDLE_PCT = 5.0
"""Below this a GPU that a run owns does nothing (all-smi's `util_idle_pct`)."""

HostStatus = Literal["up", "down", "lost", "unknown"]

_ENGINE_WORDS = {
    "engine_missing": "no {}",
    "daemon_down": "{} down",
    "engine_timeout": "{} hangs",
    "docker_permission": "{} denied",
    "sudo_password": "{} denied",
    "sudo_denied": "{} denied",
}
"""By the codes of `facts.engine.classify`."""


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

    @property
    def utilization(self) -> float | None:
        """Percent, live or as probed."""
        live = self.reading.utilization_pct if self.reading else None
        return live if live is not None or not self.facts else self.facts.utilization_pct

    @property
    def memory_used(self) -> int | None:
        """MiB, live or as probed."""
        live = self.reading.memory_used_mib if self.reading else None
        return live if live is not None or not self.facts else self.facts.memory_used_mib

    @property
    def memory_total(self) -> int | None:
        """MiB."""
        live = self.reading.memory_total_mib if self.reading else None
        return live if live is not None or not self.facts else self.facts.memory_total_mib

    @property
    def temperature(self) -> float | None:
        """Degrees Celsius."""
        live = self.reading.temperature_c if self.reading else None
        return live if live is not None or not self.facts else self.facts.temperature_c

    @property
    def power(self) -> float | None:
        """Watts."""
        live = self.reading.power_w if self.reading else None
        return live if live is not None or not self.facts else self.facts.power_w

    def take(self, reading: GpuReading, at: float) -> list[Note]:
        """One more second of it; what changed in it."""
        notices = list(notes.of_gpu(self.reading or GpuReading(self.index), reading, at))
        warm = self.warm_since is not None
        self._add(reading, at)
        if warm != (self.warm_since is not None):
            notices.append(notes.of_temperature(self.index, reading.temperature_c, WARM_C, warm=not warm, at=at))
        return notices

    def _add(self, reading: GpuReading, at: float) -> None:
        self.reading = reading
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


@frozen
class GpuOwner:
    """Who uses a GPU: at most one run of distui, and processes that belong to none."""

    use: Use | None = None
    ranks: tuple[int, ...] = ()
    foreign: tuple[GpuProcess, ...] = ()


@dataclass(slots=True)
class HostBoard:
    """Everything known of one host now."""

    spec: Host
    groups: tuple[str, ...] = ()
    """The groups of hosts.yaml that it is in."""
    facts: HostFacts | None = None
    trouble: Trouble | None = None
    """Why its last probe failed, or its connection broke."""
    lost: bool = False
    probing: bool = False
    seen: float | None = None
    """When it last answered, on our clock."""
    probed_at: float | None = None
    """When its last probe ended, answered or not, on our clock."""
    sample: HostSampled | None = None
    gpus: dict[int, GpuHistory] = field(default_factory=dict)
    links: dict[str, LinkHistory] = field(default_factory=dict)
    uses: tuple[Use, ...] = ()
    notes: deque[Note] = field(default_factory=lambda: deque(maxlen=notes.MOST))
    """What happened while we looked, the oldest first."""

    @property
    def name(self) -> str:
        """The host's name in the inventory."""
        return self.spec.name

    @property
    def status(self) -> HostStatus:
        """The host's state, by the numbered list of this module."""
        if self.trouble is not None:
            return "lost" if self.lost else "down"
        return "up" if self.facts or self.sample else "unknown"

    @property
    def engine_trouble(self) -> Trouble | None:
        """Why no container can be started here, as the last probe found; None on a host that runs processes."""
        return self.facts.engine.problem if self.facts and self.spec.engine != "process" else None

    @property
    def engine_words(self) -> str:
        """The same in two words for a row, `no docker`; "" when all is well."""
        trouble = self.engine_trouble
        return "" if trouble is None else _ENGINE_WORDS.get(trouble.code, "{} broken").format(self.spec.engine)

    @property
    def gpu_state(self) -> Literal["some", "none", "silent", "unknown"]:
        """What is known of its GPUs by probe and samples together: a GPU that either names is there.

        `silent`: the driver did not answer the probe and no sample names one; `unknown`: no probe was answered.
        """
        if self.gpus and (self.facts is None or not self.facts.gpu.problem or (self.sample and self.sample.gpus)):
            return "some"
        if self.facts is None:
            return "unknown"
        return "silent" if self.facts.gpu.problem else "none"

    def gpus_in_order(self) -> list[GpuHistory]:
        """Its GPUs by index."""
        return [self.gpus[i] for i in sorted(self.gpus)]

    def owner(self, gpu: GpuHistory) -> GpuOwner:
        """Who uses a GPU of this host."""
        sees = [u for u in self.uses if gpu.index in u.gpus]
        use = next((u for u in sees if u.gpus[gpu.index]), sees[0] if sees else None)
        processes = gpu.facts.processes if gpu.facts else ()
        foreign = tuple(p for p in processes if not self.belongs(p, use))
        return GpuOwner(use, use.gpus[gpu.index] if use else (), foreign)

    def belongs(self, process: GpuProcess, at_gpu: Use | None = None) -> bool:
        """Whether a process is of a run: by its container, or as a process on a GPU a run of processes was given."""
        if process.container is None:
            return at_gpu is not None and not at_gpu.container
        return self.use_of(process.container) is not None

    def use_of(self, container: str | None) -> Use | None:
        """The task that runs in this container; ids may be shortened."""
        return next((u for u in self.uses if container and u.container and _same_id(container, u.container)), None)

    def busy(self, gpu: GpuHistory) -> bool:
        """Whether a run has this GPU, somebody's process is on it, it works, or its memory is taken (as in plans)."""
        owner = self.owner(gpu)
        if owner.use is not None or owner.foreign or (gpu.utilization or 0.0) >= BUSY_PCT:
            return True
        return is_taken(gpu.memory_used, gpu.memory_total)

    def unowned_words(self, gpu: GpuHistory) -> str:
        """What a GPU is that no run and no process is seen on: `free`, `in use`, `memory taken`."""
        if (gpu.utilization or 0.0) >= BUSY_PCT:
            return "in use"
        return "memory taken" if self.busy(gpu) else "free"

    def average(self) -> float | None:
        """Mean utilisation of its GPUs in percent."""
        known = [u for u in (gpu.utilization for gpu in self.gpus.values()) if u is not None]
        return sum(known) / len(known) if known else None

    def hottest(self) -> float | None:
        """The highest temperature of its GPUs."""
        return max((t for t in (gpu.temperature for gpu in self.gpus.values()) if t is not None), default=None)

    def memory(self) -> tuple[float, float] | None:
        """(used, total) in MiB: of the GPUs together, of the machine when it has none."""
        if self.gpus:
            total = sum(gpu.memory_total or 0 for gpu in self.gpus.values())
            return (sum(gpu.memory_used or 0 for gpu in self.gpus.values()), total) if total else None
        live, facts = self.sample, self.facts
        for source in (live, facts):
            total_mib = source.memory_total_mib if source else None
            available = source.memory_available_mib if source else None
            if total_mib and available is not None:
                return max(0, total_mib - available), total_mib
        return None

    def rates(self) -> tuple[float, float] | None:
        """(received, sent) bytes per second over all real links, each byte once; None before the second sample."""
        links = [link for link in self.data_links() if link.rx is not None]
        return (sum(x.rx or 0.0 for x in links), sum(x.tx or 0.0 for x in links)) if links else None

    def data_links(self) -> Iterator[LinkHistory]:
        """Links that carry data of their own.

        Left out: virtual ones, bonds and VLANs (their members count), and IPoIB where the port's counters count it.
        """
        ports = {p.netdev for p in self.ib_ports() if f"{p.hca}:{p.port}" in self.links}
        for link in self.links.values():
            if ":" in link.name or (link.name not in ports and not _composed(link.name) and self._kind(link.name)):
                yield link

    def _kind(self, name: str) -> bool:
        nic = self.nic(name)
        return (nic.kind if nic else kind_of(name)) in ("ethernet", "infiniband")

    def nic(self, name: str) -> Nic | None:
        """The interface of that name, as probed."""
        return next((n for n in self.facts.nics if n.name == name), None) if self.facts else None

    def ib_ports(self) -> list[IbPort]:
        """Its InfiniBand ports; RoCE ports are Ethernet."""
        return [p for p in self.facts.ib if p.link_layer == "InfiniBand"] if self.facts else []

    def rdma_ports(self) -> list[IbPort]:
        """Its InfiniBand ports, or the RoCE ports when there are none."""
        return self.ib_ports() or (list(self.facts.ib) if self.facts else [])

    def main_nic(self) -> Nic | None:
        """The interface people would name first."""
        return main_nic(self.facts) if self.facts else None


@frozen
class Totals:
    """The headline over all hosts."""

    up: int
    down: int
    unknown: int
    gpus: int
    busy: int
    runs: int
    no_engine: int = 0
    """Hosts that are up and can start no container."""


class Board:
    """All hosts of the inventory, in its order. Takes in what happens; tells what is."""

    def __init__(self, hosts: Sequence[Host], groups: Mapping[str, Sequence[str]] | None = None) -> None:
        known = groups or {}
        self.hosts: dict[str, HostBoard] = {
            h.name: HostBoard(h, tuple(name for name, members in known.items() if h.name in members)) for h in hosts
        }

    def __getitem__(self, name: str) -> HostBoard:
        return self.hosts[name]

    def probing(self, names: Iterable[str]) -> None:
        """These hosts are being probed now."""
        for name in names:
            if name in self.hosts:
                self.hosts[name].probing = True

    def probed(self, name: str, result: ProbeResult, at: float) -> None:
        """A probe ended. Old facts stay when it failed."""
        host = self.hosts.get(name)
        if host is None:
            return
        host.probing, host.probed_at = False, at
        match result:
            case HostDown(error=error):
                if host.trouble is None or host.trouble.message != error.message:
                    host.notes.append(Note(at, "wrong", f"no answer to a probe: {error.message}"))
                host.trouble, host.lost = error, False
            case HostFacts():
                host.notes += _answered(host, result, at)
                host.facts, host.trouble, host.seen = result, None, at
                for gpu in result.gpu.gpus:
                    host.gpus.setdefault(gpu.index, GpuHistory(gpu.index)).facts = gpu

    def processes(self, name: str, found: Sequence[GpuProcess]) -> None:
        """What is on a host's GPUs by now."""
        host = self.hosts.get(name)
        if host is None or host.facts is None:
            return
        gpus = with_processes(host.facts.gpu.gpus, found)
        host.facts = replace(host.facts, gpu=replace(host.facts.gpu, gpus=gpus))
        for gpu in gpus:
            host.gpus.setdefault(gpu.index, GpuHistory(gpu.index)).facts = gpu

    def connection(self, name: str, state: Literal["up", "lost", "back"], reason: str, at: float) -> None:
        """What became of a host's live connection. A host that never answered keeps the probe's better words."""
        host = self.hosts.get(name)
        if host is None:
            return
        if state != "lost":
            if host.lost:
                host.notes.append(Note(at, "good", "the connection is back"))
            host.seen = at
            host.trouble, host.lost = None, False
        elif host.status in ("up", "lost"):
            if not host.lost:
                host.notes.append(Note(at, "wrong", reason or "the connection is lost"))
            host.trouble, host.lost = Trouble("lost", reason or "the connection is lost"), True

    def sampled(self, sample: HostSampled) -> None:
        """One second of one host."""
        host = self.hosts.get(sample.host)
        if host is None:
            return
        if host.lost:
            host.notes.append(Note(sample.at, "good", "the connection is back"))
        host.sample, host.seen = sample, sample.at
        host.trouble, host.lost = None, False
        for reading in sample.gpus:
            gpu = host.gpus.get(reading.index) or host.gpus.setdefault(reading.index, GpuHistory(reading.index))
            host.notes += gpu.take(reading, sample.at)
        for name, (rx, tx) in sample.net.items():
            link = host.links.get(name) or host.links.setdefault(name, LinkHistory(name))
            link.rx, link.tx = rx, tx
            link.history.add(max(rx, tx))
            if (count := sample.errors.get(name)) is not None:
                if link.errors is not None and count > link.errors:
                    host.notes.append(Note(sample.at, "watch", f"{name} counts {count - link.errors} new errors"))
                link.errors_before = count if link.errors is None else min(link.errors_before, count)
                link.errors = count

    def used(self, uses: Iterable[Use], at: float, *, unasked: Container[str] = ()) -> None:
        """The live tasks, as known now; what was known before is forgotten.

        Hosts that could not be asked (`unasked`) keep what was known: no answer is not "nothing runs".
        """
        by_host: dict[str, list[Use]] = {}
        for use in uses:
            by_host.setdefault(use.host, []).append(use)
        for name, host in self.hosts.items():
            now = tuple(by_host.get(name, ()))
            if not now and name in unasked:
                continue
            if now != host.uses and host.status == "up":
                host.notes += sorted(notes.of_uses(host.uses, now, at), key=lambda note: note.text)
            host.uses = now

    def totals(self) -> Totals:
        """The headline; a host that is out of reach keeps its GPUs in the sum, but none of them is busy."""
        counts = {"up": 0, "down": 0, "lost": 0, "unknown": 0}
        gpus = busy = 0
        for host in self.hosts.values():
            counts[host.status] += 1
            gpus += len(host.gpus)
            if host.status == "up":
                busy += sum(1 for gpu in host.gpus.values() if host.busy(gpu))
        runs = {use.run for host in self.hosts.values() for use in host.uses}
        no_engine = sum(host.status == "up" and host.engine_trouble is not None for host in self.hosts.values())
        down = counts["down"] + counts["lost"]
        return Totals(counts["up"], down, counts["unknown"], gpus, busy, len(runs), no_engine)


def _answered(host: HostBoard, facts: HostFacts, at: float) -> Iterator[Note]:
    """A probe was answered: the first time, after trouble, or after the host was started again."""
    before = host.facts
    if before is None:
        yield Note(
            at, "info", f"answers a probe: {facts.os or 'unknown system'}, {counted(len(facts.gpu.gpus), 'GPU')}"
        )
    elif before.boot_id and facts.boot_id and before.boot_id != facts.boot_id:
        yield Note(at, "wrong", "it was started again since the last probe")
    elif host.trouble is not None:
        yield Note(at, "good", "answers again")


def _same_id(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _composed(name: str) -> bool:
    """Bonds, teams and VLANs carry what their members carry."""
    return name.startswith(("bond", "team")) or "." in name
