"""What each host offers for training data: usable addresses, and the RDMA ports that face peers."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from distui.facts.host import Address, HostFacts, IbPort, Nic
from distui.frozen import frozen
from distui.spec.hosts.names import split

Network = IPv4Network | IPv6Network

INFINIBAND = "InfiniBand"
ROCE = "Ethernet"


@frozen
class Offer:
    """One address of one interface of one host, as a candidate for the traffic between ranks."""

    host: str
    nic: Nic
    address: Address

    @property
    def network(self) -> Network | None:
        """The subnet the address is in; None when facts hold no address in it."""
        return network_of(self.address)

    @property
    def words(self) -> str:
        """`eth0 10.0.0.1/24`."""
        return f"{self.nic.name} {self.address.ip}/{self.address.prefix}"


def network_of(address: Address) -> Network | None:
    """The subnet of an address, None when its text is no address."""
    try:
        return ip_network(f"{address.ip}/{address.prefix}", strict=False)
    except ValueError:
        return None


def plain(ip: str) -> str:
    """An address as the facts spell it: IPv6 has many spellings (`2001:DB8:0::1`). Anything else as it is."""
    try:
        return str(ip_address(ip))
    except ValueError:
        return ip


def is_routable(address: Address) -> bool:
    """Whether other hosts can use the address: not link-local, whatever scope iproute2 says (FAULTS section 4)."""
    try:
        ip = ip_address(address.ip)
    except ValueError:
        return False
    return not (ip.is_link_local or ip.is_loopback or ip.is_unspecified or address.scope in ("link", "host"))


def offers(facts: HostFacts) -> tuple[Offer, ...]:
    """Addresses fit for training data: up, on a real interface, IPv4 first, one of each family per interface."""
    found = (
        Offer(facts.host, nic, address)
        for nic in facts.nics
        if nic.up and nic.kind in ("ethernet", "infiniband", "other")
        for address in first_of_each_family(nic)
    )
    return tuple(sorted(found, key=lambda o: o.address.family))


def offers_of(facts: HostFacts, nic: Nic) -> tuple[Offer, ...]:
    """Addresses of an interface that was asked for by name: any kind of interface will do.

    Without a routable one 169.254/16 does on one cable; fe80::/10 does not, since it means nothing without the name of
    the peer's own interface, which no MASTER_ADDR can give all.
    """
    usable = first_of_each_family(nic) or tuple(a for a in nic.addresses if not _needs_scope(a))[:1]
    return tuple(Offer(facts.host, nic, a) for a in usable)


def _needs_scope(address: Address) -> bool:
    return address.family == 6 and address.scope == "link"


def first_of_each_family(nic: Nic) -> tuple[Address, ...]:
    """The first routable IPv4 and the first routable IPv6 address: aliases are not candidates of their own."""
    usable = [a for a in nic.addresses if is_routable(a)]
    first = (next((a for a in usable if a.family == family), None) for family in (4, 6))
    return tuple(a for a in first if a is not None)


def loopback(facts: HostFacts) -> Offer:
    """`127.0.0.1` on `lo`: what is left when all ranks are on one machine without a network."""
    nic = next((n for n in facts.nics if n.kind == "loopback"), Nic("lo", "loopback", True))
    address = next((a for a in nic.addresses if a.family == 4), Address("127.0.0.1", 8, "host"))
    return Offer(facts.host, nic, address)


def left_out(facts: HostFacts) -> tuple[str, ...]:
    """In words, the interfaces with addresses that are no candidates, and why."""
    return tuple(
        f"{nic.name} {nic.addresses[0].ip} left out: {_why_not(nic)}"
        for nic in facts.nics
        if nic.addresses and nic.kind != "loopback" and _why_not(nic)
    )


def _why_not(nic: Nic) -> str:
    if nic.kind == "container":
        return "a container network"
    if nic.kind == "tunnel":
        return "a tunnel"
    if not nic.up:
        return "down"
    if not first_of_each_family(nic):
        return "only link-local addresses"
    return ""


# RDMA


def rdma_ports(facts: HostFacts, link_layer: str) -> tuple[IbPort, ...]:
    """ACTIVE ports of that link layer. Azure's `mlx5_an*` carry the VM's Ethernet and are no RoCE."""
    return tuple(p for p in facts.ib if p.active and p.link_layer == link_layer and not p.hca.startswith("mlx5_an"))


def is_ipoib(facts: HostFacts, nic: Nic) -> bool:
    """Whether the interface runs over an ACTIVE InfiniBand port."""
    known = [p for p in facts.ib if p.netdev == nic.name]
    if known:
        return any(p.active and p.link_layer == INFINIBAND for p in known)
    if nic.kind == "infiniband":
        return True
    unnamed = any(p.netdev is None for p in rdma_ports(facts, INFINIBAND))
    return unnamed and re.fullmatch(r"ib\d+|ib[ps]\w+", nic.name) is not None


def is_roce(facts: HostFacts, nic: Nic) -> bool:
    """Whether an ACTIVE RoCE port carries the interface, or one that it runs over."""
    return any(p.netdev in (nic.name, *nic.over) for p in rdma_ports(facts, ROCE))


def port_name(port: IbPort) -> str:
    """`mlx5_0:1`, as NCCL_IB_HCA takes it."""
    return f"{port.hca}:{port.port}"


_RANGE = r"(.*)\[([0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*)\](.*)"


def select_hcas(pattern: str, ports: Sequence[IbPort]) -> tuple[IbPort, ...]:
    """The ports a pattern names: `mlx5_[0-7]`, `mlx5_0:1,mlx5_3`, or `^mlx5_3` for all others.

    Names are whole names with `*` and number ranges, never prefixes (NCCL's own `mlx5_1` also takes mlx5_10).
    """
    exclude, text = pattern.startswith("^"), pattern.lstrip("^=")
    tokens = [t.strip() for t in split(text) if t.strip()]
    return tuple(p for p in ports if any(_hca_matches(t, p) for t in tokens) != exclude)


def _hca_matches(token: str, port: IbPort) -> bool:
    name, _, number = token.partition(":")
    if number and number != str(port.port):
        return False
    return any(fnmatch.fnmatchcase(port.hca, n) for n in _expand(name))


def _expand(name: str) -> tuple[str, ...]:
    """`mlx5_[0-2,7]` -> mlx5_0, mlx5_1, mlx5_2, mlx5_7; anything else as it is."""
    match = re.fullmatch(_RANGE, name)
    if match is None:
        return (name,)
    head, spans, tail = match.groups()
    numbers: list[int] = []
    for span in spans.split(","):
        low, _, high = span.partition("-")
        numbers.extend(range(int(low), int(high or low) + 1))
    return tuple(f"{head}{n}{tail}" for n in numbers)
