"""Cables, switch and packet filters of a host. Without an interface both networks are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.fault_kinds import fault
from lab.network import ETH, IB, NETS, address, ip_batch, namespace, net_of, switch_port
from lab.shell import sh

if TYPE_CHECKING:
    from lab.host import Host


def interfaces(name: str) -> list[str]:
    return [name] if name else [interface for _, interface, _, _ in NETS]


def ports(host: Host, name: str) -> list[str]:
    return [switch_port(host.name, net_of(interface)) for interface in interfaces(name)]


def on_switch(host: Host, *commands: str) -> None:
    ip_batch(namespace(host.lab.name, "sw"), *commands)


@fault("unplug", cure="plug")
def unplug(host: Host, interface: str = "") -> None:
    """Pull the cable of eth0 or ib0: the host sees NO-CARRIER."""
    on_switch(host, *(f"link set {port} down" for port in ports(host, interface)))


@fault("plug")
def plug(host: Host, interface: str = "") -> None:
    """Put the cable back."""
    on_switch(host, *(f"link set {port} up" for port in ports(host, interface)))


@fault("ifdown", cure="ifup")
def ifdown(host: Host, interface: str) -> None:
    """Take the interface down on the host itself."""
    ip_batch(namespace(host.lab.name, host.name), f"link set {interface} down")


@fault("ifup")
def ifup(host: Host, interface: str = "") -> None:
    """Bring the interface up again; its address is still there."""
    ip_batch(namespace(host.lab.name, host.name), *(f"link set {name} up" for name in interfaces(interface)))


def bridge_state(host: Host, interface: str, state: int) -> None:
    for port in ports(host, interface):
        sh("bridge", "-n", namespace(host.lab.name, "sw"), "link", "set", "dev", port, "state", str(state))


@fault("blackhole", cure="unblackhole")
def blackhole(host: Host, interface: str = "") -> None:
    """The switch drops everything from and to the host; the carrier stays, so nobody is told."""
    bridge_state(host, interface, 0)


@fault("unblackhole")
def unblackhole(host: Host, interface: str = "") -> None:
    """The switch forwards again."""
    bridge_state(host, interface, 3)


def rule(host: Host, *matches: str) -> None:
    """Add packet filter rules to a chain of the lab's own, which `uncut` empties."""
    script = "iptables -N LAB 2>/dev/null && iptables -I INPUT -j LAB && iptables -I OUTPUT -j LAB\n"
    host.exec(script + "set -e\n" + "\n".join(f"iptables -A LAB {match}" for match in matches))


@fault("cut", cure="uncut")
def cut(host: Host, peer: str) -> None:
    """Nothing passes between this host and PEER (h2, or ctl for the login node), on either network."""
    index = 0 if peer == "ctl" else host.lab.host(peer).index
    rule(host, *(f"-{way} {address(net, index)} -j DROP" for way in "sd" for net in (ETH, IB)))


@fault("cutport", cure="uncut")
def cutport(host: Host, port: str) -> None:
    """TCP to PORT of this host vanishes, as behind a firewall that drops."""
    rule(host, f"-p tcp --dport {int(port)} -j DROP")


@fault("rejectport", cure="uncut")
def rejectport(host: Host, port: str) -> None:
    """TCP to PORT of this host is refused."""
    rule(host, f"-p tcp --dport {int(port)} -j REJECT --reject-with tcp-reset")


@fault("loss", cure="uncut")
def loss(host: Host, percent: str) -> None:
    """PERCENT of the packets that arrive are lost."""
    rule(host, *(f"-i {name} -m statistic --mode random --probability {int(percent) / 100} -j DROP"
                 for name in interfaces("")))  # fmt: skip


@fault("uncut")
def uncut(host: Host) -> None:
    """Take away all cuts, closed ports and losses."""
    host.exec("iptables -F LAB 2>/dev/null || true")


@fault("rate", cure="unshape")
def rate(host: Host, mbit: str, interface: str = "") -> None:
    """A slow link: MBIT per second in both directions."""
    shape = ("root", "tbf", "rate", f"{int(mbit)}mbit", "burst", "64kb", "latency", "200ms")
    for name, port in zip(interfaces(interface), ports(host, interface), strict=True):
        sh("tc", "-n", namespace(host.lab.name, host.name), "qdisc", "replace", "dev", name, *shape)
        sh("tc", "-n", namespace(host.lab.name, "sw"), "qdisc", "replace", "dev", port, *shape)


@fault("unshape")
def unshape(host: Host, interface: str = "") -> None:
    """Full speed again."""
    for name, port in zip(interfaces(interface), ports(host, interface), strict=True):
        for space, device in ((host.name, name), ("sw", port)):
            sh("tc", "-n", namespace(host.lab.name, space), "qdisc", "del", "dev", device, "root", ok=(0, 2))
