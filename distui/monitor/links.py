"""The links of a host as people think of them: InfiniBand ports with their interface, then network interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distui.facts.host import IbPort, Nic
from distui.facts.network import kind_of
from distui.frozen import frozen
from distui.monitor.histories import HISTORY, LinkHistory
from distui.monitor.host_board import HostBoard
from distui.spec.hosts.names import fold


@frozen
class Link:
    """One port or interface, or several alike as one. Rates are bytes per second, None when unknown."""

    name: str
    """`ib0`, `eno1`; the port's own name `mlx5_3:1` when it has no interface."""
    device: str = ""
    """The RDMA device behind it."""
    gbps: float | None = None
    up: bool = True
    state: str = ""
    """The port's or link's state in the kernel's word: ACTIVE, DOWN."""
    infiniband: bool = False
    addresses: tuple[str, ...] = ()
    rx: float | None = None
    tx: float | None = None
    history: tuple[float | None, ...] = ()
    errors: int | None = None
    new_errors: int = 0
    """How many of them were counted while we looked."""
    members: int = 1
    default: bool = False
    """Whether it holds the default route: management, as a rule."""


def links(host: HostBoard, *, seconds: int = HISTORY) -> list[Link]:
    """Ports and interfaces that carry data, ports first; interfaces that are down and have no address are left out.

    `seconds` of history are copied: five minutes for plots, none for those who only look at states and counts.
    """
    all_nics = host.facts.nics if host.facts else ()
    ports = [_port(host, p, seconds) for p in (host.facts.ib if host.facts else ())]
    shown = {link.name for link in ports}
    nics = [_nic(host, n, seconds) for n in all_nics if n.name not in shown and _is_shown(n)]
    known = {n.name for n in all_nics} | shown
    found = [counted for counted in host.data_links() if counted.name not in known and ":" not in counted.name]
    return [
        *ports,
        *nics,
        *(
            _with(Link(counted.name, infiniband=kind_of(counted.name) == "infiniband"), counted, seconds)
            for counted in found
        ),
    ]


def _is_shown(nic: Nic) -> bool:
    return nic.kind in ("ethernet", "infiniband") and (nic.up or bool(nic.addresses))


def _port(host: HostBoard, port: IbPort, seconds: int) -> Link:
    nic = host.nic(port.netdev) if port.netdev else None
    counted = host.links.get(f"{port.hca}:{port.port}") or host.links.get(port.netdev or "")
    return _with(
        Link(
            name=port.netdev or f"{port.hca}:{port.port}",
            device=port.hca,
            gbps=port.rate_gbps,
            up=port.active,
            state=port.state or "unreadable",
            infiniband=port.link_layer == "InfiniBand",
            addresses=_addresses(nic),
        ),
        counted,
        seconds,
    )


def _nic(host: HostBoard, nic: Nic, seconds: int) -> Link:
    speed = nic.speed_mbps / 1000 if nic.speed_mbps else None
    default = host.facts is not None and nic.name == host.facts.default_route_nic
    state = "UP" if nic.up else "DOWN"
    link = Link(nic.name, "", speed, nic.up, state, addresses=_addresses(nic), default=default)
    return _with(link, host.links.get(nic.name), seconds)


def _addresses(nic: Nic | None) -> tuple[str, ...]:
    return tuple(f"{a.ip}/{a.prefix}" for a in nic.addresses if a.scope in ("global", "site")) if nic else ()


def _with(link: Link, counted: LinkHistory | None, seconds: int) -> Link:
    if counted is None:
        return link
    new = (counted.errors or 0) - counted.errors_before
    history = tuple(counted.history.last(seconds))
    return replace(link, rx=counted.rx, tx=counted.tx, history=history, errors=counted.errors, new_errors=new)


def grouped(found: Sequence[Link]) -> list[Link]:
    """InfiniBand ports of one speed as one link with their sum, the other links as they are, the busiest first."""
    rails: dict[float | None, list[Link]] = {}
    for link in found:
        if link.infiniband and link.up:
            rails.setdefault(link.gbps, []).append(link)
    others = [x for x in found if not (x.infiniband and x.up)]
    others.sort(key=lambda x: -((x.rx or 0) + (x.tx or 0)))
    return [*(_sum(members) for members in rails.values()), *others]


def _sum(members: Sequence[Link]) -> Link:
    if len(members) == 1:
        return members[0]
    first = members[0]
    return Link(
        name=fold(m.name for m in members),
        gbps=first.gbps,
        state=first.state,
        infiniband=True,
        rx=_total([m.rx for m in members]),
        tx=_total([m.tx for m in members]),
        history=tuple(_total(values) for values in zip(*_aligned([m.history for m in members]), strict=True)),
        errors=sum(m.errors or 0 for m in members),
        new_errors=sum(m.new_errors for m in members),
        members=len(members),
    )


def _aligned(histories: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Histories of equal length; the newest samples are of the same second."""
    most = max(len(h) for h in histories)
    return [[*([None] * (most - len(h))), *h] for h in histories]


def _total(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None
