"""The RDMA ports that each host uses: as pinned, else those that face peers; and what is said of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from distui.facts.host import HostFacts, IbPort
from distui.plan.network import fabric
from distui.plan.network.fabric import INFINIBAND, ROCE, Network
from distui.plan.network.inputs import Inputs
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import natural
from distui.spec.job.job import FabricKind, Job

LEFT_OUT = "left out by hcas"
"""State of ports of a kind of which `hcas: ^...` leaves none: they make no fabric."""
_GIVE_DEVICES = ", and containers need `devices: [/dev/infiniband]` for it"


def pattern_of(job: Job, host: Host) -> str | None:
    return job.fabric.hcas if job.fabric.hcas != "inherit" else host.data.hcas


def without_left_out(job: Job, host: Host, facts: HostFacts) -> HostFacts:
    """The facts, where no port counts of a kind of which `hcas: ^...` leaves none."""
    pattern = pattern_of(job, host)
    if not pattern or not pattern.startswith("^"):
        return facts
    left = replace(facts, ib=fabric.select_hcas(pattern, facts.ib))
    none = {layer for layer in (INFINIBAND, ROCE) if not fabric.rdma_ports(left, layer)}
    return replace(
        facts, ib=tuple(replace(p, state=LEFT_OUT) if p.active and p.link_layer in none else p for p in facts.ib)
    )


def ports_used(inputs: Inputs, kind: FabricKind) -> dict[str, tuple[str, ...]]:
    """`hca:port` of the ports each host uses: as pinned, else the ACTIVE ones that face peers and are not left out."""
    if kind not in ("ib", "roce"):
        return {host.name: () for host in inputs.hosts}
    pinned: dict[str, tuple[IbPort, ...]] = {}
    others: dict[str, tuple[IbPort, ...]] = {}
    for host in inputs.hosts:
        facts, pattern = inputs.facts[host.name], pattern_of(inputs.job, host)
        ports = fabric.rdma_ports(facts, INFINIBAND if kind == "ib" else ROCE)
        if pattern and not pattern.startswith("^"):
            pinned[host.name] = _pinned_ports(inputs, host, facts, pattern)
        else:
            others[host.name] = fabric.select_hcas(pattern, ports) if pattern else ports
    chosen = pinned | (others if kind == "ib" else _facing_peers(inputs, others))
    return {host.name: natural(map(fabric.port_name, chosen[host.name])) for host in inputs.hosts}


def _pinned_ports(inputs: Inputs, host: Host, facts: HostFacts, pattern: str) -> tuple[IbPort, ...]:
    """ACTIVE ports the pattern names; inactive ones are a problem, or a warning with `require: any`."""
    named = fabric.select_hcas(pattern, facts.ib)
    active = tuple(p for p in named if p.active)
    down = [fabric.port_name(p) for p in named if not p.active]
    has = ", ".join(f"{fabric.port_name(p)} {p.state or 'unreadable'}" for p in facts.ib) or "none"
    if not named:
        hint = "names are whole ones here: mlx5_[0-7], or mlx5_* for all"
        inputs.notes.problem("rdma", host.name, f"hcas {pattern!r} names no RDMA port (has {has})", hint)
    elif not active or (down and inputs.job.fabric.require == "all"):
        inputs.notes.problem("rdma", host.name, f"RDMA ports {pattern!r} are not all ACTIVE (has {has})")
    elif down:
        inputs.notes.warnings.append(f"{host.name}: {', '.join(down)} not ACTIVE, left out")
    return active


def _facing_peers(inputs: Inputs, left: Mapping[str, tuple[IbPort, ...]]) -> dict[str, tuple[IbPort, ...]]:
    """Each host's RoCE ports whose interface is in a subnet that every host has, without the management's if all have
    as many then. Where every host has faster ones with an address elsewhere, those: rails may be routed, one subnet a
    link, beside a management network that all share. All of them when there is neither.
    """
    subnets = Counter(
        network
        for f in inputs.facts.values()
        for network in {o.network for o in fabric.offers(f) if o.network is not None}
    )
    everywhere = {network for network, n in subnets.items() if n == len(inputs.facts)}
    facing = {name: _in_subnets(inputs.facts[name], ports, everywhere) for name, ports in left.items()}
    fewer = {name: _without_default_route(inputs.facts[name], ports) for name, ports in facing.items()}
    if len({*map(len, fewer.values())}) == 1:
        facing = fewer
    routed = {name: _routed(inputs.facts[name], ports, facing[name]) for name, ports in left.items()}
    if not (routed and all(routed.values())):
        return {name: facing[name] or ports for name, ports in left.items()}
    if inputs.verbs:
        text = "the fastest RoCE ports are in no subnet that all hosts share, and must be routed between them"
        inputs.notes.warnings.append(f"{text}; `hcas` names others")
    return routed


def _in_subnets(facts: HostFacts, ports: tuple[IbPort, ...], subnets: Collection[Network | None]) -> tuple[IbPort, ...]:
    nics = [o.nic for o in fabric.offers(facts) if o.network in subnets]
    names, below = {nic.name for nic in nics}, {name for nic in nics for name in nic.over}
    fastest = _fastest(ports)

    def faces(port: IbPort) -> bool:
        # Below a VLAN only the fastest: the management's joins no rails.
        return port.netdev in names or (port.netdev in below and (port.rate_gbps or 0.0) >= fastest)

    return tuple(p for p in ports if faces(p))


def _without_default_route(facts: HostFacts, ports: tuple[IbPort, ...]) -> tuple[IbPort, ...]:
    """The ports but slower ones that the default route goes by: the management's, as clouds have it beside rails."""
    default_route = {name for n in facts.nics if n.name == facts.default_route_nic for name in (n.name, *n.over)}
    return tuple(p for p in ports if p.netdev not in default_route or (p.rate_gbps or 0.0) >= _fastest(ports))


def _routed(facts: HostFacts, ports: tuple[IbPort, ...], facing: tuple[IbPort, ...]) -> tuple[IbPort, ...]:
    """The ports with an address that are faster than all that face peers."""
    addressed, slower = _in_subnets(facts, ports, {o.network for o in fabric.offers(facts)}), _fastest(facing)
    return tuple(p for p in addressed if (p.rate_gbps or 0.0) > slower)


def _fastest(ports: Iterable[IbPort]) -> float:
    return max((p.rate_gbps or 0.0 for p in ports), default=0.0)


def other_rdma(inputs: Inputs) -> Iterator[str]:
    """RDMA ports that are neither InfiniBand nor RoCE: NCCL only uses them by a plugin in the image."""
    for host in inputs.hosts:
        other = [p.hca for p in inputs.facts[host.name].ib if p.active and p.link_layer not in (INFINIBAND, ROCE, None)]
        if other:
            named = ", ".join(natural(other))
            box = "" if host.engine == "process" or _has_devices(inputs.job) else _GIVE_DEVICES
            yield f"{host.name}: {named} (such as EFA) is only used by a plugin for NCCL in the image{box}"


def _has_devices(job: Job) -> bool:
    """Whether containers are given RDMA's devices, or some of them."""
    return any("/dev/infiniband" in one or one == "--privileged" for one in (*job.devices, *job.docker_args))


def nothing_left(inputs: Inputs) -> Iterator[str]:
    """Hosts whose `hcas: ^...` leaves no port: meant so, or too much was left out."""
    for host in inputs.hosts:
        ports = inputs.facts[host.name].ib
        if any(p.state == LEFT_OUT for p in ports) and not any(p.active for p in ports):
            yield f"{host.name}: hcas {pattern_of(inputs.job, host)!r} leaves no ACTIVE RDMA port, NCCL goes by TCP"


def check_rails(inputs: Inputs, hcas: Mapping[str, tuple[str, ...]], kind: FabricKind) -> None:
    """Hosts with fewer RDMA ports than others slow all of them down: fatal when the job insists on the fabric."""
    most = max(map(len, hcas.values()))
    strict = inputs.job.fabric.kind == kind and inputs.job.fabric.require == "all"
    for name, ports in hcas.items():
        if len(ports) == most:
            continue
        what = f"{len(ports)} ACTIVE RDMA ports where other hosts have {most}"
        if strict:
            inputs.notes.problem("rdma", name, what, "repair the link, name hcas, or set require: any")
        else:
            inputs.notes.warnings.append(f"{name}: {what}")
