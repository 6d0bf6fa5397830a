"""Checks that look at one host's facts alone. Pure; each gives an answer for any facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distui.amounts import counted, memory_words, size_words
from distui.doctor.finding import GRAVITY, Answer, Check, Verdict
from distui.facts.host import Address, Disk, HostFacts, IbPort, Trouble
from distui.facts.limits import CLOCK_BAD_MS, CLOCK_MS, HOT_C, WARM_C, is_clock_off
from distui.plan.network.fabric import left_out, offers, offers_of, plain
from distui.spec.hosts.inventory import DataNetwork

PORT = 29500
"""The rendezvous port people expect (torchrun's default); distui takes another when it is in use."""
PORT_FREE = "port"
"""The id of the check that it is free."""
DISK_LOW, DISK_FULL = 20 << 30, 2 << 30
"""Bytes: an image of 20 GB does not fit; logs and layers do not fit."""
OK = Answer("ok")

HostCheck = Callable[[HostFacts], Answer]


def _trouble(trouble: Trouble, means: str) -> Answer:
    return Answer("fail", trouble.message, means, trouble.hint)


def clock(facts: HostFacts) -> Answer:
    """The host's clock against ours."""
    offset = facts.clock_offset_ms
    if offset is None:
        return Answer("skip", "the offset is unknown")
    message = f"{offset:+.0f} ms" if abs(offset) < 10_000 else f"{offset / 1000:+.0f} s"
    if not is_clock_off(facts):
        return Answer("ok", message)
    return Answer(
        "fail" if abs(offset) > CLOCK_BAD_MS else "warn",
        message,
        "times of this host are corrected by the offset, but `who failed first` is less certain",
        "timedatectl set-ntp true, or chronyc makestep",
    )


def python3(facts: HostFacts) -> Answer:
    """python3 gives figures once a second and proves that hosts reach each other."""
    if facts.python3:
        return Answer("ok", f"python3 {facts.python3}")
    return Answer(
        "warn", "no python3", "no live figures, no proof that hosts reach each other, slower logs", "install python3"
    )


def engine(facts: HostFacts) -> Answer:
    """The engine answers this login."""
    found = facts.engine
    if found.problem is not None:
        return _trouble(found.problem, "nothing can be started here")
    if found.kind == "none":
        return Answer("ok", "no engine asked for")
    if found.apart:
        return Answer(
            "warn",
            f"docker is {found.apart}",
            "its `--network host` is a network of its own, without this host's interfaces: ranks can't meet on them",
            "take the system's docker, podman, or `docker: process` in hosts.yaml",
        )
    return Answer("ok", f"{found.kind} {found.server or found.client or ''}".strip())


def gpu_runtime(facts: HostFacts) -> Answer:
    """Containers get GPUs."""
    if not facts.gpu.gpus or facts.engine.kind != "docker" or facts.gpu.gpus[0].vendor != "nvidia":
        return OK
    if facts.engine.nvidia_runtime is False:
        return Answer(
            "fail",
            "docker has no nvidia runtime",
            "a container can't be given GPUs",
            "install nvidia-container-toolkit, then `nvidia-ctk runtime configure` and restart docker",
        )
    return OK


def gpus_answer(facts: HostFacts) -> Answer:
    """Driver and every GPU answer."""
    if facts.gpu.problem is not None:
        return _trouble(facts.gpu.problem, "no GPU of this host can be used")
    broken = [g for g in facts.gpu.gpus if g.problem is not None]
    if broken:
        first = broken[0].problem
        assert first is not None
        which = ", ".join(f"GPU {g.index}" for g in broken)
        return Answer("fail", f"{which}: {first.message}", "plans leave it out, or fail", first.hint)
    return Answer("ok", counted(len(facts.gpu.gpus), "GPU") if facts.gpu.gpus else "no GPU")


def gpus_cool(facts: HostFacts) -> Answer:
    """No GPU is near its slowdown."""
    warm = [(g.temperature_c, g.index) for g in facts.gpu.gpus if g.temperature_c is not None]
    if not warm:
        return OK
    most, index = max(warm)
    if most <= WARM_C:
        return Answer("ok", f"warmest {most:.0f} C")
    return Answer(
        "fail" if most > HOT_C else "warn",
        f"GPU {index} at {most:.0f} C",
        "it slows down soon, and every rank waits for the slowest",
        "look at fans, dust and the GPUs beside it",
    )


def data_address(facts: HostFacts, data: DataNetwork | None = None) -> Answer:
    """There is an address other hosts can reach; `data` is what hosts.yaml pins, of whatever kind that is."""
    pinned = (data.ifname or data.addr) if data is not None else None
    usable = _pinned(facts, data) if data is not None and pinned else [offer.address for offer in offers(facts)]
    if not usable:
        return Answer(
            "fail",
            f"{pinned}, pinned by hosts.yaml, is down or not there"
            if pinned
            else ", ".join(left_out(facts)) or "no interface that is up has an address",
            "ranks of other hosts can't reach this one",
            f"ip addr; {'correct' if pinned else 'or pin one with'} data: in hosts.yaml",
        )
    if facts.name_is_loopback:
        return Answer("ok", "the host's name is 127.0.1.1 there; distui pins the interface instead")
    return Answer("ok", f"{usable[0].ip} and {len(usable) - 1} more" if len(usable) > 1 else usable[0].ip)


def _pinned(facts: HostFacts, data: DataNetwork) -> list[Address]:
    """The addresses of what is pinned, found as the plan finds it."""
    if data.addr is not None:
        return [a for nic in facts.nics for a in nic.addresses if a.ip == plain(data.addr) and nic.up]
    exact = [nic for nic in facts.nics if nic.name == data.ifname]
    nics = exact or [nic for nic in facts.nics if nic.name.startswith(data.ifname or "")]
    return [offer.address for nic in nics if nic.up for offer in offers_of(facts, nic)]


def port_free(facts: HostFacts) -> Answer:
    """The usual rendezvous port."""
    if PORT in facts.ports_in_use:
        return Answer(
            "warn",
            f"port {PORT} is in use",
            "distui takes another port; a job that insists on this one fails",
            f"ss -ltnp 'sport = {PORT}' says who has it",
        )
    return OK


def infiniband(facts: HostFacts) -> Answer:
    """Every InfiniBand port carries traffic."""
    ports = [p for p in facts.ib if p.link_layer == "InfiniBand"]
    if not ports:
        return Answer("ok", "no InfiniBand")
    down = [p for p in ports if not p.active]
    if not down:
        return Answer("ok", f"{len(ports)} x {_rate(ports[0])}")
    named = [_name(p, ports) for p in down]
    names = ", ".join(f"{name} is {p.state or 'unreadable'}" for name, p in zip(named, down, strict=True))
    if len(down) == len(ports):
        return Answer("warn", names, "training goes over ethernet", "is a subnet manager running? see `ibstat`")
    hcas = ",".join(named)
    return Answer(
        "fail",
        names,
        f"NCCL would use {len(ports) - len(down)} of {len(ports)} rails, and every rank waits for the slowest",
        f"look at the cable of {named[0]}, or leave it out with data: {{hcas: '^{hcas}'}} in hosts.yaml",
    )


def _name(port: IbPort, ports: Sequence[IbPort]) -> str:
    """The port as `hcas` takes it: its device alone would leave out the device's other ports, too."""
    return f"{port.hca}:{port.port}" if sum(p.hca == port.hca for p in ports) > 1 else port.hca


def _rate(port: IbPort) -> str:
    return f"{port.rate_gbps:.0f} Gb/s" if port.rate_gbps else "unknown rate"


def rdma_limits(facts: HostFacts) -> Answer:
    """What RDMA needs of the system."""
    if not any(p.active for p in facts.ib):
        return OK
    if facts.rdma_devices is False:
        return Answer("fail", "no /dev/infiniband", "a container can't use RDMA", "load ib_uverbs: modprobe ib_uverbs")
    limit = facts.memlock_kib
    if limit is not None and 0 <= limit < 1 << 20 and facts.engine.kind == "none":
        return Answer(
            "warn",
            f"memlock is {limit} KiB",
            "registering memory for RDMA fails in a process (containers get their own limit)",
            "set `* - memlock unlimited` in /etc/security/limits.conf and log in again",
        )
    return OK


def disk(facts: HostFacts) -> Answer:
    """Room for an image where the engine keeps images, and for logs; other file systems only matter when they are full.

    Where the engine does not say what folder is its own, it may be any of the large ones.
    """
    known = any(d.images for d in facts.disks)
    judged = [(_fullness(d, images=_holds_images(d, known=known)), d) for d in facts.disks]
    if not judged:
        return Answer("skip", "unknown")
    verdict = max((v for v, _ in judged), key=GRAVITY.index)
    wanted = (d for v, d in judged if v == verdict and (_holds_images(d, known=known) or verdict != "ok"))
    least = min(wanted, key=lambda d: d.free, default=judged[0][1])
    message = f"{size_words(least.free)} free on {least.path}"
    if verdict == "ok":
        return Answer("ok", message)
    kind = facts.engine.kind
    images = f"{kind} system df; " if kind != "none" and facts.engine.problem is None else ""
    what = "an image, a checkpoint or logs" if images else "a checkpoint or logs"
    return Answer(
        verdict, message, f"{what} may not fit", f"{images}du -xh --max-depth=2 {least.path} | sort -h | tail"
    )


def _holds_images(found: Disk, *, known: bool) -> bool:
    return found.images if known else found.path == "/" or found.path.startswith(("/var", "/home", "/data"))


def _fullness(found: Disk, *, images: bool) -> Verdict:
    if images:
        return "ok" if found.free >= DISK_LOW else "warn" if found.free >= DISK_FULL else "fail"
    return "ok" if found.free >= found.total / 20 else "warn"


def memory(facts: HostFacts) -> Answer:
    """Memory that is not in use."""
    total, free = facts.memory_total_mib, facts.memory_available_mib
    if not total or free is None:
        return Answer("skip", "unknown")
    message = f"{memory_words(free)} of {memory_words(total)} free"
    if free >= total / 10:
        return Answer("ok", message)
    return Answer("warn", message, "the kernel may kill ranks for lack of memory", "ps aux --sort=-rss | head")


HOST_CHECKS: tuple[tuple[Check, HostCheck], ...] = (
    (Check("clock", "Reach", f"clock within {CLOCK_MS:.0f} ms", "date there, between two dates here"), clock),
    (Check("python3", "Reach", "python3 for figures and proofs", "python3 --version"), python3),
    (Check("engine", "Software", "container engine answers, without sudo", "docker version; docker info"), engine),
    (Check("gpu_runtime", "Software", "containers get GPUs", "docker info: its runtimes"), gpu_runtime),
    (Check("gpus", "GPUs", "driver and every GPU answer", "nvidia-smi --query-gpu=..."), gpus_answer),
    (Check("gpu_heat", "GPUs", f"no GPU above {WARM_C:.0f} C", "nvidia-smi --query-gpu=temperature.gpu"), gpus_cool),
    (
        Check("address", "Network", "an address that others reach", "ip -j addr; ip -j route"),
        data_address,
    ),
    (Check(PORT_FREE, "Network", f"rendezvous port {PORT} is free", "ss -ltn"), port_free),
    (
        Check(
            "infiniband",
            "Network",
            "InfiniBand ports ACTIVE",
            "/sys/class/infiniband/*/ports/*/state",
        ),
        infiniband,
    ),
    (Check("rdma", "Limits", "memlock and /dev/infiniband", "ulimit -l; ls /dev/infiniband"), rdma_limits),
    (Check("disk", "Limits", "disk for image and logs", "df -kP"), disk),
    (Check("memory", "Limits", "memory not in use", "/proc/meminfo"), memory),
)
"""In the order they are shown in; checks over several hosts are put beside theirs by group."""
