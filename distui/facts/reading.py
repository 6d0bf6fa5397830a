"""The probe's answer, part by part, as HostFacts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from distui.facts import engine, infiniband, network, system
from distui.facts.frame import Answer
from distui.facts.gpus import amd, gpu
from distui.facts.gpus.gpu_list import parse_list
from distui.facts.host import Disk, Engine, GpuProcess, Gpus, HostFacts, IbPort, Nic, Trouble
from distui.facts.limits import slow_shell_words
from distui.facts.values import Reply, integer, known, tree
from distui.spec.hosts.inventory import Host

_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD"}
_PARTS_IN_WORDS = {
    "ip_addr": "`ip addr`",
    "name": "looking up the host's own name",
    "disk": "`df` (a dead network mount?)",
    "python": "`python3`",
    "nvidia_apps": "`nvidia-smi --query-compute-apps`",
}


def facts_from(
    host: Host, answer: Answer, *, sent_at: float, received_at: float, connect_ms: float | None
) -> HostFacts:
    """Everything the answer tells. Total: unreadable parts are unknown, and said in `warnings` where it matters."""
    values = tree(answer.text("system"))
    sys = tree(answer.text("sys_net"))
    ports = infiniband.ports_from_tree(sys)
    slack = 0.5 if answer.coarse else 0.0
    offset, trip = system.clock_offset(answer.began + slack, answer.ended - slack, sent_at, received_at, connect_ms)
    asked = received_at - sent_at - (answer.ended - answer.began)
    shell = system.login_shell_s(values.get("age"), asked + 2 * slack)
    gpus = read_gpus(answer)
    hostname = values.get("hostname") or host.name
    return HostFacts(
        host=host.name,
        hostname=hostname,
        kernel=values.get("kernel") or None,
        arch=values.get("arch") or None,
        os=system.os_name(values.get("os")) or values.get("system") or None,
        user=values.get("user") or None,
        uid=integer(values.get("uid")),
        home=values.get("home") or None,
        machine_id=known(values.get("machine_id")),
        boot_id=known(values.get("boot_id")),
        cpus=integer(values.get("cpus")),
        cpu_model=system.after_colon(values.get("cpu_model")),
        memory_total_mib=system.kib_line_as_mib(values.get("mem_total")),
        memory_available_mib=system.kib_line_as_mib(values.get("mem_available")),
        disks=read_disks(answer),
        clock_offset_ms=round(offset, 3),
        rtt_ms=round(trip, 3),
        connect_ms=connect_ms,
        shell_s=shell,
        python3=python_version(answer.part("python")),
        nics=read_nics(answer, sys, ports),
        ib=ports,
        gpu=gpus,
        engine=read_engine(host, answer, values),
        ports_in_use=system.listening_ports(answer.text("ports")),
        ephemeral_ports=system.port_range(values.get("port_range")),
        default_route_nic=default_nic(answer),
        name_is_loopback=system.name_is_loopback(hostname, answer.text("name"), answer.text("hosts")),
        rdma_devices={"yes": True, "no": False}.get(values.get("rdma", "")),
        memlock_kib=system.memlock_kib(values.get("memlock")),
        warnings=(*warnings(answer, values, gpus), *filter(None, [slow_shell_words(shell)])),
    )


def python_version(reply: Reply) -> str | None:
    """The version of python3 on the host, None when there is none or it does not run."""
    found = re.search(r"^python (\d+\.\d+\.\d+)", reply.text, re.MULTILINE)
    return found[1] if found and reply.ok else None


def read_nics(answer: Answer, sys: Mapping[str, str], ports: tuple[IbPort, ...]) -> tuple[Nic, ...]:
    """Interfaces from `ip`, or from /proc and /sys where it is missing or too old for JSON."""
    nics = network.parse_ip_addr(answer.text("ip_addr"), sys)
    if nics is None:
        nics = network.nics_from_sys(
            sys, answer.text("proc_route"), answer.text("proc_fib_trie"), answer.text("proc_if_inet6")
        )
    return infiniband.with_port_speed(network.with_way_out(nics, default_nic(answer)), ports)


def default_nic(answer: Answer) -> str | None:
    """The interface of the default route, IPv4 before IPv6."""
    return (
        network.default_nic(answer.text("ip_route"))
        or network.default_nic(answer.text("ip_route6"))
        or network.proc_default_nic(answer.text("proc_route"))
    )


def read_disks(answer: Answer) -> tuple[Disk, ...]:
    """The disks, with the container engine's own folder where its client or its daemon named it."""
    found = system.disks(answer.text("disk"))
    lines = engine_info(answer).text.rstrip().splitlines()
    root = next((line.partition("\t")[2] for line in lines if line.startswith("engine_root\t")), "")
    disk = system.df_line(root, lines[-1]) if root and lines else None
    if disk is None:
        return found
    return (*(d for d in found if d.path != disk.path), replace(disk, images=True))


def read_gpus(answer: Answer) -> Gpus:
    """GPUs of both vendors; NVIDIA's problem is reported before AMD's."""
    nvidia = gpu.nvidia(
        answer.part("nvidia_query"),
        listed=parse_list(answer.text("nvidia_list")),
        kernel=kernel_gpus(tree(answer.text("nvidia_kernel"))),
        processes=gpu_processes(answer.text("nvidia_apps")),
    )
    radeon = amd.amd(_asked(answer, "amd_static"), _asked(answer, "amd_monitor"), _asked(answer, "rocm"))
    return Gpus((*nvidia.gpus, *radeon.gpus), nvidia.problem or radeon.problem)


def _asked(answer: Answer, name: str) -> Reply:
    """The reply of a part the script leaves out when the tool is not there: then as if not found."""
    return answer.parts.get(name, Reply(status=127))


def kernel_gpus(values: Mapping[str, str]) -> tuple[gpu.KernelGpu, ...]:
    """GPUs as /proc/driver/nvidia/gpus lists them."""
    addresses = dict.fromkeys(p.split("/")[1] for p in values if re.fullmatch(r"gpu/[^/]+/(model|uuid)", p))
    return tuple(
        gpu.KernelGpu(a, known(values.get(f"gpu/{a}/model")), known(values.get(f"gpu/{a}/uuid"))) for a in addresses
    )


def gpu_processes(text: str) -> tuple[GpuProcess, ...]:
    """Processes on the GPUs, each with its container and user as far as /proc tells."""
    found = system.owners(tree(text))
    unknown = (None, None)
    return tuple(
        replace(p, container=found.get(p.pid, unknown)[0], user=found.get(p.pid, unknown)[1])
        for p in gpu.parse_apps(text)
    )


def read_engine(host: Host, answer: Answer, values: Mapping[str, str]) -> Engine:
    """The container engine of the host; kind `none` when the inventory says `process`."""
    if host.engine == "process":
        return Engine("none")
    path = tree(answer.text("engine_path"))
    version = answer.part("engine_version")
    info = engine_info(answer)
    sockets = tree(answer.text("engine_socket") or info.text)
    read = engine.read_engine(
        host.engine,
        resolved(host.engine_command, path),
        version,
        info,
        socket=sockets.get("socket"),
        nvidia_hook="nvidia_hook" in values,
    )
    if read.problem is not None and read.problem.code == "engine_missing":
        return replace(read, problem=_missing(host, path))
    return read


def engine_info(answer: Answer) -> Reply:
    """What the engine says of itself: by its client, or by its socket where the client asks the same daemon."""
    return answer.part("engine_api" if answer.text("engine_asked").strip() == "api" else "engine_info")


def resolved(command: tuple[str, ...], path: Mapping[str, str]) -> tuple[str, ...]:
    """The engine's command, with its full path where the login's own PATH does not find it."""
    place = path.get("path", "")
    if not command or "in_path" in path or not place.startswith("/"):
        return command
    return (place, *command[1:])


def _missing(host: Host, path: Mapping[str, str]) -> Trouble:
    message = f"{' '.join(host.engine_command)} is not installed"
    other = path.get("found")
    if other and other != host.engine:
        return Trouble("engine_missing", f"{message}, but {other} is", f"set `docker: {other}` for this host")
    return Trouble(
        "engine_missing", message, f"install {host.engine}, or set `docker: process` to run without containers"
    )


def warnings(answer: Answer, values: Mapping[str, str], gpus: Gpus) -> tuple[str, ...]:
    """What is odd about a host and not a problem of its own."""
    late = [name for name in _PARTS_IN_WORDS if _late(answer, name)]
    if gpus.problem is not None and "nvidia_apps" in late:
        late.remove("nvidia_apps")
    found = [f"{_PARTS_IN_WORDS[name]} did not answer in time" for name in late]
    if answer.coarse:
        found.append("the host tells its clock in whole seconds only: its offset is right to half a second")
    if tree(answer.text("engine_path")).get("path", "").startswith("/snap/"):
        found.append(
            "docker is a snap, which can't read hidden folders of the home: distui's files are in ~/.local/state, "
            "so containers don't start; install docker's own package"
        )
    for vendor, count in pci_gpus(values).items():
        if gpus.problem is None and not any(g.vendor == vendor.lower() for g in gpus.gpus):
            found.append(f"{count} {vendor} GPU on the PCI bus, but {vendor}'s driver tools are not installed")
    return tuple(found)


def _late(answer: Answer, name: str) -> bool:
    return name in answer.parts and answer.part(name).timed_out


def pci_gpus(values: Mapping[str, str]) -> dict[str, int]:
    """Vendor -> number of display or 3D controllers (PCI class 03) on the bus."""
    counts: dict[str, int] = {}
    for path, pci_class in values.items():
        vendor = _VENDORS.get(path.rpartition("/")[2])
        # AMD's integrated graphics are class 0300 too, so only its accelerators (0302, 0380) count.
        wanted = ("0x03",) if vendor == "NVIDIA" else ("0x0302", "0x0380")
        if path.startswith("pci/") and vendor and pci_class.startswith(wanted):
            counts[vendor] = counts.get(vendor, 0) + 1
    return counts
