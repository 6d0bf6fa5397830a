"""Which address and interface each host uses towards the others, and why, in words.

Order of choice: what hosts.yaml or the job pins; an ACTIVE InfiniBand link with an address that all hosts share;
the fastest subnet that all hosts share; the default route, with a warning. Nothing here proves that packets
pass: the preflight does.
"""

from __future__ import annotations

from collections.abc import Sequence

from distui.facts.host import HostFacts, Nic
from distui.plan.model import HostNetwork, Notes
from distui.plan.network import fabric
from distui.plan.network.choice import Choice, choose
from distui.plan.network.fabric import Offer
from distui.plan.network.inputs import Inputs, Pools, pinned_name
from distui.plan.network.rdma import LEFT_OUT, check_rails, nothing_left, other_rdma, ports_used, without_left_out
from distui.plan.ranks.machines import same_machine
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Backend, Job


def choose_routes(
    job: Job, backend: Backend, hosts: Sequence[tuple[Host, HostFacts]], notes: Notes
) -> tuple[HostNetwork, ...]:
    """Choose each host's address and interface, in the order given; none where problems leave no choice.

    Never raises: a host without a way to the others is a problem.
    """
    if not hosts:
        return ()
    facts = {host.name: without_left_out(job, host, f) for host, f in hosts}
    one_machine = all(same_machine(hosts[0][1], f) for f in facts.values())
    inputs = Inputs(job, backend, tuple(host for host, _ in hosts), facts, one_machine)
    networks = _networks(inputs)
    notes.add(inputs.notes)
    return networks


def _networks(inputs: Inputs) -> tuple[HostNetwork, ...]:
    pools = pools_of(inputs)
    choice = None if inputs.notes.problems else choose(inputs, pools)
    if choice is None:
        return ()
    hcas = ports_used(inputs, choice.kind)
    check_rails(inputs, hcas, choice.kind)
    inputs.notes.reasons.append(f"network: {choice.why}")
    if choice.kind == "tcp" and inputs.verbs and inputs.job.fabric.kind == "auto" and not inputs.one_machine:
        inputs.notes.warnings.extend((*other_rdma(inputs), *nothing_left(inputs)))
    return tuple(_network(inputs, h, choice, hcas[h.name], pools) for h in inputs.hosts)


# what each host may use


def pools_of(inputs: Inputs) -> Pools:
    """Candidates of each host: the pinned ones, else all; loopback when all is one machine without a network."""
    pools = {h.name: _pool(inputs, h, inputs.facts[h.name]) for h in inputs.hosts}
    if inputs.one_machine and not inputs.notes.problems and not all(pools.values()):
        return {name: (fabric.loopback(f),) for name, f in inputs.facts.items()}
    return pools


def _pool(inputs: Inputs, host: Host, facts: HostFacts) -> tuple[Offer, ...]:
    name = pinned_name(inputs.job, host)
    if name is not None:
        pinned = _by_name(inputs, host, facts, name)
    elif host.data.addr is not None:
        pinned = tuple(o for nic in facts.nics for o in fabric.offers_of(facts, nic))
    else:
        return fabric.offers(facts)
    addr = host.data.addr
    return _at_address(inputs, host, facts, pinned, addr) if addr is not None else pinned


def _by_name(inputs: Inputs, host: Host, facts: HostFacts, name: str) -> tuple[Offer, ...]:
    """Offers of the interface asked for, or of those whose names begin so (`ib` takes ib0), as NCCL reads it."""
    exact = [n for n in facts.nics if n.name == name]
    nics = exact or [n for n in facts.nics if n.name.startswith(name)]
    found = tuple(o for nic in nics if nic.up or nic.kind == "loopback" for o in fabric.offers_of(facts, nic))
    if found:
        return found
    source = "fabric.ifname of the job" if inputs.job.fabric.ifname else "data.ifname in hosts.yaml"
    if not nics:
        what = f"no interface {name!r} (has {_names(facts)})"
    else:
        what = f"interface {name!r} is down or has no address that others can use"
    inputs.notes.problem("network", host.name, f"{what}, asked for by {source}")
    return ()


def _at_address(inputs: Inputs, host: Host, facts: HostFacts, pool: tuple[Offer, ...], addr: str) -> tuple[Offer, ...]:
    """The offer with the pinned address, aliases included."""
    names, wanted = {o.nic.name for o in pool}, fabric.plain(addr)
    found = tuple(
        Offer(facts.host, nic, a) for nic in facts.nics if nic.name in names for a in nic.addresses if a.ip == wanted
    )
    if not found and pool:
        has = ", ".join(a.ip for nic in facts.nics if nic.name in names for a in nic.addresses)
        what = f"{addr} is not an address of the host (has {has})"
        inputs.notes.problem("network", host.name, what, "correct data.addr in hosts.yaml")
    return found


def _names(facts: HostFacts) -> str:
    return ", ".join(n.name for n in facts.nics) or "none"


# the result in words


def _network(inputs: Inputs, host: Host, choice: Choice, hcas: tuple[str, ...], pools: Pools) -> HostNetwork:
    offer = choice.offers[host.name]
    reasons = [_why_this(inputs, host, offer, choice)]
    reasons += [f"{o.words} not used" for o in pools[host.name] if o.nic.name != offer.nic.name]
    reasons += fabric.left_out(inputs.facts[host.name])
    if hcas:
        reasons.append(f"RDMA by {', '.join(hcas)}: ACTIVE and facing peers")
    if inputs.facts[host.name].name_is_loopback:
        reasons.append(f"the host's own name leads to loopback; pinned by GLOO_SOCKET_IFNAME={offer.nic.name}")
    some_rdma = any(p.active or p.state == LEFT_OUT for f in inputs.facts.values() for p in f.ib)
    off = choice.kind == "tcp" and (some_rdma or inputs.job.fabric.kind == "tcp")
    speed = _speed(inputs.facts[host.name], offer.nic, () if off or not inputs.verbs else hcas)
    return HostNetwork(host.name, offer.address.ip, offer.nic.name, choice.kind, hcas, tuple(reasons), off, speed)


def _speed(facts: HostFacts, nic: Nic, hcas: tuple[str, ...]) -> int:
    """Mbit/s of what the data goes over; 0 where a part of it is not known."""
    rates = [p.rate_gbps or 0.0 for p in facts.ib if fabric.port_name(p) in hcas]
    return round(1000 * sum(rates)) if all(rates) and rates else 0 if rates else max(0, nic.speed_mbps or 0)


def _why_this(inputs: Inputs, host: Host, offer: Offer, choice: Choice) -> str:
    if inputs.job.fabric.ifname:
        return f"{offer.words}: named by the job's fabric.ifname"
    if host.data.ifname or host.data.addr:
        return f"{offer.words}: named by hosts.yaml"
    if offer.nic.kind == "loopback":
        return f"{offer.words}: all ranks are on one machine that has no other address"
    if len(inputs.hosts) == 1:
        return f"{offer.words}: the only host of the run"
    return f"{offer.words}: {choice.why}"
