"""What the interfaces of a run's hosts carried since it is followed, and whether that is what the plan chose. Pure.

Counters are a host's own: what else it does counts, too. So a claim is only made of what hosts *exchange* (as much as
they both receive and send: reading data is none), of much of it, on two hosts or more, and where the interface was idle
before the run. A counter that is missing, went back or does not move any more lets nothing be claimed of its host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from distui.amounts import size_words
from distui.facts.host import HostFacts, NicKind
from distui.facts.network import kind_of
from distui.frozen import frozen
from distui.plan.network.fabric import INFINIBAND
from distui.runs.lines.events import Carried
from distui.runs.state.samples import Sample, Traffic
from distui.spec.hosts.names import fold

FLOOR = 64_000_000
"""Bytes below which nothing is said."""
SLOWEST = 500_000.0
"""Bytes a second that are exchanged over another interface at least, where that is claimed."""
UNUSED = 0.1
"""Part of them that the planned interface carries at most."""
EVEN = 0.2
"""What goes one way is this part of what goes the other at least: that data is read is confirmed in less."""
BEFORE = 0.25
"""Part of them that the other interface had carried between the probe and the start at most."""
MOST, LONGEST = 256, 64
"""Interfaces of a host that are counted, and letters of a name: what a host says of itself has a measure."""
FULL = 0xFFFFFFFF * 4
"""Where old InfiniBand counters of 32 bits stop."""
NAMED = 4
"""Interfaces that are named."""

COUNTED: frozenset[NicKind] = frozenset({"ethernet", "infiniband"})


@dataclass(slots=True)
class Counter:
    """One interface or RDMA port: its newest counters, and what they grew by."""

    rx: int
    tx: int
    received: int = 0
    sent: int = 0
    whole: bool = True
    """Whether the counters only grew."""

    def take(self, now: Traffic) -> None:
        """Its newest counters."""
        if now.rx_bytes < self.rx or now.tx_bytes < self.tx:
            self.whole = False
        else:
            self.received += now.rx_bytes - self.rx
            self.sent += now.tx_bytes - self.tx
        self.rx, self.tx = now.rx_bytes, now.tx_bytes


class HostCounters:
    """One host: what each of its interfaces carried since the first sample."""

    def __init__(self, host: str, planned: Sequence[str], facts: HostFacts | None) -> None:
        """`planned` is what ranks are to use: an interface, or RDMA ports (`mlx5_0:1`)."""
        self.host = host
        self.planned = frozenset(planned)
        self.began: float | None = None
        self.seconds = 0.0
        self._facts = facts
        self._kinds = {nic.name: nic.kind for nic in facts.nics} if facts is not None else {}
        self._counters: dict[str, Counter] = {}
        self._left_out: set[str] = set()
        self._lower: Mapping[str, tuple[str, ...]] = {}

    def take(self, sample: Sample) -> None:
        """The newest counters."""
        self.began = sample.at if self.began is None else self.began
        self.seconds, self._lower = sample.at - self.began, sample.lower
        for counted in (sample.net, sample.ib):
            for name, traffic in counted.items():
                counter = self._counters.get(name)
                if counter is not None:
                    counter.take(traffic)
                elif name not in self._left_out:
                    self._begin(name, traffic)

    def _begin(self, name: str, traffic: Traffic) -> None:
        planned = name in self.planned
        kind = self._kinds.get(name) or kind_of(name)
        wanted = (planned and kind != "tunnel") or ":" in name or name == "lo" or kind in COUNTED
        if wanted and len(name) <= LONGEST and len(self._counters) < MOST:
            self._counters[name] = Counter(traffic.rx_bytes, traffic.tx_bytes)
        elif len(self._left_out) < 8 * MOST:
            self._left_out.add(name)

    def rows(self) -> tuple[Carried, ...]:
        """Each interface once: an RDMA port by its interface, a bond or a VLAN with those that carry it."""
        return tuple(row.carried for row in self._rows())

    def elsewhere(self) -> Elsewhere | None:
        """Another interface than the planned one over which the host exchanges nearly all; None where none is known.

        Nothing is said where counters of any interface went back or stopped, or those of a planned one are missing.
        """
        rows = [row for row in self._rows() if row.carried.interface != "lo"]
        planned = [row.carried for row in rows if row.carried.planned]
        others = [row for row in rows if not row.carried.planned]
        counted = self.planned and self.planned <= self._counters.keys()
        if not counted or not planned or not others or not all(row.whole for row in rows):
            return None
        most = max(others, key=lambda row: exchanged(row.carried))
        moved, before = exchanged(most.carried), self._before(most.names)
        enough = moved >= FLOOR and moved >= SLOWEST * self.seconds
        low, high = sorted((most.carried.received, most.carried.sent))
        if not enough or low < EVEN * high or before is None or before > BEFORE * moved:
            return None
        if sum(map(exchanged, planned)) > UNUSED * moved:
            return None
        return Elsewhere(most.carried, fold(row.interface for row in planned))

    def _before(self, names: Iterable[str]) -> int | None:
        """What these interfaces exchanged between the probe and the first sample; None where nobody knows."""
        nics = {nic.name: nic for nic in (self._facts.nics if self._facts is not None else ())}
        found, interfaces = 0, [name for name in names if ":" not in name]
        for name in interfaces:
            nic, counter = nics.get(name), self._counters[name]
            if nic is None or nic.rx_bytes is None or nic.tx_bytes is None:
                return None
            received = counter.rx - counter.received - nic.rx_bytes
            sent = counter.tx - counter.sent - nic.tx_bytes
            if received < 0 or sent < 0:
                return None
            found += min(received, sent)
        return found if interfaces else None

    def _rows(self) -> Iterator[_Row]:
        ports = self._by_interface()
        names = [name for name in self._counters if ":" not in name]
        names += [name for name in ports if name not in names]
        for group in _together(names, self._lower):
            leaves = [name for name in group if not set(self._lower.get(name, ())) & set(group)] or group
            yield self._row(group, leaves, ports)

    def _row(self, group: Sequence[str], leaves: Sequence[str], ports: Mapping[str, list[str]]) -> _Row:
        counted: list[str] = []
        for name in leaves:
            own = ports.get(name, [])
            if not (own and self._is_infiniband(own)) and name in self._counters:
                counted.append(name)  # an InfiniBand port counts what its interface does, too
            counted += own
        counters = [self._counters[name] for name in counted]
        planned = bool(self.planned & {*group, *counted})
        called = next((name for name in group if name in self.planned), None) or _top(group, self._lower)
        received, sent = sum(c.received for c in counters), sum(c.sent for c in counters)
        whole = all(c.whole and FULL not in (c.rx, c.tx) for c in counters)
        return _Row(Carried(self.host, called, received, sent, planned), tuple(counted), whole)

    def _by_interface(self) -> dict[str, list[str]]:
        """Interface, or the port's own name without one -> its RDMA ports."""
        known = {f"{port.hca}:{port.port}": port.netdev for port in (self._facts.ib if self._facts is not None else ())}
        found: dict[str, list[str]] = {}
        for name in self._counters:
            if ":" in name:
                found.setdefault(known.get(name) or name, []).append(name)
        return found

    def _is_infiniband(self, ports: Sequence[str]) -> bool:
        layers = {f"{port.hca}:{port.port}": port.link_layer for port in (self._facts.ib if self._facts else ())}
        return all(layers.get(port) == INFINIBAND for port in ports)


@frozen
class Elsewhere:
    """What a host exchanges over another interface than the planned one."""

    carried: Carried
    planned: str
    """The planned interface, or several folded."""


@frozen
class _Row:
    carried: Carried
    names: tuple[str, ...]
    """What it is counted by."""
    whole: bool


def exchanged(row: Carried) -> int:
    """Bytes that went either way: ranks send about as much as they receive, who reads data does not."""
    return min(row.received, row.sent)


def moved(rows: Iterable[Carried]) -> int:
    """What ranks may have sent each other so far, within hosts or between them."""
    return sum(row.sent if row.interface == "lo" else exchanged(row) for row in rows)


def _together(names: Sequence[str], lower: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """Interfaces with those that carry them."""
    groups: list[set[str]] = []
    for name in names:
        own = {name, *(one for one in lower.get(name, ()) if one in names)}
        near = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own]
        groups.append(own.union(*near))
    return [[name for name in names if name in group] for group in groups]


def _top(group: Sequence[str], lower: Mapping[str, tuple[str, ...]]) -> str:
    """The interface that carries none of the others."""
    below = {one for name in group for one in lower.get(name, ())}
    return next((name for name in group if name not in below), group[0])


def carried_words(rows: Sequence[Carried]) -> str:
    """`ib0 98 % of 41 GB, eth0 2 %; 12 GB within hosts (lo)`; empty where hardly anything was carried."""
    shares = sorted(_by_name(rows).items(), key=lambda item: -item[1])
    total, inside = sum(size for _, size in shares), sum(row.sent for row in rows if row.interface == "lo")
    within = f"{size_words(inside)} within hosts (lo)"
    if total < FLOOR:
        return f"{within}, {size_words(total)} between hosts" if inside >= FLOOR else ""
    least = min(0.005 * total, shares[0][1])  # of hundreds of interfaces each may carry less
    parts = [f"{name} {100 * size / total:.0f} %" for name, size in shares[:NAMED] if size >= least]
    parts[0] += f" of {size_words(total)}"
    return ", ".join(parts) + (f"; {within}" if inside >= FLOOR else "")


def _by_name(rows: Sequence[Carried]) -> dict[str, int]:
    """Bytes by interface without lo, those that were planned as one, each byte once: one host sends what another
    receives, so the larger of both is what went over it, also where data came from elsewhere.
    """
    outside = [row for row in rows if row.interface != "lo"]
    planned = fold(dict.fromkeys(row.interface for row in outside if row.planned))
    groups: dict[str, list[Carried]] = {}
    for row in outside:
        groups.setdefault(planned if row.planned else row.interface, []).append(row)
    return {
        name: max(sum(row.received for row in group), sum(row.sent for row in group)) for name, group in groups.items()
    }


def elsewhere_words(found: Mapping[str, Elsewhere], rdma: Collection[str] = ()) -> Iterator[str]:
    """What to say where two hosts or more exchange nearly all over another interface, and what to do.

    `rdma` are hosts whose ranks are to use RDMA.
    """
    if len(found) < 2:  # what ranks exchange has two ends
        return
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for host, one in found.items():
        groups.setdefault((one.carried.interface, one.planned, host in rdma), []).append(host)
    for (name, planned, by_rdma), hosts in groups.items():
        size = sum(exchanged(found[host].carried) for host in hosts)
        todo = (
            "NCCL may have fallen back to sockets: NCCL_DEBUG=INFO in `env` of the job tells why"
            if by_rdma
            else "does the program, its image or `env` of the job set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME? "
            "If it is meant, name the interface as `fabric: {ifname: ...}`"
        )
        went = f"{size_words(size)} went over {name}, hardly any over {planned}, which the plan chose"
        yield f"{fold(hosts)}: {went}; {todo}"
