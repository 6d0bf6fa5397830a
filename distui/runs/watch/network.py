"""Which interfaces carry a run's traffic: reported once its ranks talk to each other, ever more seldom while they do,
and at its end, with what is odd.

It costs nothing on the hosts: the counters are in the samples that come once a second, and NCCL's own words, where
`NCCL_DEBUG` has it say any, in the logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from distui.facts.host import HostFacts
from distui.plan.model import HostNetwork, RunPlan
from distui.plan.network import fabric
from distui.plan.ranks.machines import same_machine
from distui.regex import regex
from distui.runs.lines.events import Event, NetworkUsed, Notice
from distui.runs.state.load import used_networks
from distui.runs.state.samples import Sample
from distui.runs.watch.carried import FLOOR, HostCounters, carried_words, elsewhere_words, moved
from distui.spec.hosts.names import fold

SETTLE_S = 10.0
"""Seconds from when ranks have begun to talk to each other until it is reported over what."""
GATHER_S = 5.0
"""Seconds in which other hosts may say the same as the first."""

NCCL = b"NCCL INFO "
_USES = regex(
    rb"NCCL INFO (?:Using network |Assigned NET plugin |(?:Channel|Ring) [^\n]{1,60} via NET/)([A-Za-z0-9_ -]{1,40})"
)
_NO_DEVICE = b"NCCL INFO NET/IB : No device found"


class NetworkWatch:
    """What hosts' counters and NCCL's own lines tell of the network that a run uses."""

    def __init__(self, plan: RunPlan, facts: Mapping[str, HostFacts]) -> None:
        self._plan = plan
        self._facts = facts
        self._networks = {network.host: network for network in plan.networks}
        used = used_networks(plan)
        self._hosts = {
            host: HostCounters(host, _planned(used.get(host)), facts.get(host)) for host in _machines(plan, facts)
        }
        self._moved: dict[str, int] = {}
        """Host -> what its ranks may have sent others, until that is reported."""
        self._busy_since: float | None = None
        self._tell_at: float | None = None
        """When it is reported again: the first time after SETTLE_S, then each time that twice as long has passed."""
        self._begun = False
        self._sockets: dict[str, None] = {}
        """Hosts on which NCCL says that it uses sockets."""
        self._no_device: set[str] = set()
        self._sockets_since: float | None = None
        self._reported: set[str] = set()

    def take(self, host: str, sample: Sample, now: float) -> Iterator[Event]:
        """A host's sample; what is to be reported now."""
        if host in self._hosts:
            self._hosts[host].take(sample)
            if self._busy_since is None:
                self._moved[host] = moved(self._hosts[host].rows())
                if sum(self._moved.values()) >= FLOOR:
                    self._busy_since, self._tell_at = now, now + SETTLE_S
        if self._busy_since is not None and self._tell_at is not None and now >= self._tell_at:
            self._tell_at = now + (now - self._busy_since)
            yield from self._tell(now)
        elif self._sockets_since is not None and now - self._sockets_since >= GATHER_S:
            yield from self._warn(now, self._sockets_words())

    def heard(self, host: str, data: bytes, now: float) -> None:
        """What a rank printed: NCCL says which network it uses, where it says anything."""
        if NCCL not in data:
            return
        if _NO_DEVICE in data:
            self._no_device.add(host)
        if any(name.startswith(b"Socket") for name in _USES.findall(data)) and host not in self._sockets:
            self._sockets[host] = None
            self._sockets_since = now

    def so_far(self, now: float) -> NetworkUsed | None:
        """What was carried until now, of a run that goes on; None where that was hardly anything."""
        return self._used(now, "going")

    def ended(self, now: float) -> NetworkUsed | None:
        """What was carried in all; None where that was hardly anything, and nothing is odd."""
        return self._used(now, "ended")

    def _tell(self, now: float) -> Iterator[Event]:
        used = self._used(now, "going" if self._begun else "begun")
        if used is None:
            return
        yield used
        if not self._begun and used.words:
            yield Notice(now, "info", f"network so far: {used.words}")
        self._begun = True
        if not self._reported:  # later words would differ in their amounts only
            yield from self._warn(now, used.warnings)

    def _warn(self, now: float, warnings: tuple[str, ...]) -> Iterator[Event]:
        self._sockets_since = None
        for words in warnings:
            if words not in self._reported:
                self._reported.add(words)
                yield Notice(now, "warning", words)

    def _used(self, now: float, moment: Literal["begun", "going", "ended"]) -> NetworkUsed | None:
        rows = tuple(row for host in self._hosts.values() for row in host.rows() if row.received or row.sent)
        words, warnings = carried_words(rows), (*self._sockets_words(), *self._elsewhere())
        return NetworkUsed(now, moment, words, rows, warnings) if words or warnings else None

    def _elsewhere(self) -> tuple[str, ...]:
        """Nothing of hosts on which NCCL itself says what it uses."""
        said = self._unmeant_sockets()
        found = {name: there for name, host in self._hosts.items() if (there := host.elsewhere()) is not None}
        rdma = frozenset(host for host in found if any(":" in name for name in self._hosts[host].planned))
        return () if said else tuple(elsewhere_words(found, rdma))

    def _sockets_words(self) -> tuple[str, ...]:
        hosts = self._unmeant_sockets()
        if not hosts:
            return ()
        kinds = {self._rdma(host) for host in hosts}
        what = "InfiniBand" if fabric.INFINIBAND in kinds else "RoCE"
        why = ", where it found no device" if set(hosts) <= self._no_device else ""
        todo = "has the container /dev/infiniband and libibverbs, and does anything set NCCL_IB_DISABLE or NCCL_NET?"
        return (f"{what} is up, but NCCL uses sockets on {fold(hosts)}{why}; {todo}",)

    def _unmeant_sockets(self) -> tuple[str, ...]:
        """Hosts on which NCCL uses sockets though the plan has RDMA for them."""
        if len(self._hosts) < 2:  # nothing has to go from host to host
            return ()
        return tuple(host for host in self._plan.hosts if host in self._sockets and self._rdma(host))

    def _rdma(self, host: str) -> str:
        """The link layer of the RDMA ports that are up on a host and planned for it; empty where there are none."""
        network, facts = self._networks.get(host), self._facts.get(host)
        if network is None or network.rdma_off or not network.hcas or facts is None:
            return ""
        env = next((task.env for task in self._plan.tasks if task.host == host), {})
        if env.get("NCCL_IB_DISABLE", "0") != "0" or env.get("NCCL_NET", "").startswith("Socket"):
            return ""
        ports = {fabric.port_name(port): port for port in facts.ib if port.active}
        return next((ports[name].link_layer or "" for name in network.hcas if name in ports), "")


def _planned(network: HostNetwork | None) -> tuple[str, ...]:
    """What the plan has ranks of a host use: RDMA ports, or an interface."""
    return () if network is None else network.hcas or (network.ifname,)


def _machines(plan: RunPlan, facts: Mapping[str, HostFacts]) -> list[str]:
    """The hosts of a run, of several names for one machine the first."""
    found: list[str] = []
    for host in plan.hosts:
        known = facts.get(host)
        others = [facts[name] for name in found if name in facts]
        if known is None or not any(same_machine(known, other) for other in others):
            found.append(host)
    return found
