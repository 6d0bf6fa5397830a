"""One host as it is known now: its state, its GPUs and links, and who uses them.

How a host's state follows, first match wins:
1. its last probe failed and nothing came since: `down`
2. its live connection broke and is not back: `lost`
3. it answered a probe or sends samples: `up`
4. nothing is known yet: `unknown`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from distui.facts.host import GpuProcess, HostFacts, IbPort, Nic, Trouble
from distui.facts.limits import is_taken
from distui.facts.network import kind_of, main_nic
from distui.frozen import frozen
from distui.monitor import notes
from distui.monitor.histories import GpuHistory, LinkHistory
from distui.monitor.notes import Note
from distui.runs.lines.events import HostSampled

if TYPE_CHECKING:
    from distui.runs.hosts.uses import Use
    from distui.spec.hosts.inventory import Host

BUSY_PCT = 10.0
"""A GPU at or above this is busy even when nobody owns up to it (nvitop's lower threshold)."""

HostStatus = Literal["up", "down", "lost", "unknown"]

_ENGINE_WORDS = {
    "engine_missing": "no {}",
    "daemon_down": "{} down",
    "daemon_elsewhere": "{} down",
    "engine_timeout": "{} hangs",
    "docker_permission": "{} denied",
    "sudo_password": "{} denied",
    "sudo_denied": "{} denied",
    "sudo_tty": "{} denied",
    "podman_as_docker": "{} is podman",
}
"""By the codes of troubles of engines (`facts/engine.py`)."""


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
        """What a GPU is that no run and no process is seen on: `free`, `in use`, `memory taken`, `silent`."""
        if gpu.silent and gpu.utilization is None:
            return "silent"
        if (gpu.utilization or 0.0) >= BUSY_PCT:
            return "in use"
        return "memory taken" if self.busy(gpu) else "free"

    @property
    def silent(self) -> bool:
        """Whether it has GPUs, and nothing is known of any of them now."""
        return bool(self.gpus) and all(gpu.silent and gpu.utilization is None for gpu in self.gpus.values())

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


def _same_id(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _composed(name: str) -> bool:
    """Bonds, teams and VLANs carry what their members carry."""
    return name.startswith(("bond", "team")) or "." in name
