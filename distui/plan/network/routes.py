"""Which address and interface each host uses towards the others, and why, in words.

Order of choice: what hosts.yaml or the job pins; an ACTIVE InfiniBand link with an address that all hosts share;
the fastest subnet that all hosts share; the default route, with a warning. Nothing here proves that packets
pass: the preflight does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from distui.facts.host import HostFacts, IbPort, Nic
from distui.frozen import frozen
from distui.plan.model import HostNetwork, Notes
from distui.plan.network import fabric
from distui.plan.network.fabric import INFINIBAND, ROCE, Network, Offer
from distui.plan.ranks.machines import same_machine
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Backend, FabricKind, Job

Pools = Mapping[str, tuple[Offer, ...]]


@frozen
class _Choice:
    """Offers chosen for all hosts, the kind of fabric they make, and why these."""

    offers: Mapping[str, Offer]
    kind: FabricKind
    why: str


@frozen
class _Run:
    """What the choice is made from, and what is said on the way."""

    job: Job
    backend: Backend
    hosts: tuple[Host, ...]
    facts: Mapping[str, HostFacts]
    one_machine: bool
    notes: Notes = field(default_factory=Notes)

    @property
    def verbs(self) -> bool:
        """Whether the backend can use RDMA without an IP address on it (gloo can't)."""
        return self.backend != "gloo"

    def have_ports(self, link_layer: str) -> bool:
        """Whether every host has an ACTIVE RDMA port of that kind."""
        return all(fabric.rdma_ports(f, link_layer) for f in self.facts.values())


def choose_routes(
    job: Job, backend: Backend, hosts: Sequence[tuple[Host, HostFacts]], notes: Notes
) -> tuple[HostNetwork, ...]:
    """Choose each host's address and interface, in the order given; none where problems leave no choice.

    Never raises: a host without a way to the others is a problem.
    """
    if not hosts:
        return ()
    facts = {host.name: _meant(job, host, f) for host, f in hosts}
    one_machine = all(same_machine(hosts[0][1], f) for f in facts.values())
    run = _Run(job, backend, tuple(host for host, _ in hosts), facts, one_machine)
    networks = _networks(run)
    notes.add(run.notes)
    return networks


def _networks(run: _Run) -> tuple[HostNetwork, ...]:
    pools = _pools(run)
    choice = None if run.notes.problems else _choose(run, pools)
    if choice is None:
        return ()
    hcas = {h.name: _hcas(run, h, choice) for h in run.hosts}
    _check_rails(run, hcas, choice.kind)
    run.notes.reasons.append(f"network: {choice.why}")
    if choice.kind == "tcp" and run.verbs and run.job.fabric.kind == "auto" and not run.one_machine:
        run.notes.warnings.extend((*_other_rdma(run), *_nothing_left(run)))
    return tuple(_network(run, h, choice, hcas[h.name], pools) for h in run.hosts)


# what each host may use


_LEFT_OUT = "left out by hcas"
"""State of ports of a kind of which `hcas: ^...` leaves none: they make no fabric."""


def _pattern(job: Job, host: Host) -> str | None:
    return job.fabric.hcas if job.fabric.hcas != "inherit" else host.data.hcas


def _meant(job: Job, host: Host, facts: HostFacts) -> HostFacts:
    """The facts, where no port counts of a kind of which `hcas: ^...` leaves none."""
    pattern = _pattern(job, host)
    if not pattern or not pattern.startswith("^"):
        return facts
    left = replace(facts, ib=fabric.select_hcas(pattern, facts.ib))
    none = {layer for layer in (INFINIBAND, ROCE) if not fabric.rdma_ports(left, layer)}
    return replace(
        facts, ib=tuple(replace(p, state=_LEFT_OUT) if p.active and p.link_layer in none else p for p in facts.ib)
    )


def _pools(run: _Run) -> Pools:
    """Candidates of each host: the pinned ones, else all; loopback when all is one machine without a network."""
    pools = {h.name: _pool(run, h, run.facts[h.name]) for h in run.hosts}
    if run.one_machine and not run.notes.problems and not all(pools.values()):
        return {name: (fabric.loopback(f),) for name, f in run.facts.items()}
    return pools


def _pinned_name(job: Job, host: Host) -> str | None:
    return job.fabric.ifname or host.data.ifname


def _is_pinned(job: Job, host: Host) -> bool:
    return bool(_pinned_name(job, host) or host.data.addr)


def _pool(run: _Run, host: Host, facts: HostFacts) -> tuple[Offer, ...]:
    name = _pinned_name(run.job, host)
    if name is not None:
        pinned = _by_name(run, host, facts, name)
    elif host.data.addr is not None:
        pinned = tuple(o for nic in facts.nics for o in fabric.offers_of(facts, nic))
    else:
        return fabric.offers(facts)
    addr = host.data.addr
    return _at_address(run, host, facts, pinned, addr) if addr is not None else pinned


def _by_name(run: _Run, host: Host, facts: HostFacts, name: str) -> tuple[Offer, ...]:
    """Offers of the interface asked for, or of those whose names begin so (`ib` takes ib0), as NCCL reads it."""
    exact = [n for n in facts.nics if n.name == name]
    nics = exact or [n for n in facts.nics if n.name.startswith(name)]
    found = tuple(o for nic in nics if nic.up or nic.kind == "loopback" for o in fabric.offers_of(facts, nic))
    if found:
        return found
    source = "fabric.ifname of the job" if run.job.fabric.ifname else "data.ifname in hosts.yaml"
    if not nics:
        what = f"no interface {name!r} (has {_names(facts)})"
    else:
        what = f"interface {name!r} is down or has no address that others can use"
    run.notes.problem("network", host.name, f"{what}, asked for by {source}")
    return ()


def _at_address(run: _Run, host: Host, facts: HostFacts, pool: tuple[Offer, ...], addr: str) -> tuple[Offer, ...]:
    """The offer with the pinned address, aliases included."""
    names, wanted = {o.nic.name for o in pool}, fabric.plain(addr)
    found = tuple(
        Offer(facts.host, nic, a) for nic in facts.nics if nic.name in names for a in nic.addresses if a.ip == wanted
    )
    if not found and pool:
        has = ", ".join(a.ip for nic in facts.nics if nic.name in names for a in nic.addresses)
        what = f"{addr} is not an address of the host (has {has})"
        run.notes.problem("network", host.name, what, "correct data.addr in hosts.yaml")
    return found


def _names(facts: HostFacts) -> str:
    return ", ".join(n.name for n in facts.nics) or "none"


# the choice


def _choose(run: _Run, pools: Pools) -> _Choice | None:
    match run.job.fabric.kind:
        case "ib":
            found = _infiniband(run, pools)
            return found or _asked_but_lacking(run, pools, "InfiniBand", INFINIBAND)
        case "roce":
            found = _roce(run, pools)
            return found or _asked_but_lacking(run, pools, "RoCE", ROCE)
        case "tcp":
            plain = _without_ipoib(run, pools)
            return _shared(run, plain, "tcp", "fabric tcp asked") or _tcp(run, pools)
        case "auto":
            return _infiniband(run, pools) or _roce_if_nccl(run, pools) or _tcp(run, pools)


def _infiniband(run: _Run, pools: Pools) -> _Choice | None:
    """IPoIB addresses in one subnet, else any shared subnet when the backend needs no address on InfiniBand."""
    over_ib = _only(pools, lambda o: fabric.is_ipoib(run.facts[o.host], o.nic))
    choice = _shared(run, over_ib, "ib", "InfiniBand is ACTIVE on every host")
    if choice is None and run.verbs and run.have_ports(INFINIBAND):
        bootstrap = _tcp(run, pools)
        why = "InfiniBand is ACTIVE on every host but has no shared address: data by verbs, rendezvous by "
        return bootstrap and replace(bootstrap, kind="ib", why=why + bootstrap.why)
    return choice


def _roce(run: _Run, pools: Pools) -> _Choice | None:
    return _over_roce(run, pools) or _roce_if_nccl(run, pools)


def _over_roce(run: _Run, pools: Pools) -> _Choice | None:
    """The best subnet on RoCE; of equally fast ones that of the ports' own interfaces, before a VLAN's."""
    why = "RoCE is ACTIVE on every host"
    above = _only(pools, lambda o: fabric.is_roce(run.facts[o.host], o.nic))
    direct = _only(pools, lambda o: fabric.is_roce(run.facts[o.host], replace(o.nic, over=())))
    best, own = _shared(run, above, "roce", why), _shared(run, direct, "roce", why)
    return own if best and own and _score(run, own.offers)[:2] >= _score(run, best.offers)[:2] else best


def _roce_if_nccl(run: _Run, pools: Pools) -> _Choice | None:
    """RoCE ports on every host, for a backend that uses them by itself."""
    if not (run.verbs and run.have_ports(ROCE)):
        return None
    choice = _over_roce(run, pools) or _tcp(run, pools)
    return choice and replace(choice, kind="roce")


def _tcp(run: _Run, pools: Pools) -> _Choice | None:
    """The fastest shared subnet, else pinned addresses as they are, else default routes."""
    return _shared(run, pools, "tcp", "the fastest network that all hosts share") or _unshared(run, pools)


def _without_ipoib(run: _Run, pools: Pools) -> Pools:
    """Candidates without InfiniBand ones, except where the user pinned one."""
    pinned = {h.name for h in run.hosts if _is_pinned(run.job, h)}
    return _only(pools, lambda o: o.host in pinned or not fabric.is_ipoib(run.facts[o.host], o.nic))


def _only(pools: Pools, keep: Callable[[Offer], bool]) -> Pools:
    """The offers that pass."""
    return {name: tuple(o for o in offers if keep(o)) for name, offers in pools.items()}


def _asked_but_lacking(run: _Run, pools: Pools, label: str, link_layer: str) -> _Choice | None:
    """The fabric asked for can't be had: the reason per host, and TCP instead when the job says `require: any`."""
    reasons = [(h.name, _lack(run, h, pools, label, link_layer)) for h in run.hosts]
    lacking = [(name, why) for name, why in reasons if why]
    if not lacking:
        lacking = [(run.hosts[0].name, f"{label} addresses of the hosts share no subnet: {_candidates(run, pools)}")]
    if run.job.fabric.require == "any":
        run.notes.warnings.extend(f"{name}: {why}; using TCP on every host" for name, why in lacking)
        return _tcp(run, pools)
    hint = "set fabric: {kind: auto}, or require: any to fall back to TCP"
    for name, why in lacking:
        run.notes.problem("network", name, why, hint)
    return None


def _lack(run: _Run, host: Host, pools: Pools, label: str, link_layer: str) -> str:
    """Why one host can't take part in the fabric; empty when it can."""
    facts = run.facts[host.name]
    fits = fabric.is_ipoib if link_layer == INFINIBAND else fabric.is_roce
    if any(fits(facts, o.nic) for o in pools[host.name]):
        return ""
    if fabric.rdma_ports(facts, link_layer):
        usable = ", ".join(o.words for o in pools[host.name]) or "none"
        return f"{label} is ACTIVE but no address to use is on it (addresses: {usable})"
    ports = ", ".join(f"{fabric.port_name(p)} {p.state or 'unreadable'} {p.link_layer or '?'}" for p in facts.ib)
    return f"no ACTIVE {label} port (RDMA ports: {ports or 'none'})"


def _shared(run: _Run, pools: Pools, kind: FabricKind, why: str) -> _Choice | None:
    """The best subnet in which every host has an offer, or None."""
    groups: dict[Network, dict[str, Offer]] = {}
    for name, offers in pools.items():
        for offer in offers:
            if offer.network is not None:
                groups.setdefault(offer.network, {}).setdefault(name, offer)
    whole = {n: g for n, g in groups.items() if len(g) == len(pools) and _distinct(run, g)}
    if not whole:
        return None
    network, chosen = max(whole.items(), key=lambda item: _score(run, item[1]))
    return _Choice(chosen, kind, f"{network}, {why}" + _speed_words(chosen))


def _distinct(run: _Run, group: Mapping[str, Offer]) -> bool:
    """Whether the addresses differ: equal ones are NAT or bridge addresses of each host's own, not a shared subnet."""
    return run.one_machine or len({o.address.ip for o in group.values()}) == len(group)


def _score(run: _Run, group: Mapping[str, Offer]) -> tuple[int, int, int, int]:
    """Better is greater: IPv4, then the slowest link's speed, then default routes, then MTU; the first of equals."""
    offers = group.values()
    v4 = int(all(o.address.family == 4 for o in offers))
    speed = min(o.nic.speed_mbps or 0 for o in offers)
    default = sum(run.facts[o.host].default_route_nic == o.nic.name for o in offers)
    return v4, speed, default, min(o.nic.mtu or 0 for o in offers)


def _speed_words(offers: Mapping[str, Offer]) -> str:
    speeds = [o.nic.speed_mbps for o in offers.values()]
    known = [s for s in speeds if s]
    return f" ({min(known) / 1000:g} Gb/s)" if known and len(known) == len(speeds) else ""


def _unshared(run: _Run, pools: Pools) -> _Choice | None:
    """Without a shared subnet: pinned addresses, and elsewhere the address ssh or the default route uses."""
    chosen: dict[str, Offer] = {}
    for host in run.hosts:
        offer = _routed_offer(run, host, pools[host.name])
        if offer is not None:
            chosen[host.name] = offer
    if len(chosen) < len(run.hosts) or not _distinct(run, chosen):
        hint = "name the interface of each host with data: {ifname: ...} in hosts.yaml"
        run.notes.problem("network", None, f"hosts share no subnet: {_candidates(run, pools)}", hint)
        return None
    listed = ", ".join(f"{name} {o.words}" for name, o in chosen.items())
    if all(_is_pinned(run.job, h) for h in run.hosts):
        return _Choice(chosen, "tcp", f"as pinned: {listed}")
    run.notes.warnings.append(f"hosts share no subnet; using {listed}, which must be routed between them")
    return _Choice(chosen, "tcp", f"no shared subnet, so ssh's or the default route's address: {listed}")


def _routed_offer(run: _Run, host: Host, pool: tuple[Offer, ...]) -> Offer | None:
    if _is_pinned(run.job, host):
        return pool[0] if pool else None
    by_ssh = next((o for o in pool if o.address.ip == fabric.plain(host.addr or "")), None)
    default = run.facts[host.name].default_route_nic
    return by_ssh or next((o for o in pool if o.nic.name == default), None)


def _candidates(run: _Run, pools: Pools) -> str:
    """`a has eth0 10.0.0.1/24; b has no usable address (tailscale0 100.64.0.1 left out: a tunnel)`."""
    return "; ".join(
        f"{name} has {', '.join(o.words for o in offers) or _nothing(run.facts[name])}"
        for name, offers in pools.items()
    )


def _nothing(facts: HostFacts) -> str:
    why = ", ".join(fabric.left_out(facts))
    return "no usable address" + (f" ({why})" if why else "")


# RDMA ports


def _hcas(run: _Run, host: Host, choice: _Choice) -> tuple[str, ...]:
    """`hca:port` of the ports a host uses: as pinned, else the ACTIVE ones that face peers, without those left out."""
    if choice.kind not in ("ib", "roce"):
        return ()
    facts = run.facts[host.name]
    ports = fabric.rdma_ports(facts, INFINIBAND if choice.kind == "ib" else ROCE)
    pattern = _pattern(run.job, host)
    if pattern and not pattern.startswith("^"):
        ports = _pinned_ports(run, host, facts, pattern)
    else:
        ports = fabric.select_hcas(pattern, ports) if pattern else ports
        ports = ports if choice.kind == "ib" else _facing_peers(run, facts, ports)
    return fabric.natural(fabric.port_name(p) for p in ports)


def _pinned_ports(run: _Run, host: Host, facts: HostFacts, pattern: str) -> tuple[IbPort, ...]:
    """ACTIVE ports the pattern names; inactive ones are a problem, or a warning with `require: any`."""
    named = fabric.select_hcas(pattern, facts.ib)
    active = tuple(p for p in named if p.active)
    down = [fabric.port_name(p) for p in named if not p.active]
    if not active or (down and run.job.fabric.require == "all"):
        has = ", ".join(f"{fabric.port_name(p)} {p.state or 'unreadable'}" for p in facts.ib) or "none"
        run.notes.problem("rdma", host.name, f"RDMA ports {pattern!r} are not all ACTIVE (has {has})")
    elif down:
        run.notes.warnings.append(f"{host.name}: {', '.join(down)} not ACTIVE, left out")
    return active


def _facing_peers(run: _Run, facts: HostFacts, ports: tuple[IbPort, ...]) -> tuple[IbPort, ...]:
    """A host's RoCE ports whose interface is in a subnet that every host has; all of them when none is."""
    subnets = Counter(
        network
        for f in run.facts.values()
        for network in {o.network for o in fabric.offers(f) if o.network is not None}
    )
    everywhere = {network for network, n in subnets.items() if n == len(run.facts)}
    facing = [o.nic for o in fabric.offers(facts) if o.network in everywhere]
    names, below = {nic.name for nic in facing}, {name for nic in facing for name in nic.over}
    fastest = max((p.rate_gbps or 0.0 for p in ports), default=0.0)

    def faces(port: IbPort) -> bool:
        # Below a VLAN only the fastest: the management's joins no rails, nor takes the place of routed ones.
        return port.netdev in names or (port.netdev in below and (port.rate_gbps or 0.0) >= fastest)

    return tuple(p for p in ports if faces(p)) or ports


def _other_rdma(run: _Run) -> Iterator[str]:
    """RDMA ports that are neither InfiniBand nor RoCE: NCCL only uses them by a plugin in the image."""
    for host in run.hosts:
        other = [p.hca for p in run.facts[host.name].ib if p.active and p.link_layer not in (INFINIBAND, ROCE, None)]
        if other:
            named = ", ".join(fabric.natural(other))
            box = "" if host.engine == "process" or _has_devices(run.job) else _GIVE_DEVICES
            yield f"{host.name}: {named} (such as EFA) is only used by a plugin for NCCL in the image{box}"


def _has_devices(job: Job) -> bool:
    """Whether containers are given RDMA's devices, or some of them."""
    return any("/dev/infiniband" in one or one == "--privileged" for one in (*job.devices, *job.docker_args))


def _nothing_left(run: _Run) -> Iterator[str]:
    """Hosts whose `hcas: ^...` leaves no port: meant so, or too much was left out."""
    for host in run.hosts:
        ports = run.facts[host.name].ib
        if any(p.state == _LEFT_OUT for p in ports) and not any(p.active for p in ports):
            yield f"{host.name}: hcas {_pattern(run.job, host)!r} leaves no ACTIVE RDMA port, NCCL goes by TCP"


_GIVE_DEVICES = ", and containers need `devices: [/dev/infiniband]` for it"


def _check_rails(run: _Run, hcas: Mapping[str, tuple[str, ...]], kind: FabricKind) -> None:
    """Hosts with fewer RDMA ports than others slow all of them down: fatal when the job insists on the fabric."""
    most = max(map(len, hcas.values()))
    strict = run.job.fabric.kind == kind and run.job.fabric.require == "all"
    for name, ports in hcas.items():
        if len(ports) == most:
            continue
        what = f"{len(ports)} ACTIVE RDMA ports where other hosts have {most}"
        if strict:
            run.notes.problem("rdma", name, what, "repair the link, name hcas, or set require: any")
        else:
            run.notes.warnings.append(f"{name}: {what}")


# the result in words


def _network(run: _Run, host: Host, choice: _Choice, hcas: tuple[str, ...], pools: Pools) -> HostNetwork:
    offer = choice.offers[host.name]
    reasons = [_why_this(run, host, offer, choice)]
    reasons += [f"{o.words} not used" for o in pools[host.name] if o.nic.name != offer.nic.name]
    reasons += fabric.left_out(run.facts[host.name])
    if hcas:
        reasons.append(f"RDMA by {', '.join(hcas)}: ACTIVE and facing peers")
    if run.facts[host.name].name_is_loopback:
        reasons.append(f"the host's own name leads to loopback; pinned by GLOO_SOCKET_IFNAME={offer.nic.name}")
    some_rdma = any(p.active or p.state == _LEFT_OUT for f in run.facts.values() for p in f.ib)
    off = choice.kind == "tcp" and (some_rdma or run.job.fabric.kind == "tcp")
    speed = _speed(run.facts[host.name], offer.nic, () if off or not run.verbs else hcas)
    return HostNetwork(host.name, offer.address.ip, offer.nic.name, choice.kind, hcas, tuple(reasons), off, speed)


def _speed(facts: HostFacts, nic: Nic, hcas: tuple[str, ...]) -> int:
    """Mbit/s of what the data goes over; 0 where a part of it is not known."""
    rates = [p.rate_gbps or 0.0 for p in facts.ib if fabric.port_name(p) in hcas]
    return round(1000 * sum(rates)) if all(rates) and rates else 0 if rates else max(0, nic.speed_mbps or 0)


def _why_this(run: _Run, host: Host, offer: Offer, choice: _Choice) -> str:
    if run.job.fabric.ifname:
        return f"{offer.words}: named by the job's fabric.ifname"
    if host.data.ifname or host.data.addr:
        return f"{offer.words}: named by hosts.yaml"
    if offer.nic.kind == "loopback":
        return f"{offer.words}: all ranks are on one machine that has no other address"
    if len(run.hosts) == 1:
        return f"{offer.words}: the only host of the run"
    return f"{offer.words}: {choice.why}"
