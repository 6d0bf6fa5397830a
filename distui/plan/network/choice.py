"""The network that all hosts of a run use: a fabric that each has, else the fastest shared subnet, else routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from distui.facts.host import HostFacts
from distui.frozen import frozen
from distui.plan.network import fabric
from distui.plan.network.fabric import INFINIBAND, ROCE, Network, Offer
from distui.plan.network.inputs import Inputs, Pools, is_pinned
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import FabricKind


@frozen
class Choice:
    """Offers chosen for all hosts, the kind of fabric they make, and why these."""

    offers: Mapping[str, Offer]
    kind: FabricKind
    why: str


def choose(inputs: Inputs, pools: Pools) -> Choice | None:
    match inputs.job.fabric.kind:
        case "ib":
            found = _infiniband(inputs, pools)
            return found or _asked_but_lacking(inputs, pools, "InfiniBand", INFINIBAND)
        case "roce":
            found = _roce(inputs, pools)
            return found or _asked_but_lacking(inputs, pools, "RoCE", ROCE)
        case "tcp":
            plain = _without_ipoib(inputs, pools)
            return _shared(inputs, plain, "tcp", "fabric tcp asked") or _tcp(inputs, pools)
        case "auto":
            return _infiniband(inputs, pools) or _roce_if_nccl(inputs, pools) or _tcp(inputs, pools)


def _infiniband(inputs: Inputs, pools: Pools) -> Choice | None:
    """IPoIB addresses in one subnet, else any shared subnet when the backend needs no address on InfiniBand."""
    over_ib = _only(pools, lambda o: fabric.is_ipoib(inputs.facts[o.host], o.nic))
    choice = _shared(inputs, over_ib, "ib", "InfiniBand is ACTIVE on every host")
    if choice is None and inputs.verbs and inputs.have_ports(INFINIBAND):
        bootstrap = _tcp(inputs, pools)
        why = "InfiniBand is ACTIVE on every host but has no shared address: data by verbs, rendezvous by "
        return bootstrap and replace(bootstrap, kind="ib", why=why + bootstrap.why)
    return choice


def _roce(inputs: Inputs, pools: Pools) -> Choice | None:
    return _over_roce(inputs, pools) or _roce_if_nccl(inputs, pools)


def _over_roce(inputs: Inputs, pools: Pools) -> Choice | None:
    """The best subnet on RoCE; of equally fast ones that of the ports' own interfaces, before a VLAN's."""
    why = "RoCE is ACTIVE on every host"
    above = _only(pools, lambda o: fabric.is_roce(inputs.facts[o.host], o.nic))
    direct = _only(pools, lambda o: fabric.is_roce(inputs.facts[o.host], replace(o.nic, over=())))
    best, own = _shared(inputs, above, "roce", why), _shared(inputs, direct, "roce", why)
    return own if best and own and _score(inputs, own.offers)[:2] >= _score(inputs, best.offers)[:2] else best


def _roce_if_nccl(inputs: Inputs, pools: Pools) -> Choice | None:
    """RoCE ports on every host, for a backend that uses them by itself."""
    if not (inputs.verbs and inputs.have_ports(ROCE)):
        return None
    choice = _over_roce(inputs, pools) or _tcp(inputs, pools)
    return choice and replace(choice, kind="roce")


def _tcp(inputs: Inputs, pools: Pools) -> Choice | None:
    """The fastest shared subnet, else pinned addresses as they are, else default routes."""
    return _shared(inputs, pools, "tcp", "the fastest network that all hosts share") or _unshared(inputs, pools)


def _without_ipoib(inputs: Inputs, pools: Pools) -> Pools:
    """Candidates without InfiniBand ones, except where the user pinned one."""
    pinned = {h.name for h in inputs.hosts if is_pinned(inputs.job, h)}
    return _only(pools, lambda o: o.host in pinned or not fabric.is_ipoib(inputs.facts[o.host], o.nic))


def _only(pools: Pools, keep: Callable[[Offer], bool]) -> Pools:
    """The offers that pass."""
    return {name: tuple(o for o in offers if keep(o)) for name, offers in pools.items()}


def _asked_but_lacking(inputs: Inputs, pools: Pools, label: str, link_layer: str) -> Choice | None:
    """The fabric asked for can't be had: the reason per host, and TCP instead when the job says `require: any`."""
    reasons = [(h.name, _lack(inputs, h, pools, label, link_layer)) for h in inputs.hosts]
    lacking = [(name, why) for name, why in reasons if why]
    if not lacking:
        lacking = [
            (inputs.hosts[0].name, f"{label} addresses of the hosts share no subnet: {_candidates(inputs, pools)}")
        ]
    if inputs.job.fabric.require == "any":
        inputs.notes.warnings.extend(f"{name}: {why}; using TCP on every host" for name, why in lacking)
        return _tcp(inputs, pools)
    hint = "set fabric: {kind: auto}, or require: any to fall back to TCP"
    for name, why in lacking:
        inputs.notes.problem("network", name, why, hint)
    return None


def _lack(inputs: Inputs, host: Host, pools: Pools, label: str, link_layer: str) -> str:
    """Why one host can't take part in the fabric; empty when it can."""
    facts = inputs.facts[host.name]
    fits = fabric.is_ipoib if link_layer == INFINIBAND else fabric.is_roce
    if any(fits(facts, o.nic) for o in pools[host.name]):
        return ""
    if fabric.rdma_ports(facts, link_layer):
        usable = ", ".join(o.words for o in pools[host.name]) or "none"
        return f"{label} is ACTIVE but no address to use is on it (addresses: {usable})"
    ports = ", ".join(f"{fabric.port_name(p)} {p.state or 'unreadable'} {p.link_layer or '?'}" for p in facts.ib)
    return f"no ACTIVE {label} port (RDMA ports: {ports or 'none'})"


def _shared(inputs: Inputs, pools: Pools, kind: FabricKind, why: str) -> Choice | None:
    """The best subnet in which every host has an offer, or None."""
    groups: dict[Network, dict[str, Offer]] = {}
    for name, offers in pools.items():
        for offer in offers:
            if offer.network is not None:
                groups.setdefault(offer.network, {}).setdefault(name, offer)
    whole = {n: g for n, g in groups.items() if len(g) == len(pools) and _distinct(inputs, g)}
    if not whole:
        return None
    network, chosen = max(whole.items(), key=lambda item: _score(inputs, item[1]))
    return Choice(chosen, kind, f"{network}, {why}" + _speed_words(chosen))


def _distinct(inputs: Inputs, group: Mapping[str, Offer]) -> bool:
    """Whether the addresses differ: equal ones are NAT or bridge addresses of each host's own, not a shared subnet."""
    return inputs.one_machine or len({o.address.ip for o in group.values()}) == len(group)


def _score(inputs: Inputs, group: Mapping[str, Offer]) -> tuple[int, int, int, int]:
    """Better is greater: IPv4, then the slowest link's speed, then default routes, then MTU; the first of equals."""
    offers = group.values()
    v4 = int(all(o.address.family == 4 for o in offers))
    speed = min(o.nic.speed_mbps or 0 for o in offers)
    default = sum(inputs.facts[o.host].default_route_nic == o.nic.name for o in offers)
    return v4, speed, default, min(o.nic.mtu or 0 for o in offers)


def _speed_words(offers: Mapping[str, Offer]) -> str:
    speeds = [o.nic.speed_mbps for o in offers.values()]
    known = [s for s in speeds if s]
    return f" ({min(known) / 1000:g} Gb/s)" if known and len(known) == len(speeds) else ""


def _unshared(inputs: Inputs, pools: Pools) -> Choice | None:
    """Without a shared subnet: pinned addresses, and elsewhere the address ssh or the default route uses."""
    chosen: dict[str, Offer] = {}
    for host in inputs.hosts:
        offer = _routed_offer(inputs, host, pools[host.name])
        if offer is not None:
            chosen[host.name] = offer
    if len(chosen) < len(inputs.hosts) or not _distinct(inputs, chosen):
        hint = "name the interface of each host with data: {ifname: ...} in hosts.yaml"
        inputs.notes.problem("network", None, f"hosts share no subnet: {_candidates(inputs, pools)}", hint)
        return None
    listed = ", ".join(f"{name} {o.words}" for name, o in chosen.items())
    if all(is_pinned(inputs.job, h) for h in inputs.hosts):
        return Choice(chosen, "tcp", f"as pinned: {listed}")
    inputs.notes.warnings.append(f"hosts share no subnet; using {listed}, which must be routed between them")
    return Choice(chosen, "tcp", f"no shared subnet, so ssh's or the default route's address: {listed}")


def _routed_offer(inputs: Inputs, host: Host, pool: tuple[Offer, ...]) -> Offer | None:
    if is_pinned(inputs.job, host):
        return pool[0] if pool else None
    by_ssh = next((o for o in pool if o.address.ip == fabric.plain(host.addr or "")), None)
    default = inputs.facts[host.name].default_route_nic
    return by_ssh or next((o for o in pool if o.nic.name == default), None)


def _candidates(inputs: Inputs, pools: Pools) -> str:
    """`a has eth0 10.0.0.1/24; b has no usable address (tailscale0 100.64.0.1 left out: a tunnel)`."""
    return "; ".join(
        f"{name} has {', '.join(o.words for o in offers) or _nothing(inputs.facts[name])}"
        for name, offers in pools.items()
    )


def _nothing(facts: HostFacts) -> str:
    why = ", ".join(fabric.left_out(facts))
    return "no usable address" + (f" ({why})" if why else "")
