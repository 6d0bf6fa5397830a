"""Facts of one host: what a probe found, every unknown as None and never as 0."""

from __future__ import annotations

import re
from typing import Literal

from distui.frozen import frozen


@frozen
class Trouble:
    """Something a host can't give, in a stable code, a sentence and what to do about it."""

    code: str
    message: str
    hint: str = ""

    def words(self, host: str) -> str:
        """The sentence for a row that begins with the host's name: `10.0.0.7 refuses connections`."""
        said = self.message.removeprefix(f"{host}: ").removeprefix(f"{host} ")
        return re.sub(r"^\((\S+)\) ", r"\1 ", said)


@frozen
class Address:
    """One address of an interface. `scope` is iproute2's word, corrected: fe80::/10 is always `link`."""

    ip: str
    prefix: int
    scope: str = "global"

    @property
    def family(self) -> Literal[4, 6]:
        """4 or 6."""
        return 6 if ":" in self.ip else 4


NicKind = Literal["ethernet", "infiniband", "loopback", "container", "tunnel", "other"]
"""`container` covers docker*, br-*, veth*, virbr*, cni*; `tunnel` covers tailscale, wireguard, tun/tap."""


@frozen
class Nic:
    """One network interface. Only `ethernet` and `infiniband` ones carry training data unless asked."""

    name: str
    kind: NicKind
    up: bool
    mtu: int | None = None
    mac: str | None = None
    speed_mbps: int | None = None
    addresses: tuple[Address, ...] = ()
    rx_bytes: int | None = None
    tx_bytes: int | None = None
    over: tuple[str, ...] = ()
    """Interfaces it runs over: a VLAN's own, the members of a bond."""


@frozen
class IbPort:
    """One port of an RDMA device. RoCE ports have link layer `Ethernet` and are not InfiniBand."""

    hca: str
    port: int
    state: str | None
    """`ACTIVE`, `INIT`, `DOWN` ...; None when unreadable."""
    link_layer: str | None
    rate_gbps: float | None
    netdev: str | None = None

    @property
    def active(self) -> bool:
        """Whether the port carries traffic now."""
        return self.state == "ACTIVE"


@frozen
class GpuProcess:
    """A process that holds memory of a GPU. `container` is the id of the container it lives in, if any."""

    pid: int
    name: str
    memory_mib: int | None
    gpu_uuid: str = ""
    container: str | None = None
    user: str | None = None


@frozen
class MigDevice:
    """One MIG slice of a GPU: its number on that GPU, profile (`3g.40gb`) and UUID, which `--gpus` takes."""

    index: int
    profile: str
    uuid: str


@frozen
class Gpu:
    """One physical GPU. `problem` says why it can't be used (`GPU is lost`); healthy ones have None."""

    index: int
    uuid: str
    name: str
    vendor: Literal["nvidia", "amd"] = "nvidia"
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    utilization_pct: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    driver: str | None = None
    mig: bool | None = None
    pci: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    problem: Trouble | None = None
    mig_devices: tuple[MigDevice, ...] = ()


@frozen
class Gpus:
    """All GPUs of a host. `problem` is set when the driver as a whole does not answer; no GPUs is no problem."""

    gpus: tuple[Gpu, ...] = ()
    problem: Trouble | None = None


@frozen
class Engine:
    """The container engine of a host. `problem` codes are those of `engine.classify`."""

    kind: Literal["docker", "podman", "none"]
    command: tuple[str, ...] = ()
    client: str | None = None
    server: str | None = None
    nvidia_runtime: bool | None = None
    socket: str | None = None
    """Path of the API's unix socket when this login can open it."""
    live_restore: bool | None = None
    problem: Trouble | None = None
    apart: str = ""
    """Why `--network host` is not this host's network: `rootless`, `Docker Desktop`; empty where it is."""
    selinux: bool = False
    """Whether it labels containers by SELinux, which then keeps them from folders of the host, and from GPUs."""


@frozen
class Disk:
    """Space of the file system that holds `path`, in bytes."""

    path: str
    free: int
    total: int
    images: bool = False
    """Whether it is the container engine's own folder, as its client names it."""


@frozen
class HostFacts:
    """Everything one probe found on one host that answered."""

    host: str
    hostname: str
    kernel: str | None = None
    arch: str | None = None
    os: str | None = None
    user: str | None = None
    uid: int | None = None
    home: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    cpus: int | None = None
    cpu_model: str | None = None
    memory_total_mib: int | None = None
    memory_available_mib: int | None = None
    disks: tuple[Disk, ...] = ()
    clock_offset_ms: float | None = None
    """The host's clock minus ours: the smallest difference the time stamps of one question allow (error below
    what the question took there and back), so that a busy host or network never looks like a wrong clock."""
    rtt_ms: float | None = None
    """Upper estimate of the round trip to the host and back."""
    connect_ms: float | None = None
    shell_s: float | None = None
    """Seconds that the login shell took to begin, which every command on the host waits for."""
    python3: str | None = None
    """Version of python3 on the host, None when there is none."""
    nics: tuple[Nic, ...] = ()
    ib: tuple[IbPort, ...] = ()
    gpu: Gpus = Gpus()
    engine: Engine = Engine("none")
    ports_in_use: frozenset[int] = frozenset()
    """TCP ports somebody listens on, on any address."""
    ephemeral_ports: tuple[int, int] = (32768, 60999)
    default_route_nic: str | None = None
    name_is_loopback: bool = False
    """Whether the host's own name resolves to 127/8 there (Debian's 127.0.1.1), which breaks gloo."""
    rdma_devices: bool | None = None
    """Whether /dev/infiniband exists, which a container needs for InfiniBand; None when unknown."""
    memlock_kib: int | None = None
    """Locked-memory limit of the login in KiB; -1 when unlimited."""
    warnings: tuple[str, ...] = ()


@frozen
class HostDown:
    """A host whose probe failed: it keeps its row, with the reason in words and a hint."""

    host: str
    error: Trouble


ProbeResult = HostFacts | HostDown
