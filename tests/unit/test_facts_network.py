"""Interfaces, addresses and RDMA ports from literals."""

from __future__ import annotations

import json

import pytest

from distui.facts import infiniband, network, reading
from distui.facts.frame import Answer
from distui.facts.host import Address, IbPort, Nic
from distui.facts.values import Reply


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("eno1", {"info_kind": "veth"}, "ethernet"),
        ("eth0", {"info_kind": "veth"}, "ethernet"),
        ("ib0", {"info_kind": "veth", "sys_type": "32"}, "infiniband"),
        ("ib0", {"info_kind": "veth", "sys_type": "1"}, "ethernet"),
        ("ibp12s0", {"link_type": "infiniband"}, "infiniband"),
        ("bond0", {"info_kind": "bond"}, "ethernet"),
        ("br0", {"info_kind": "bridge"}, "ethernet"),
        ("eth0.100", {"info_kind": "vlan"}, "ethernet"),
        ("brq0", {}, "ethernet"),
        ("docker0", {"info_kind": "bridge"}, "container"),
        ("br-1a2b3c4d5e6f", {"info_kind": "bridge"}, "container"),
        ("veth8a2f1c3", {"info_kind": "veth"}, "container"),
        ("virbr0", {}, "container"),
        ("cni0", {}, "container"),
        ("flannel.1", {"info_kind": "vxlan"}, "container"),
        ("tailscale0", {"link_type": "none", "info_kind": "tun"}, "tunnel"),
        ("wg0", {"link_type": "none"}, "tunnel"),
        ("corp", {"link_type": "none", "info_kind": "wireguard"}, "tunnel"),
        ("lo", {}, "loopback"),
        ("loop", {"link_type": "loopback"}, "loopback"),
        ("nebula1", {"sys_type": "65534"}, "tunnel"),
        ("office", {"sys_type": "512"}, "tunnel"),
        ("can0", {"sys_type": "280"}, "other"),
        ("ifb0", {"info_kind": "ifb"}, "other"),
        ("can0", {"link_type": "can"}, "other"),
    ],
)
def test_kind_of_an_interface(name: str, words: dict[str, str], kind: str) -> None:
    """A name that looks real is real whatever drives it; container and tunnel names never are."""
    assert network.kind_of(name, **words) == kind


def addr(*links: dict[str, object]) -> tuple[Nic, ...]:
    nics = network.parse_ip_addr(json.dumps(list(links)))
    assert nics is not None
    return nics


def link(name: str, *ips: str, flags: tuple[str, ...] = ("UP", "LOWER_UP"), **more: object) -> dict[str, object]:
    infos = [{"local": ip.split("/")[0], "prefixlen": int(ip.split("/")[1]), "scope": "global"} for ip in ips]
    return {"ifname": name, "flags": list(flags), "operstate": "UP", "link_type": "ether", "addr_info": infos, **more}


def test_link_local_addresses_are_never_offered() -> None:
    """Whatever scope the tool prints: fe80::/10 and 169.254/16 reach nobody by routing."""
    (nic,) = addr(link("eth0", "fe80::1/64", "169.254.7.7/16", "10.0.0.1/24"))
    assert [a.scope for a in nic.addresses] == ["link", "link", "global"]
    assert network.usable_addresses([nic]) == {"eth0": (Address("10.0.0.1", 24),)}


def test_a_cable_that_is_out_gives_no_address() -> None:
    """UP without carrier is not up."""
    (nic,) = addr(link("eth0", "10.0.0.1/24", flags=("UP", "NO-CARRIER")))
    assert not nic.up and network.usable_addresses([nic]) == {}


def test_duplicate_addresses_are_left_out_and_temporary_ones_come_last() -> None:
    """An address another machine has is none; a privacy address changes during a run."""
    nic = link("eth0")
    nic["addr_info"] = [
        {"local": "2001:db8::dead", "prefixlen": 64, "scope": "global", "dadfailed": True},
        {"local": "2001:db8::7e", "prefixlen": 64, "scope": "global", "temporary": True},
        {"local": "2001:db8::1", "prefixlen": 64, "scope": "global"},
    ]
    assert [a.ip for a in addr(nic)[0].addresses] == ["2001:db8::1", "2001:db8::7e"]


def test_so_are_those_of_the_kernels_own_table() -> None:
    """Hosts without iproute2: /proc/net/if_inet6 says it in flags, and lists in no order."""
    rows = (
        "20010db8000000000000000000000007 02 40 00 01     eth0",  # temporary
        "20010db80000000000000000000000dd 02 40 00 c8     eth0",  # dad failed
        "20010db8000000000000000000000001 02 40 00 80     eth0",
    )
    sys = {"net/eth0/type": "1", "net/eth0/operstate": "up"}
    (nic,) = network.nics_from_sys(sys, "", "", "\n".join(rows))
    assert [a.ip for a in nic.addresses] == ["2001:db8::1", "2001:db8::7"]


def test_a_bridge_with_the_default_route_is_no_containers() -> None:
    """br-ex, br-mgmt: bridges over the host's only cable, called as docker calls its own."""
    nics = addr(link("br-ex", "10.0.0.7/24"), link("br-1a2b3c4d5e6f", "172.18.0.1/16"), link("wg0", "10.9.0.1/24"))
    assert [n.kind for n in network.with_way_out(nics, "br-ex")] == ["ethernet", "container", "tunnel"]
    assert [n.kind for n in network.with_way_out(nics, "wg0")] == ["container", "container", "tunnel"]
    assert network.with_way_out(nics, None) == nics
    route = "Iface Destination Gateway Flags RefCnt Use Metric Mask\nbr-ex 00000000 0100000A 0003 0 0 0 00000000\n"
    parts = {"ip_addr": Reply(json.dumps([link("br-ex", "10.0.0.7/24")]), 0), "proc_route": Reply(route, 0)}
    assert [n.kind for n in reading.read_nics(Answer(parts, 0.0, 0.0, coarse=False), {}, ())] == ["ethernet"]


def test_what_a_vlan_and_a_bond_run_over_is_known() -> None:
    """RDMA ports belong to the interface below: of a VLAN on a bond to the bond's members."""
    kind = lambda word: {"linkinfo": {"info_kind": word}}  # noqa: E731
    nics = addr(
        link("ens1", master="bond0"),
        link("ens2", master="bond0"),
        link("bond0", **kind("bond")),
        link("bond0.7", "10.0.0.1/24", link="bond0", **kind("vlan")),
        link("eth9", link="veth1", **kind("veth")),
        link("tap", master="br0"),
        link("br0", "10.1.0.1/24", **kind("bridge")),
    )
    over = {n.name: n.over for n in nics if n.over}
    assert over == {"bond0": ("ens1", "ens2"), "bond0.7": ("bond0", "ens1", "ens2")}


def test_values_of_sysfs_complete_the_interface() -> None:
    """Speed and byte counts; -1 is no speed."""
    sys = {"net/eth0/speed": "100000", "net/eth0/rx_bytes": "7", "net/eth1/speed": "-1"}
    nics = network.parse_ip_addr(json.dumps([link("eth0"), link("eth1")]), sys)
    assert nics is not None
    assert [(n.speed_mbps, n.rx_bytes) for n in nics] == [(100000, 7), (None, None)]


def test_default_route() -> None:
    """The lowest metric wins; a multipath route counts by its first hop; none is none."""
    routes = [{"dst": "default", "dev": "wlan0", "metric": 600}, {"dst": "default", "dev": "eno1", "metric": 100}]
    assert network.default_nic(json.dumps(routes)) == "eno1"
    assert network.default_nic('[{"dst":"default","nexthops":[{"dev":"bond0"}]}]') == "bond0"
    assert network.default_nic('[{"dst":"10.0.0.0/8","dev":"eno1"}]') is None


PROC_ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t01004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
FIB_TRIE = """Local:
  +-- 10.77.0.0/24 2 0 2
     |-- 10.77.0.11
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
"""
IF_INET6 = "20010db8000000000000000000000007 02 40 00 80     eth0\n"


def test_without_ip_the_kernel_tables_give_the_same() -> None:
    """Addresses from /proc/net, the rest from /sys."""
    sys = {"net/eth0/type": "1", "net/eth0/operstate": "up", "net/eth0/flags": "0x1003", "net/eth0/mtu": "1500"}
    (nic,) = network.nics_from_sys(sys, PROC_ROUTE, FIB_TRIE, IF_INET6)
    assert nic == Nic("eth0", "ethernet", True, 1500, addresses=(Address("10.77.0.11", 24), Address("2001:db8::7", 64)))
    assert network.proc_default_nic(PROC_ROUTE) == "eth0"


def ib_tree(**more: str) -> dict[str, str]:
    port = {"state": "4: ACTIVE", "rate": "200 Gb/sec (4X HDR)", "link_layer": "InfiniBand"}
    return {f"ib/mlx5_0/ports/1/{k}": v for k, v in port.items()} | {k.replace("__", "/"): v for k, v in more.items()}


@pytest.mark.parametrize(
    ("more", "netdev"),
    [
        ({"ib__mlx5_0__ports__1__ndev": "ib7"}, "ib7"),
        ({"ib__mlx5_0__netdev__ib3": "."}, "ib3"),
        ({"ib__mlx5_0__netdev__ib3": ".", "ib__mlx5_0__netdev__ib4": ".", "net__ib4__dev_port": "0"}, "ib4"),
        ({"ib__mlx5_0__pci": "0000:0c:00.0", "net__ibp12s0__pci": "0000:0c:00.0"}, "ibp12s0"),
        ({"ib__mlx5_0__pci": "0000:0c:00.0", "net__eth0__pci": "0000:0d:00.0"}, None),
        ({}, None),
    ],
)
def test_the_interface_of_a_port_is_proved(more: dict[str, str], netdev: str | None) -> None:
    """By the GID table, the device's folder or the PCI address; never by the name."""
    assert infiniband.ports_from_tree(ib_tree(**more)) == (IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 200.0, netdev),)


def test_ipoib_gets_its_ports_rate() -> None:
    """IPoIB drivers report no speed of their own; an Ethernet interface keeps its."""
    ports = infiniband.ports_from_tree(ib_tree(ib__mlx5_0__netdev__ib0="."))
    nics = (Nic("ib0", "infiniband", True), Nic("eth0", "ethernet", True, speed_mbps=1000))
    assert [n.speed_mbps for n in infiniband.with_port_speed(nics, ports)] == [200000, 1000]
    ipoib = {"link_type": "infiniband", "linkinfo": {"info_kind": "ipoib"}}
    nics = addr(link("ib0", **ipoib), link("ib0.8001", "10.0.0.1/24", link="ib0", **ipoib))
    assert [n.speed_mbps for n in infiniband.with_port_speed(nics, ports)] == [200000, 200000]
