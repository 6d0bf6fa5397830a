"""Which address, interface, RDMA ports and port a run uses, and the words for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from distui.facts.host import Address, HostFacts, IbPort, Nic
from distui.plan.model import Notes
from distui.plan.network import fabric
from distui.plan.network.rendezvous import bind_mount, meet, resolve_volume
from distui.plan.network.routes import choose_routes
from distui.plan.ranks.machines import same_machine
from distui.plan.ranks.placement import HostPlacement
from distui.spec.hosts.inventory import DataNetwork, Host
from distui.spec.job.job import Backend, Fabric, Job, Rendezvous

LO = Nic("lo", "loopback", True, addresses=(Address("127.0.0.1", 8, "host"),))


def nic(name: str, *addresses: str, kind: Any = "ethernet", up: bool = True, mbps: int | None = 1000) -> Nic:
    """An interface with addresses written `10.0.0.1/24`."""
    parsed = tuple(Address(ip, int(prefix)) for ip, _, prefix in (a.partition("/") for a in addresses))
    return Nic(name, kind, up, speed_mbps=mbps, addresses=parsed)


def host(name: str, *nics: Nic, ib: tuple[IbPort, ...] = (), default: str | None = "eth0", **more: Any) -> HostFacts:
    """Facts with these interfaces and `lo`."""
    more = {"machine_id": name, "home": "/home/u"} | more
    return HostFacts(host=name, hostname=name, nics=(LO, *nics), ib=ib, default_route_nic=default, **more)


def hca(name: str, netdev: str | None, *, layer: str = "InfiniBand", state: str = "ACTIVE") -> IbPort:
    """One RDMA port."""
    return IbPort(name, 1, state, layer, 400.0, netdev)


def routes(
    *facts: HostFacts,
    fabric: Fabric = Fabric(),  # noqa: B008 - frozen
    backend: Backend = "nccl",
    data: dict[str, DataNetwork] | None = None,
    addr: dict[str, str] | None = None,
) -> Any:
    """The networks that choose_routes gives hosts of an inventory without settings of its own, and what it notes."""
    hosts = [
        (Host(f.host, data=(data or {}).get(f.host, DataNetwork()), addr=(addr or {}).get(f.host)), f) for f in facts
    ]
    return noted("networks", lambda notes: choose_routes(Job("j", fabric=fabric), backend, hosts, notes))


def noted(name: str, step: Callable[[Notes], Any]) -> Any:
    """What a step of the plan gives, as `name`, beside what it notes."""
    notes = Notes()
    return SimpleNamespace(
        **{name: step(notes)}, problems=notes.problems, warnings=notes.warnings, reasons=notes.reasons
    )


def chosen(made: Any) -> list[tuple[str, str, str]]:
    """Interface, address and fabric of each host."""
    assert not made.problems, made.problems
    return [(n.ifname, n.addr, n.fabric) for n in made.networks]


def refused(made: Any) -> str:
    """All problems as one text."""
    assert made.problems
    return "\n".join(map(str, made.problems))


def test_the_fastest_subnet_that_all_hosts_share_is_used() -> None:
    """Names may differ; faster networks that not everybody has do not count."""
    a = host(
        "a", nic("eth0", "10.0.0.1/24"), nic("ens3", "10.1.0.1/24", mbps=25_000), nic("x", "10.2.0.1/24", mbps=99_000)
    )
    b = host("b", nic("eth0", "10.0.0.2/24"), nic("bond0", "10.1.0.2/24", mbps=25_000))
    made = routes(a, b)
    assert chosen(made) == [("ens3", "10.1.0.1", "tcp"), ("bond0", "10.1.0.2", "tcp")]
    assert made.networks[0].reasons == (
        "ens3 10.1.0.1/24: 10.1.0.0/24, the fastest network that all hosts share (25 Gb/s)",
        "eth0 10.0.0.1/24 not used",
        "x 10.2.0.1/24 not used",
    )


def test_unknown_speeds_fall_back_to_the_default_route() -> None:
    """Virtual machines report no speed."""
    a = host("a", nic("eth0", "10.0.0.1/24", mbps=None), nic("eth1", "10.1.0.1/24", mbps=None), default="eth1")
    b = host("b", nic("eth0", "10.0.0.2/24", mbps=None), nic("eth1", "10.1.0.2/24", mbps=None), default="eth1")
    assert [n for n, _, _ in chosen(routes(a, b))] == ["eth1", "eth1"]


def test_bridges_tunnels_and_link_local_addresses_are_no_way_to_peers() -> None:
    """docker0 has the same address everywhere; 169.254 may even claim to be global."""
    others = (
        nic("docker0", "172.17.0.1/16", kind="container"),
        nic("tailscale0", "100.64.0.1/10", kind="tunnel"),
        nic("usb0", "169.254.3.1/16"),
        nic("eth9", "10.9.0.1/24", up=False),
    )
    made = routes(host("a", *others, nic("eth0", "10.0.0.1/24")), host("b", *others, nic("eth0", "10.0.0.2/24")))
    assert [n for n, _, _ in chosen(made)] == ["eth0", "eth0"]
    assert made.networks[0].reasons[1:] == (
        "docker0 172.17.0.1 left out: a container network",
        "tailscale0 100.64.0.1 left out: a tunnel",
        "usb0 169.254.3.1 left out: only link-local addresses",
        "eth9 10.9.0.1 left out: down",
    )


def test_a_subnet_with_equal_addresses_is_each_hosts_own() -> None:
    """VirtualBox gives every machine 10.0.2.15 behind its own NAT."""
    a = host("a", nic("nat", "10.0.2.15/24", mbps=10_000), nic("eth0", "10.0.0.1/24"))
    b = host("b", nic("nat", "10.0.2.15/24", mbps=10_000), nic("eth0", "10.0.0.2/24"))
    assert [n for n, _, _ in chosen(routes(a, b))] == ["eth0", "eth0"]


def test_hosts_in_different_subnets_use_their_default_routes_with_a_warning() -> None:
    """They may be routed; only a test can say."""
    made = routes(host("a", nic("eth0", "10.0.0.1/24")), host("b", nic("eth0", "10.1.0.1/24")))
    assert chosen(made) == [("eth0", "10.0.0.1", "tcp"), ("eth0", "10.1.0.1", "tcp")]
    assert "must be routed between them" in made.warnings[0]
    by_ssh = routes(
        host("a", nic("eth0", "10.0.0.1/24"), nic("m", "10.5.0.1/24")),
        host("b", nic("eth0", "10.1.0.1/24")),
        addr={"a": "10.5.0.1"},
    )
    assert chosen(by_ssh)[0] == ("m", "10.5.0.1", "tcp")


def test_without_any_common_way_every_hosts_candidates_are_listed() -> None:
    """The person can see at a glance what is missing where."""
    said = refused(routes(host("a", nic("eth1", "10.0.0.1/24"), default=None), host("b", default=None)))
    assert said.startswith("hosts share no subnet: a has eth1 10.0.0.1/24; b has no usable address")


def test_ipv6_only_hosts_work() -> None:
    """IPv4 is preferred, not needed."""
    a = host("a", nic("eth0", "fe80::1/64", "2001:db8::1/64"))
    b = host("b", nic("eth0", "fe80::2/64", "2001:db8::2/64"))
    assert chosen(routes(a, b)) == [("eth0", "2001:db8::1", "tcp"), ("eth0", "2001:db8::2", "tcp")]


# one machine


def test_one_host_uses_its_real_address_and_loopback_only_without_one() -> None:
    """A single host needs no peers."""
    assert chosen(routes(host("a", nic("eth0", "10.0.0.1/24")))) == [("eth0", "10.0.0.1", "tcp")]
    assert chosen(routes(host("a"))) == [("lo", "127.0.0.1", "tcp")]


def test_two_names_of_one_machine_meet_on_what_it_has() -> None:
    """The demo's two hosts are this machine twice, perhaps without any network."""
    same = {"machine_id": "m", "boot_id": "b"}
    assert chosen(routes(host("a", **same), host("b", **same))) == [("lo", "127.0.0.1", "tcp")] * 2
    eth0 = nic("eth0", "10.0.0.1/24")
    assert chosen(routes(host("a", eth0, **same), host("b", eth0, **same))) == [("eth0", "10.0.0.1", "tcp")] * 2


def test_what_makes_two_hosts_one_machine() -> None:
    """Cloned images share a machine-id and namespaces a boot id; together with addresses they prove it."""
    a = host("a", nic("eth0", "10.0.0.1/24"), machine_id="m", boot_id="b")
    assert same_machine(a, dataclasses.replace(a, host="x"))
    assert not same_machine(a, dataclasses.replace(a, boot_id="other"))
    assert not same_machine(a, dataclasses.replace(a, machine_id="other"))
    assert not same_machine(a, host("c", nic("eth0", "10.0.0.2/24"), machine_id="m", boot_id="b"))
    nameless = dataclasses.replace(a, machine_id=None)
    assert same_machine(nameless, dataclasses.replace(a, host="x", machine_id=None))
    assert not same_machine(nameless, dataclasses.replace(nameless, boot_id="other"))
    tunnel = host("t", nic("tap0", "10.0.2.100/24", kind="tunnel"), machine_id="m", boot_id="b")
    assert same_machine(tunnel, tunnel)
    container = dataclasses.replace(tunnel, machine_id=None)
    assert not same_machine(container, container)
    unknown = dataclasses.replace(nameless, boot_id=None)
    assert not same_machine(unknown, unknown)


# what is pinned


def test_hosts_yaml_and_the_job_pin_interface_and_address() -> None:
    """What a person names wins over speed, kind of interface and common subnets."""
    a = host("a", nic("eth0", "10.0.0.1/24"), nic("wg0", "10.7.0.1/24", kind="tunnel"))
    b = host("b", nic("eth0", "10.0.0.2/24", "10.0.0.9/24"), nic("wg0", "10.7.0.2/24", kind="tunnel"))
    by_file = routes(a, b, data={"a": DataNetwork(ifname="eth0"), "b": DataNetwork(addr="10.0.0.9")})
    assert chosen(by_file) == [("eth0", "10.0.0.1", "tcp"), ("eth0", "10.0.0.9", "tcp")]
    assert by_file.networks[1].reasons[0] == "eth0 10.0.0.9/24: named by hosts.yaml"
    by_job = routes(a, b, fabric=Fabric(ifname="wg0"), data={"a": DataNetwork(ifname="eth0")})
    assert [n for n, _, _ in chosen(by_job)] == ["wg0", "wg0"]
    routed = {"a": DataNetwork(ifname="eth0"), "b": DataNetwork(ifname="wg0")}
    assert chosen(routes(a, b, data=routed)) == [("eth0", "10.0.0.1", "tcp"), ("wg0", "10.7.0.2", "tcp")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DataNetwork(ifname="ib9"), "a: no interface 'ib9' (has lo, eth0), asked for by data.ifname in hosts.yaml"),
        (DataNetwork(addr="10.9.9.9"), "a: 10.9.9.9 is not an address of the host (has 127.0.0.1, 10.0.0.1)"),
    ],
)
def test_what_is_pinned_must_be_there(data: DataNetwork, said: str) -> None:
    """A wrong name is said with what the host has."""
    assert said in refused(routes(host("a", nic("eth0", "10.0.0.1/24")), data={"a": data}))


def test_a_host_with_a_tunnel_alone_is_told_what_was_left_out() -> None:
    """Machines of two places that only a VPN joins: pinned it is used, and the refusal names it."""
    a, b = (host(n, nic("tailscale0", f"100.64.0.{i}/32", kind="tunnel")) for n, i in (("a", 1), ("b", 2)))
    assert "a has no usable address (tailscale0 100.64.0.1 left out: a tunnel)" in refused(routes(a, b))
    assert chosen(routes(a, b, fabric=Fabric(ifname="tailscale0")))[1] == ("tailscale0", "100.64.0.2", "tcp")


def test_ipv6_is_one_address_however_it_is_written() -> None:
    """Capitals and zeros of hosts.yaml, ssh's configuration and the job's env."""
    a, b = host("a", nic("eth0", "2001:db8::1/64")), host("b", nic("eth0", "2001:db8::2/64"))
    made = routes(a, b, data={"a": DataNetwork(addr="2001:DB8:0::1")})
    assert chosen(made)[0] == ("eth0", "2001:db8::1", "tcp")
    far = host("b", nic("eth0", "2001:db8:1::2/64"), nic("eth1", "2001:db8:2::2/64"))
    assert chosen(routes(a, far, addr={"b": "2001:DB8:2::2"}))[1] == ("eth1", "2001:db8:2::2", "tcp")
    made = met(Job("j", env={"MASTER_ADDR": "2001:DB8::0:1"}), a)
    assert (made.rendezvous.master_addr, made.problems) == ("2001:DB8::0:1", [])


def test_an_interface_with_fe80_alone_can_be_pinned_by_nobody() -> None:
    """Without the name of its own interface no peer can use it, and ranks waited; 169.254 will do on a cable."""

    def of(name: str, *ips: str) -> HostFacts:
        parsed = tuple(Address(ip, 16 if "." in ip else 64, "link") for ip in ips)
        return host(name, Nic("eth0", "ethernet", True, addresses=parsed))

    pinned = Fabric(ifname="eth0")
    what = "interface 'eth0' is down or has no address that others can use"
    assert what in refused(routes(of("a", "fe80::1"), of("b", "fe80::2"), fabric=pinned))
    made = routes(of("a", "fe80::1", "169.254.0.1"), of("b", "fe80::2", "169.254.0.2"), fabric=pinned)
    assert [addr for _, addr, _ in chosen(made)] == ["169.254.0.1", "169.254.0.2"]


# InfiniBand and RoCE


def ib_host(name: str, number: int, *ports: IbPort, ipoib: bool = True, **more: Any) -> HostFacts:
    """eth0 on 10.77, ib0 on 10.78 when it has an address."""
    nics = [nic("eth0", f"10.77.0.{number}/24", mbps=100_000)]
    nics += [nic("ib0", f"10.78.0.{number}/24", mbps=None)] if ipoib else []
    return host(name, *nics, ib=ports or (hca("mlx5_0", "ib0"),), **more)


def test_an_active_infiniband_link_with_addresses_is_preferred() -> None:
    """Even when ethernet says it is faster: MASTER_ADDR, gloo and NCCL all go there."""
    made = routes(ib_host("a", 1), ib_host("b", 2), backend="gloo")
    assert chosen(made) == [("ib0", "10.78.0.1", "ib"), ("ib0", "10.78.0.2", "ib")]
    assert made.networks[0].hcas == ("mlx5_0:1",)


def test_the_speed_is_of_what_the_backend_can_use() -> None:
    """NCCL's is that of all ports together, gloo's that of the interface: what is used of it is a share of that."""

    def one(name: str, number: int) -> HostFacts:
        ports = (hca("mlx5_0", "ib0"), hca("mlx5_1", None))
        return host(name, nic("ib0", f"10.78.0.{number}/24", kind="infiniband", mbps=200_000), ib=ports)

    assert routes(one("a", 1), one("b", 2)).networks[0].speed_mbps == 2 * 400_000
    assert routes(one("a", 1), one("b", 2), backend="gloo").networks[0].speed_mbps == 200_000


def test_tcp_keeps_off_infiniband() -> None:
    """`fabric: tcp` is ethernet, with RDMA switched off."""
    made = routes(ib_host("a", 1), ib_host("b", 2), fabric=Fabric(kind="tcp"))
    assert chosen(made)[0] == ("eth0", "10.77.0.1", "tcp")
    assert made.networks[0].rdma_off


def test_nccl_needs_no_address_on_infiniband() -> None:
    """Rendezvous over ethernet, data by verbs; gloo can't do that."""
    a, b = ib_host("a", 1, hca("mlx5_0", None), ipoib=False), ib_host("b", 2, hca("mlx5_0", None), ipoib=False)
    made = routes(a, b, fabric=Fabric(kind="ib"))
    assert chosen(made)[0] == ("eth0", "10.77.0.1", "ib") and made.networks[0].hcas == ("mlx5_0:1",)
    assert "InfiniBand is ACTIVE but no address to use is on it" in refused(
        routes(a, b, fabric=Fabric(kind="ib"), backend="gloo")
    )


def test_a_host_without_infiniband_fails_the_plan_or_moves_all_to_tcp() -> None:
    """NCCL can't mix networks, so the fall-back is for every host."""
    down = ib_host("b", 2, hca("mlx5_0", "ib0", state="DOWN"))
    said = refused(routes(ib_host("a", 1), down, fabric=Fabric(kind="ib")))
    assert said.startswith("b: no ACTIVE InfiniBand port (RDMA ports: mlx5_0:1 DOWN InfiniBand)")
    loose = routes(ib_host("a", 1), down, fabric=Fabric(kind="ib", require="any"))
    assert [f for _, _, f in chosen(loose)] == ["tcp", "tcp"]
    assert all(n.rdma_off for n in loose.networks) and "using TCP on every host" in loose.warnings[0]
    assert all(n.rdma_off for n in routes(ib_host("a", 1), down).networks)


def test_a_missing_rail_is_named() -> None:
    """7 of 8 links slow down all ranks: fatal when InfiniBand is asked for, else a warning."""
    a = ib_host("a", 1, *(hca(f"mlx5_{i}", f"ib{i}") for i in range(8)))
    b = ib_host("b", 2, *(hca(f"mlx5_{i}", f"ib{i}", state="ACTIVE" if i != 3 else "DOWN") for i in range(8)))
    what = "7 ACTIVE RDMA ports where other hosts have 8"
    assert f"b: {what}" in refused(routes(a, b, fabric=Fabric(kind="ib")))
    assert f"b: {what}" in routes(a, b).warnings


def test_roce_below_a_vlan_is_found() -> None:
    """The address is on ens1.100, the port on ens1: the slower RoCE port of the management network was taken."""

    def of(name: str, i: int) -> HostFacts:
        data = dataclasses.replace(nic("ens1.100", f"10.1.0.{i}/24", mbps=100_000), over=("ens1",))
        ports = (hca("mlx5_0", "ens1", layer="Ethernet"), hca("mlx5_1", "eth0", layer="Ethernet"))
        return host(name, nic("eth0", f"10.0.0.{i}/24", mbps=25_000), data, ib=ports)

    made = routes(of("a", 1), of("b", 2))
    assert chosen(made)[0] == ("ens1.100", "10.1.0.1", "roce")
    assert made.networks[0].hcas == ("mlx5_0:1", "mlx5_1:1")


def test_rdma_that_is_neither_infiniband_nor_roce_is_said_to_be_the_images_business() -> None:
    """AWS EFA: without its plugin and /dev/infiniband, NCCL takes sockets, and nobody said so."""
    hosts = [
        host(name, nic("eth0", f"172.31.0.{i}/20"), ib=(hca("rdmap0s6", None, layer="Unknown"),))
        for i, name in ((1, "a"), (2, "b"))
    ]
    made = routes(*hosts)
    assert [f for _, _, f in chosen(made)] == ["tcp", "tcp"]
    assert [w.partition(" (")[0] for w in made.warnings] == ["a: rdmap0s6", "b: rdmap0s6"]
    assert "`devices: [/dev/infiniband]`" in made.warnings[0]
    for job in (Job("j", devices=("/dev/infiniband/uverbs0",)), Job("j", docker_args=("--device=/dev/infiniband",))):
        given = noted(
            "networks",
            lambda notes, job=job: choose_routes(job, "nccl", [(Host("a"), hosts[0]), (Host("b"), hosts[1])], notes),
        )
        assert "plugin" in given.warnings[0] and "devices:" not in given.warnings[0]
    assert not routes(*hosts, backend="gloo").warnings and not routes(hosts[0]).warnings
    assert not routes(*hosts, fabric=Fabric(kind="tcp")).warnings


def test_leaving_a_port_out_takes_no_other_kind_in() -> None:
    """`^mlx5_1` on InfiniBand added the management network's RoCE port, and Azure's mlx5_an."""
    more = (hca("mlx5_1", "ib1"), hca("mlx5_2", "eth0", layer="Ethernet"), hca("mlx5_an0", "e", layer="Ethernet"))
    made = routes(
        *(ib_host(name, i, hca("mlx5_0", "ib0"), *more) for i, name in ((1, "a"), (2, "b"))),
        fabric=Fabric(hcas="^mlx5_1"),
    )
    assert [n.hcas for n in made.networks] == [("mlx5_0:1",), ("mlx5_0:1",)]


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_leaving_all_ports_out_is_tcp_and_said(backend: str) -> None:
    made = routes(ib_host("a", 1), ib_host("b", 2), fabric=Fabric(hcas="^mlx5_0"), backend=backend)
    assert [(n.fabric, n.hcas, n.rdma_off) for n in made.networks] == [("tcp", (), True)] * 2
    said = [w for w in made.warnings if "hcas '^mlx5_0' leaves no ACTIVE RDMA port" in w]
    assert len(said) == (2 if backend == "nccl" else 0)


def test_storage_s_infiniband_left_out_leaves_roce() -> None:
    """`^mlx5_0` names the only InfiniBand port: data goes by RoCE, not by nothing."""

    def of(name: str, i: int) -> HostFacts:
        ports = (hca("mlx5_0", "ib0"), hca("mlx5_1", "r1", layer="Ethernet"))
        nics = (nic("ib0", f"10.9.0.{i}/24", kind="infiniband"), nic("r1", f"10.1.0.{i}/24"))
        return host(name, *nics, ib=ports)

    made = routes(of("a", 1), of("b", 2), fabric=Fabric(hcas="^mlx5_0"))
    assert [(n.fabric, n.ifname, n.hcas) for n in made.networks] == [("roce", "r1", ("mlx5_1:1",))] * 2


@pytest.mark.parametrize("vlan", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_management_s_roce_port_takes_no_place_of_the_rails(shared: bool, vlan: bool) -> None:
    """Its address is on a bond, or a VLAN over it; rails are in subnets of their own, or routed, one subnet a link."""

    def of(name: str, i: int) -> HostFacts:
        rails = [nic(f"r{n}", f"10.1.{n}.{i}/24" if shared else f"10.1.{n}.{2 * i}/31") for n in (0, 1)]
        ports = [dataclasses.replace(hca(f"mlx5_{n}", f"r{n}", layer="Ethernet"), rate_gbps=400.0) for n in (0, 1)]
        below = "eno1" if vlan else "bond0"
        ports.append(dataclasses.replace(hca("mlx5_bond_0", below, layer="Ethernet"), rate_gbps=50.0))
        over = ("bond0", "eno1", "eno2") if vlan else ("eno1", "eno2")
        named = "bond0.100" if vlan else "bond0"
        management = dataclasses.replace(nic(named, f"10.0.0.{i}/24"), over=over)
        return host(name, management, *rails, ib=tuple(ports), default=named)

    made = routes(of("a", 1), of("b", 2))
    assert [n.hcas for n in made.networks] == [("mlx5_0:1", "mlx5_1:1")] * 2
    assert any("must be routed between them" in warning for warning in made.warnings) != shared
    if shared and not vlan:
        unlike = routes(of("a", 1), dataclasses.replace(of("b", 2), default_route_nic="r0"))
        assert [len(n.hcas) for n in unlike.networks] == [3, 3], "as many on each host"
    pinned = routes(of("a", 1), of("b", 2), data={name: DataNetwork(hcas="mlx5_1") for name in ("a", "b")})
    assert [n.hcas for n in pinned.networks] == [("mlx5_1:1",)] * 2 and not pinned.warnings


@pytest.mark.parametrize("shared", [True, False])
def test_routed_rails_may_have_their_addresses_on_vlans(shared: bool) -> None:
    """The management's, which has its own on the port itself, took their place."""

    def of(name: str, i: int) -> HostFacts:
        rails = [dataclasses.replace(nic(f"r{n}.7", f"10.1.{n}.{2 * i}/31"), over=(f"r{n}",)) for n in (0, 1)]
        ports = [hca(f"mlx5_{n}", f"r{n}", layer="Ethernet") for n in (0, 1)]
        slow = dataclasses.replace(hca("mlx5_2", "eno1", layer="Ethernet"), rate_gbps=50.0)
        management = nic("eno1", f"10.0.{0 if shared else i}.{i}/24")
        return host(name, management, *rails, ib=(*ports, slow), default="eno1")

    made = routes(of("a", 1), of("b", 2))
    assert [n.hcas for n in made.networks] == [("mlx5_0:1", "mlx5_1:1", *(() if shared else ("mlx5_2:1",)))] * 2
    assert any("the fastest RoCE ports are in no subnet" in warning for warning in made.warnings)


def test_of_equally_fast_ones_roce_s_own_interface_goes_before_its_vlan() -> None:
    def of(name: str, i: int) -> HostFacts:
        vlan = dataclasses.replace(nic("ens1.7", f"10.0.0.{i}/24"), over=("ens1",))
        port = hca("mlx5_0", "ens1", layer="Ethernet")
        return host(name, nic("ens1", f"10.1.0.{i}/24"), vlan, ib=(port,), default="ens1.7")

    assert [n.ifname for n in routes(of("a", 1), of("b", 2)).networks] == ["ens1", "ens1"]


def test_names_of_one_host_choose_no_port_of_another() -> None:
    """ens2 is b's interface to its peers; a's ens2 leads to its storage."""

    def of(name: str, i: int, data: str, other: str) -> HostFacts:
        ports = (hca("mlx5_0", data, layer="Ethernet"), hca("mlx5_1", other, layer="Ethernet"))
        return host(name, nic(data, f"10.1.0.{i}/24"), nic(other, f"10.{20 + i}.0.1/24"), ib=ports)

    made = routes(of("a", 1, "ens1", "ens2"), of("b", 2, "ens2", "ens1"))
    assert [n.hcas for n in made.networks] == [("mlx5_0:1",), ("mlx5_0:1",)]


def test_roce_ports_that_face_peers_are_listed() -> None:
    """RoCE has link layer Ethernet; Azure's mlx5_an is the VM's own network."""

    def of(name: str, number: int) -> HostFacts:
        ports = (
            hca("mlx5_10", "r10", layer="Ethernet"),
            hca("mlx5_2", "r2", layer="Ethernet"),
            hca("mlx5_5", "lonely", layer="Ethernet"),
            hca("mlx5_an0", "eth0", layer="Ethernet"),
        )
        return host(
            name,
            nic("eth0", f"10.0.0.{number}/24"),
            nic("r2", f"10.2.0.{number}/24", mbps=100_000),
            nic("r10", f"10.10.0.{number}/24", mbps=100_000),
            nic("lonely", f"10.{90 + number}.0.1/31", mbps=100_000),
            ib=ports,
        )

    made = routes(of("a", 1), of("b", 2), fabric=Fabric(kind="roce"))
    assert chosen(made)[0] == ("r2", "10.2.0.1", "roce")
    assert made.networks[0].hcas == ("mlx5_2:1", "mlx5_10:1")
    assert [f for _, _, f in chosen(routes(of("a", 1), of("b", 2), backend="gloo"))] == ["tcp", "tcp"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("mlx5_1", ["mlx5_1"]),
        ("mlx5_[0-1]", ["mlx5_0", "mlx5_1"]),
        ("mlx5_[0,10-11]", ["mlx5_0", "mlx5_10", "mlx5_11"]),
        ("mlx5_*", ["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"]),
        ("mlx5_0:1,mlx5_11:1", ["mlx5_0", "mlx5_11"]),
        ("mlx5_0:2", []),
        ("^mlx5_1,mlx5_10", ["mlx5_0", "mlx5_11"]),
        ("=mlx5_10", ["mlx5_10"]),
        ("[", []),
    ],
)
def test_hca_patterns_are_whole_names(pattern: str, names: list[str]) -> None:
    """Unlike NCCL's own prefixes, where mlx5_1 also takes mlx5_10."""
    ports = [hca(f"mlx5_{i}", None) for i in (0, 1, 10, 11)]
    assert [p.hca for p in fabric.select_hcas(pattern, ports)] == names


def test_pinned_hcas_must_be_active() -> None:
    """A named port that is down is an error, or left out with `require: any`."""
    ports = (hca("mlx5_0", "ib0"), hca("mlx5_1", "ib1", state="DOWN"))
    a, b = ib_host("a", 1, *ports), ib_host("b", 2, *ports)
    strict, loose = Fabric(kind="ib", hcas="mlx5_[0-1]"), Fabric(kind="ib", hcas="mlx5_[0-1]", require="any")
    assert "RDMA ports 'mlx5_[0-1]' are not all ACTIVE (has mlx5_0:1 ACTIVE, mlx5_1:1 DOWN)" in refused(
        routes(a, b, fabric=strict)
    )
    assert routes(a, b, fabric=loose).networks[0].hcas == ("mlx5_0:1",)
    said = refused(routes(a, b, fabric=Fabric(hcas="mlx5")))  # as NCCL takes it
    assert "a: hcas 'mlx5' names no RDMA port (has mlx5_0:1 ACTIVE, mlx5_1:1 DOWN) (names are whole ones here" in said


def test_a_host_whose_name_is_loopback_is_pinned_and_said_so() -> None:
    """Debian's 127.0.1.1 breaks gloo unless an interface is named."""
    made = routes(host("a", nic("eth0", "10.0.0.1/24"), name_is_loopback=True))
    assert made.networks[0].reasons[-1] == "the host's own name leads to loopback; pinned by GLOO_SOCKET_IFNAME=eth0"


# the rendezvous point


def met(job: Job, first: HostFacts, *, run_id: str = "r-1", attempt: int = 1, engine: Any = "docker") -> Any:
    """meet() on one host with two ranks."""
    places = (HostPlacement(Host(first.host, engine=engine), first, 0, (0, 1), (), ((), ())),)
    networks = routes(first).networks
    return noted("rendezvous", lambda notes: meet(job, places, networks, notes, run_id=run_id, attempt=attempt))


A = host("a", nic("eth0", "10.0.0.1/24"))


def test_the_port_is_free_stable_and_outside_the_ephemeral_range() -> None:
    """The same run has the same port; what is taken is passed over."""
    port = met(Job("j"), A).rendezvous.master_port
    assert 20000 <= port < 30000 and port == met(Job("j"), A).rendezvous.master_port
    taken = dataclasses.replace(A, ports_in_use=frozenset({port}))
    assert met(Job("j"), taken).rendezvous.master_port == port + 1
    low = dataclasses.replace(A, ephemeral_ports=(15000, 29999))
    assert not 15000 <= met(Job("j"), low).rendezvous.master_port <= 29999
    few = dataclasses.replace(A, ephemeral_ports=(1024, 65000))
    assert met(Job("j"), few).rendezvous.master_port > 65000


def test_a_host_whose_every_port_is_ephemeral_has_one_all_the_same() -> None:
    """Many are tuned to 1024-65535. The risk is said, as of a port that was asked for."""
    tuned = dataclasses.replace(A, ephemeral_ports=(1024, 65535))
    plan = met(Job("j"), tuned)
    port = plan.rendezvous.master_port
    assert (plan.problems, port) == ([], met(Job("j"), A).rendezvous.master_port)
    assert plan.warnings == [
        f"a: port {port} is in the ephemeral range 1024-65535; any outgoing connection may hold it"
    ]
    assert f"port {port}: free on a, whose ephemeral range 1024-65535 leaves no other" in plan.reasons
    none = dataclasses.replace(tuned, ports_in_use=frozenset(range(65536)))
    assert [p.code for p in met(Job("j"), none).problems] == ["port"]


def test_different_runs_meet_at_different_ports() -> None:
    """Two users of one host are unlikely to choose the same."""
    ports = {met(Job("j"), A, run_id=f"r-{i}").rendezvous.master_port for i in range(50)}
    assert len(ports) > 45


def test_a_port_that_was_asked_for_must_be_free() -> None:
    """Named with the host; the ephemeral range is only a warning."""
    busy = dataclasses.replace(A, ports_in_use=frozenset({9090}))
    assert met(Job("j", master_port=9091), busy).rendezvous.master_port == 9091
    taken = met(Job("j", master_port=9090), busy).problems
    assert [(p.code, p.host, p.port) for p in taken] == [("port_taken", "a", 9090)]
    assert met(Job("j", env={"MASTER_PORT": "9090"}), busy).problems
    assert "ephemeral range" in met(Job("j", master_port=40000), A).warnings[0]
    assert [p.code for p in met(Job("j", master_port=0), A).problems] == ["port"]


def test_ranks_are_not_sent_to_another_port_than_the_plan_s() -> None:
    """What `env` says is what they get: a --master-port beside it would be proved to be free, and not used."""
    assert not met(Job("j", master_port=9091, env={"MASTER_PORT": "9091"}), A).problems
    (found,) = met(Job("j", master_port=9091, env={"MASTER_PORT": "9090"}), A).problems
    assert "MASTER_PORT=9090" in found.message and "9091" in found.message
    assert "no port" in met(Job("j", env={"MASTER_PORT": "any"}), A).problems[0].message
    assert not met(Job("j", launcher="command", env={"MASTER_PORT": "{master_port}"}), A).problems


def test_an_own_master_address_must_be_rank_0s() -> None:
    """Another of its addresses is fine, a name can't be checked here."""
    two = host("a", nic("eth0", "10.0.0.1/24"), nic("eth1", "10.1.0.1/24", mbps=1))
    assert met(Job("j", env={"MASTER_ADDR": "10.1.0.1"}), two).rendezvous.master_addr == "10.1.0.1"
    assert "must lead to a" in met(Job("j", env={"MASTER_ADDR": "node01"}), two).warnings[0]
    assert met(Job("j", env={"MASTER_ADDR": "10.1.0.2"}), two).problems
    for nowhere in ("", "node 01", "node01:29500"):
        assert met(Job("j", env={"MASTER_ADDR": nowhere}), two).problems, nowhere


def test_ipv6_addresses_stand_in_brackets_before_a_port() -> None:
    """As urllib and torch read them."""
    six = host("a", nic("eth0", "2001:db8::1/64"))
    rendezvous = met(Job("j", rendezvous=Rendezvous("tcp"), master_port=9090), six).rendezvous
    assert (rendezvous.master_addr, rendezvous.init_method) == ("2001:db8::1", "tcp://[2001:db8::1]:9090")


def test_a_file_rendezvous_without_containers_is_the_same_path_on_the_host() -> None:
    """And a relative directory is refused."""
    rendezvous = met(Job("j", rendezvous=Rendezvous("file", "/mnt/x/")), A, engine="process").rendezvous
    assert rendezvous.file == rendezvous.host_file and (rendezvous.file or "").startswith("/mnt/x/distui-r-1-1-")
    assert [p.code for p in met(Job("j", rendezvous=Rendezvous("file", "x")), A).problems] == ["rendezvous"]
    named = met(Job("j", rendezvous=Rendezvous("file", "/x"), volumes=("vol:/x",)), A)
    assert not named.problems and named.rendezvous.host_file is None


@pytest.mark.parametrize(
    ("volume", "resolved"),
    [
        ("./:/work:ro", "/home/u:/work:ro"),
        (".:/work", "/home/u:/work"),
        ("../x:/y", "/home/x:/y"),
        ("~/d:/d", "/home/u/d:/d"),
        ("/data:/data", "/data:/data"),
        ("named:/n", "named:/n"),
        ("/anonymous", "/anonymous"),
        (".hidden:/x", ".hidden:/x"),
    ],
)
def test_relative_volumes_are_below_the_logins_home(volume: str, resolved: str) -> None:
    """Docker before 23 refuses them, and never expands `~`."""
    assert resolve_volume(volume, "/home/u") == resolved
    assert resolve_volume(volume, None) == volume


def test_bind_mounts_are_read_as_docker_reads_them() -> None:
    """Source, target, options; anonymous volumes have no source."""
    assert bind_mount("/a:/b:ro", None) == ("/a", "/b")
    assert bind_mount("/b", None) == ("", "")
