"""The lab's wires: a switch namespace with two bridges, a login node, and two cables per host.

Nothing is created in the machine's own network namespace, so no packet of the lab can leave the machine.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.paths import LAB_DIR, NETNS
from lab.shell import sh

ETH, IB = "10.77.0", "10.78.0"
IB_MTU = 4092
NETS = (("eth", "eth0", ETH, 1500), ("ib", "ib0", IB, IB_MTU))


def namespace(name: str, host: str) -> str:
    """Name under /run/netns of a host's network namespace; `sw` is the switch and `ctl` the login node."""
    return f"{name}-{host}"


def address(net: str, index: int) -> str:
    """Address of host number `index` (1 is h1) on a subnet; 0 is the login node."""
    return f"{net}.{10 + index if index else 1}"


def hardware_address(net: str, index: int) -> str:
    """A card keeps its MAC across reboots, or the neighbours' ARP caches would send to the old one."""
    return f"02:77:00:00:{'02' if net == 'ib' else '01'}:{index:02x}"


@contextmanager
def netns_folder_held() -> Iterator[None]:
    """Only one process at a time makes or removes /run/netns: the first `ip netns add` of a machine makes and mounts
    it, the end of the last lab removes it."""
    LAB_DIR.mkdir(parents=True, exist_ok=True)
    with (LAB_DIR / "netns.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def add_space(space: str) -> None:
    """A new, empty network namespace under /run/netns."""
    with netns_folder_held():
        sh("ip", "netns", "add", space)


def remove_netns_folder() -> None:
    """After the last lab: unmount and remove /run/netns, unless there is a namespace in it."""
    with netns_folder_held():
        if not NETNS.is_dir() or any(NETNS.iterdir()):
            return
        sh("umount", str(NETNS), ok=(0, 32))
        with suppress(OSError):  # who uses namespaces beside the lab may have made one just now
            NETNS.rmdir()


def ip_batch(space: str, *commands: str) -> None:
    """Run several `ip` commands inside one namespace, in one process."""
    sh("ip", "-n", space, "-batch", "-", stdin="\n".join(commands) + "\n")


def build_switch(name: str) -> None:
    """The switch with its two bridges, and the login node with an address on each."""
    switch = namespace(name, "sw")
    add_space(switch)
    bridges = []
    for net, _, _, mtu in NETS:
        bridges += [f"link add br-{net} mtu {mtu} type bridge stp_state 0 mcast_snooping 0", f"link set br-{net} up"]
    ip_batch(switch, *bridges)
    add_host(name, "ctl", 0)


def add_host(name: str, host: str, index: int) -> None:
    """A network namespace with lo, eth0 and ib0, both plugged into the switch."""
    space, switch = namespace(name, host), namespace(name, "sw")
    add_space(space)
    cables, inside = [], ["link set lo up"]
    for net, interface, subnet, mtu in NETS:
        port = switch_port(host, net)
        cables += [
            f"link add {port} mtu {mtu} type veth peer name {interface} "
            f"address {hardware_address(net, index)} mtu {mtu} netns {space}",
            f"link set {port} master br-{net} up",
        ]
        inside += [f"addr add {address(subnet, index)}/24 brd + dev {interface}", f"link set {interface} up"]
    ip_batch(switch, *cables)
    ip_batch(space, *inside)


def remove_host(name: str, host: str) -> None:
    """Pull a host's cables out and delete its namespace."""
    # By hand: the kernel would take them away with the namespace, but some time later.
    ip_batch(namespace(name, "sw"), *(f"link del {switch_port(host, net)}" for net, _, _, _ in NETS))
    sh("ip", "netns", "del", namespace(name, host))


def switch_port(host: str, net: str) -> str:
    """The switch's end of a host's cable: `h1-eth`, `h1-ib`."""
    return f"{host}-{net}"


def net_of(interface: str) -> str:
    """`eth0` -> `eth`, `ib0` -> `ib`; ValueError for another name."""
    for net, name, _, _ in NETS:
        if name == interface:
            return net
    raise ValueError(f"{interface}: a lab host has eth0 and ib0")


def spaces_of(name: str) -> list[str]:
    """The network namespaces of a lab that exist now."""
    if not NETNS.is_dir():
        return []
    return sorted(path.name for path in NETNS.iterdir() if is_space_of(name, path.name))


def is_space_of(name: str, space: str) -> bool:
    lab, _, host = space.rpartition("-")
    return lab == name and (host in ("sw", "ctl") or (host[:1] == "h" and host[1:].isdigit()))
