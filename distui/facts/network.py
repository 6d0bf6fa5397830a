"""Network interfaces and the addresses that other hosts could use, from iproute2's JSON or from /proc and /sys."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.facts.host import Address, HostFacts, Nic, NicKind
from distui.facts.values import JsonObject, as_object, as_objects, as_text, integer, load_json
from distui.regex import regex

_CONTAINER = regex(
    r"(docker|br-|veth|virbr|vnet|cni|cbr|flannel|cali|lxc|lxd|podman|nerdctl|kube|weave|cilium|ovs-|vmnet)"
)
_TUNNEL = regex(r"(tailscale|wg|tun|tap|utun|zt|ppp|sit|gre|erspan|ipip|tunl|ip6tnl|vti|vxlan|geneve|nordlynx|proton)")
_TUNNEL_KINDS = frozenset(
    {"tun", "wireguard", "gre", "gretap", "ip6gre", "ipip", "sit", "ip6tnl", "vti", "vxlan", "geneve", "ppp"}
)
_NO_CARRIER_KINDS = frozenset({"dummy", "ifb", "nlmon", "vcan", "vrf", "netdevsim"})
_ON_ANOTHER, _OF_OTHERS = frozenset({"vlan", "macvlan", "ipvlan", "ipoib"}), frozenset({"bond", "team"})
_ARP_ETHER, _ARP_INFINIBAND = "1", "32"  # ARPHRD_ of linux/if_arp.h
_ARP_TUNNELS = frozenset({"512", "768", "769", "776", "778", "823", "65534"})  # ppp, ipip, ip6tnl, sit, gre, tun
_DOWN = frozenset({"DOWN", "LOWERLAYERDOWN", "NOTPRESENT", "DORMANT"})


def kind_of(name: str, link_type: str = "ether", info_kind: str = "", sys_type: str = "") -> NicKind:
    """What sort of interface this is.

    `link_type` and `info_kind` are iproute2's words, `sys_type` is /sys/class/net/NAME/type. The name decides
    before the driver: a veth pair named `eth0` is how a container or a test host sees its only real network.
    """
    if link_type == "loopback" or name == "lo":
        return "loopback"
    if link_type == "infiniband" or sys_type == _ARP_INFINIBAND:
        return "infiniband"
    if _CONTAINER.match(name):
        return "container"
    if _TUNNEL.match(name) or info_kind in _TUNNEL_KINDS or link_type in ("none", "ppp") or sys_type in _ARP_TUNNELS:
        return "tunnel"
    if info_kind in _NO_CARRIER_KINDS or link_type != "ether" or sys_type not in ("", _ARP_ETHER):
        return "other"
    return "ethernet"


def parse_ip_addr(text: str, sys: Mapping[str, str] | None = None) -> tuple[Nic, ...] | None:
    """Interfaces of `ip -j [-d] addr` or `ip -j link`; None when `text` holds no such JSON.

    `sys` holds values of /sys/class/net as `net/NAME/FILE` (type, speed, statistics); it may be empty.
    """
    value = load_json(text)
    if not isinstance(value, list):
        return None
    links = [link for link in as_objects(value) if as_text(link.get("ifname"))]
    below = _below(links)
    return tuple(replace(nic, over=_over(nic.name, below)) for nic in (_nic(link, sys or {}) for link in links))


_MOST_BELOW = 64
"""Interfaces that one runs over, at most: more than any bond has, and what a lying host can't make large."""


def _below(links: Sequence[JsonObject]) -> Mapping[str, list[str]]:
    """Interface -> those right below it, for kinds that carry another's traffic under a name of their own."""
    kinds = {str(link["ifname"]): as_text(as_object(link.get("linkinfo")).get("info_kind")) for link in links}
    found: dict[str, list[str]] = {}
    for link in links:
        name, under, bond = str(link["ifname"]), as_text(link.get("link")), as_text(link.get("master"))
        if under and kinds[name] in _ON_ANOTHER:
            found.setdefault(name, []).append(under)
        if bond and kinds.get(bond) in _OF_OTHERS:
            found.setdefault(bond, []).append(name)
    return {name: under[:_MOST_BELOW] for name, under in found.items()}


def _over(name: str, below: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """All below an interface, the nearest first: of a VLAN of a bond the bond and its members."""
    first = below.get(name, ())
    second = [lower for under in first for lower in below.get(under, ())]
    return tuple(dict.fromkeys([*first, *second]))[:_MOST_BELOW]


def _nic(link: JsonObject, sys: Mapping[str, str]) -> Nic:
    name = str(link["ifname"])
    info = as_object(link.get("linkinfo"))
    kind = kind_of(
        name,
        as_text(link.get("link_type")) or "ether",
        as_text(info.get("info_kind")) or "",
        sys.get(f"net/{name}/type", ""),
    )
    return Nic(
        name=name,
        kind=kind,
        up=_is_up(link),
        mtu=integer(link.get("mtu")),
        mac=as_text(link.get("address")),
        speed_mbps=speed(sys.get(f"net/{name}/speed")),
        addresses=_addresses(link),
        rx_bytes=integer(sys.get(f"net/{name}/rx_bytes")),
        tx_bytes=integer(sys.get(f"net/{name}/tx_bytes")),
    )


def _is_up(link: JsonObject) -> bool:
    """Set up and with carrier; a state of UNKNOWN (loopback, some drivers) counts as up."""
    flags = link.get("flags")
    words = flags if isinstance(flags, list) else []
    return "UP" in words and "NO-CARRIER" not in words and link.get("operstate") not in _DOWN


def speed(text: str | None) -> int | None:
    """Mbit/s of /sys/class/net/NAME/speed; -1 and 4294967295 mean unknown."""
    value = integer(text)
    return value if value is not None and 0 < value < 4294967295 else None


def _addresses(link: JsonObject) -> tuple[Address, ...]:
    """Addresses in the kernel's order; temporary and deprecated ones last, unusable ones (duplicate) left out."""
    infos = [i for i in as_objects(link.get("addr_info")) if not i.get("dadfailed") and not i.get("tentative")]
    infos.sort(key=lambda info: bool(info.get("temporary") or info.get("deprecated")))
    found = (address(as_text(i.get("local")), integer(i.get("prefixlen")), as_text(i.get("scope"))) for i in infos)
    return tuple(a for a in found if a is not None)


def address(ip: str | None, prefix: int | None, scope: str | None = None) -> Address | None:
    """An Address with its scope corrected: fe80::/10 and 169.254/16 are `link`, 127/8 is `host`; or None."""
    try:
        value = ipaddress.ip_address(ip or "")
    except ValueError:
        return None
    width = value.max_prefixlen
    length = prefix if prefix is not None and 0 <= prefix <= width else width
    if value.is_link_local:
        return Address(str(value), length, "link")
    return Address(str(value), length, "host" if value.is_loopback else scope or "global")


def usable_addresses(nics: Sequence[Nic]) -> Mapping[str, tuple[Address, ...]]:
    """Interface -> addresses another host could reach: up, of a data-carrying kind, global in scope."""
    found = {
        nic.name: tuple(a for a in nic.addresses if a.scope in ("global", "site"))
        for nic in nics
        if nic.up and nic.kind in ("infiniband", "ethernet")
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def default_nic(text: str) -> str | None:
    """The interface of the default route with the lowest metric, from `ip -j route` (IPv4 or IPv6)."""
    routes = [r for r in as_objects(load_json(text)) if r.get("dst") == "default" and _route_nic(r)]
    best = min(routes, key=lambda r: integer(r.get("metric")) or 0, default=None)
    return _route_nic(best) if best is not None else None


def with_way_out(nics: Sequence[Nic], default: str | None) -> tuple[Nic, ...]:
    """The interfaces, where that of the default route is real though its name is a container network's.

    Such as `br-ex` of OpenShift or `br-mgmt` of OpenStack, bridges over the host's only cable.
    """
    return tuple(replace(n, kind="ethernet") if n.name == default and n.kind == "container" else n for n in nics)


def _route_nic(route: JsonObject) -> str | None:
    """The device of a route, or of the first next hop of a multipath route."""
    hops = as_objects(route.get("nexthops"))
    return as_text(route.get("dev")) or (as_text(hops[0].get("dev")) if hops else None)


def nics_from_sys(sys: Mapping[str, str], routes: str, fib_trie: str, if_inet6: str) -> tuple[Nic, ...]:
    """Interfaces without `ip`: /sys/class/net values, /proc/net/route, /proc/net/fib_trie, /proc/net/if_inet6."""
    names = dict.fromkeys(path.split("/")[1] for path in sys if re.fullmatch(r"net/[^/]+/[^/]+", path))
    v4, v6 = _proc_v4(routes, fib_trie), _proc_v6(if_inet6)
    return tuple(_sys_nic(name, sys, (*v4.get(name, ()), *v6.get(name, ()))) for name in names)


def _sys_nic(name: str, sys: Mapping[str, str], addresses: tuple[Address, ...]) -> Nic:
    kind = kind_of(name, sys_type=sys.get(f"net/{name}/type", ""))
    own = (Address("127.0.0.1", 8, "host"),) if kind == "loopback" else ()
    return Nic(
        name=name,
        kind=kind,
        up=sys.get(f"net/{name}/operstate", "").upper() not in _DOWN and _flag_up(sys.get(f"net/{name}/flags")),
        mtu=integer(sys.get(f"net/{name}/mtu")),
        mac=sys.get(f"net/{name}/address") or None,
        speed_mbps=speed(sys.get(f"net/{name}/speed")),
        addresses=own + addresses,
        rx_bytes=integer(sys.get(f"net/{name}/rx_bytes")),
        tx_bytes=integer(sys.get(f"net/{name}/tx_bytes")),
    )


def _flag_up(text: str | None) -> bool:
    """Bit IFF_UP of /sys/class/net/NAME/flags; an unreadable file counts as up."""
    return not re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text or "") or bool(int(text or "0", 16) & 1)


def proc_routes(text: str) -> tuple[tuple[str, ipaddress.IPv4Network, bool], ...]:
    """(interface, network, has a gateway) of /proc/net/route, whose numbers are little-endian hex."""
    found = []
    for line in text.splitlines()[1:]:
        cells = line.split()
        try:
            dst, gateway, mask = (int.from_bytes(bytes.fromhex(cells[i]), "little") for i in (1, 2, 7))
            network = ipaddress.IPv4Network((dst, str(ipaddress.IPv4Address(mask))))
            found.append((cells[0], network, gateway != 0))
        except (ValueError, IndexError):
            continue
    return tuple(found)


def proc_default_nic(text: str) -> str | None:
    """The interface of the first default route in /proc/net/route."""
    return next((name for name, network, _ in proc_routes(text) if network.prefixlen == 0), None)


def _proc_v4(routes: str, fib_trie: str) -> Mapping[str, tuple[Address, ...]]:
    """Own IPv4 addresses by interface: the trie knows the addresses, the directly attached routes their interface."""
    local = dict.fromkeys(re.findall(r"\|-- ([0-9.]{7,15})\s+/32 host LOCAL", fib_trie))
    attached = [(name, net) for name, net, gateway in proc_routes(routes) if not gateway and net.prefixlen]
    found: dict[str, tuple[Address, ...]] = {}
    for ip in local:
        for name, net in attached:
            own = address(ip, net.prefixlen)
            if own is not None and ipaddress.IPv4Address(own.ip) in net:
                found[name] = (*found.get(name, ()), own)
                break
    return found


_UNUSABLE, _PASSING = 0x40 | 0x08, 0x20 | 0x01
"""IFA_F_ of linux/if_addr.h: tentative or a duplicate; deprecated or temporary."""


def _proc_v6(if_inet6: str) -> Mapping[str, tuple[Address, ...]]:
    """Own IPv6 addresses by interface, in the order and with those left out as `_addresses` does it."""
    found: dict[str, list[tuple[bool, Address]]] = {}
    for line in if_inet6.splitlines():
        cells = line.split()
        if len(cells) != 6 or not re.fullmatch(r"[0-9a-fA-F]{32}( [0-9a-fA-F]{2,8}){4}", " ".join(cells[:5])):
            continue
        own, flags = address(str(ipaddress.IPv6Address(int(cells[0], 16))), int(cells[2], 16)), int(cells[4], 16)
        if own is not None and not flags & _UNUSABLE:
            found.setdefault(cells[5], []).append((bool(flags & _PASSING), own))
    return {name: tuple(a for _, a in sorted(own, key=lambda pair: pair[0])) for name, own in found.items()}


def main_nic(facts: HostFacts) -> Nic | None:
    """The interface people would name first: that of the default route, else the fastest one that is up."""
    usable = [n for n in facts.nics if n.kind in ("ethernet", "infiniband") and n.up and n.addresses]
    default = next((n for n in usable if n.name == facts.default_route_nic), None)
    return default or max(usable, key=lambda n: n.speed_mbps or 0, default=None)
