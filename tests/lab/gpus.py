"""The GPUs and the InfiniBand port that a lab host says it has.

The values are made up in the shape of real `nvidia-smi` and sysfs output; nothing in the lab computes on a GPU.
"""

from __future__ import annotations

from pathlib import Path

MODEL = "NVIDIA H100 80GB HBM3"
MEMORY = 81559
HOST_GPUS = 2
APP_FIELDS = "gpu_uuid,gpu_name,gpu_bus_id,gpu_serial,pid,process_name,used_gpu_memory"


def uuid(host: int, gpu: int) -> str:
    """GPU UUIDs are unique in the cluster: host and GPU number are in it."""
    return f"GPU-{host:08x}-77ab-4c1d-8e5f-{gpu:012x}"


def bus_id(gpu: int) -> str:
    return f"00000000:{0x19 + 0x11 * gpu:02X}:00.0"


def row(host: int, gpu: int, used: int = 0, busy: int = 0) -> dict[str, object]:
    """What one GPU answers, by nvidia-smi's field names, in the units that it prints."""
    return {
        "index": gpu,
        "name": MODEL,
        "uuid": uuid(host, gpu),
        "serial": f"165{host:04d}{gpu:06d}",
        "pci.bus_id": bus_id(gpu),
        "pci.domain": "0x0000",
        "pci.bus": f"0x{0x19 + 0x11 * gpu:02X}",
        "pci.device": "0x00",
        "count": HOST_GPUS,
        "driver_version": "590.48.01",
        "vbios_version": "96.00.74.00.01",
        "compute_cap": "9.0",
        "compute_mode": "Default",
        "persistence_mode": "Enabled",
        "pstate": "P0",
        "mig.mode.current": "Disabled",
        "mig.mode.pending": "Disabled",
        "ecc.mode.current": "Enabled",
        "ecc.errors.corrected.volatile.total": 0,
        "ecc.errors.uncorrected.volatile.total": 0,
        "gpu_recovery_action": "None",
        "memory.total": MEMORY,
        "memory.reserved": 551,
        "memory.used": used,
        "memory.free": MEMORY - 551 - used,
        "utilization.gpu": busy,
        "utilization.memory": busy // 9,
        "temperature.gpu": 41 + busy // 5,
        "temperature.gpu.tlimit": 46 - busy // 5,
        "temperature.memory": 44 + busy // 5,
        "dmon.rxpci": 12 * busy,
        "dmon.txpci": 4 * busy,
        "fan.speed": "[N/A]",
        "power.draw": f"{69.85 + busy * 5.6:.2f}",
        "power.limit": "700.00",
        "enforced.power.limit": "700.00",
        "clocks.sm": 1980 if busy else 345,
        "clocks.mem": 2619,
        "clocks.current.sm": 1980 if busy else 345,
        "clocks.current.memory": 2619,
        "clocks.max.sm": 1980,
        "clocks.max.mem": 2619,
        "clocks_event_reasons.active": "0x0000000000000000",
        "clocks_throttle_reasons.active": "0x0000000000000000",
        "pcie.link.gen.current": 5,
        "pcie.link.gen.max": 5,
        "pcie.link.width.current": 16,
        "pcie.link.width.max": 16,
    }


def write_gpus(
    etc: Path,
    host: int,
    count: int = HOST_GPUS,
    used: dict[int, int] | None = None,
    changes: dict[int, dict[str, object]] | None = None,
) -> None:
    """Write /etc/lab of a host: `count` GPUs, those in `used` with that many MiB taken by a stranger's process.

    `changes` are fields of single GPUs that answer something else.
    """
    used, changes = used or {}, changes or {}
    rows = [row(host, gpu, used.get(gpu, 0), 97 if gpu in used else 0) | {"count": count} for gpu in range(count)]
    rows = [values | changes.get(gpu, {}) for gpu, values in enumerate(rows)]
    lines = [",".join(row(host, 0))] + [",".join(str(value) for value in each.values()) for each in rows]
    apps = [
        f"{uuid(host, gpu)},{MODEL},{bus_id(gpu)},165{host:04d}{gpu:06d},{4242 + gpu},/opt/other/train.py,{mib}"
        for gpu, mib in used.items()
    ]
    etc.mkdir(parents=True, exist_ok=True)
    (etc / "gpus.csv").write_text("\n".join(lines) + "\n")
    (etc / "gpu-apps.csv").write_text("\n".join([APP_FIELDS, *apps]) + "\n")
    (etc / "gpu-state").write_text("ok\n")
    (etc / "gpu-topo.txt").write_text(topology(count))


def topology(count: int) -> str:
    """`nvidia-smi topo -m` for GPUs joined by NVLink and one NIC; tab-separated like the real one."""
    names = [f"GPU{gpu}" for gpu in range(count)] + ["NIC0"]
    rows = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name in names:
        cells = [" X " if name == other else "PIX" if "NIC0" in (name, other) else "NV18" for other in names]
        tail = ["", "", ""] if name == "NIC0" else ["0-1", "0", "N/A"]
        rows.append("\t".join([name, *cells, *tail]))
    legend = "\n\nNIC Legend:\n\n  NIC0: mlx5_0\n" if count else ""
    return "\n".join(rows) + legend


SLOWDOWN = 87
"""Degrees at which the lab's GPUs slow down."""


def heat(celsius: int) -> dict[str, object]:
    """What a GPU answers at this temperature: from SLOWDOWN on its clock is held down."""
    slowed = celsius >= SLOWDOWN
    return {
        "temperature.gpu": celsius,
        "temperature.gpu.tlimit": SLOWDOWN - celsius,
        "clocks.sm": 1320 if slowed else 1980,
        "clocks_event_reasons.active": "0x0000000000000020" if slowed else "0x0000000000000000",
        "clocks_throttle_reasons.active": "0x0000000000000020" if slowed else "0x0000000000000000",
    }


def write_infiniband(folder: Path, host: int) -> None:
    """Fill what becomes /sys/class/infiniband: one active HDR port whose network interface is ib0."""
    device, port = folder / "mlx5_0", folder / "mlx5_0/ports/1"
    for made in (port / "gids", port / "gid_attrs/ndevs", port / "gid_attrs/types", port / "counters"):
        made.mkdir(parents=True, exist_ok=True)
    for name in ("device/net/ib0", "device/infiniband/mlx5_0"):
        (device / name).mkdir(parents=True, exist_ok=True)
    for path, text in device_files(host).items():
        (device / path).write_text(text + "\n")
    write_port_state(folder, active=True)
    for counter in ("port_xmit_data", "port_rcv_data"):  # hostinit.sh has them count what ib0 does
        (port / "counters" / counter).write_text("0\n")


def device_files(host: int) -> dict[str, str]:
    guid = f"b83f:d203:00{host:02x}:7700"
    return {
        "hca_type": "MT4123",
        "fw_ver": "20.41.1000",
        "board_id": "MT_0000000222",
        "node_type": "1: CA",
        "node_guid": guid,
        "sys_image_guid": guid,
        "node_desc": f"h{host} mlx5_0",
        "device/numa_node": "0",
        "device/vendor": "0x15b3",
        "ports/1/link_layer": "InfiniBand",
        "ports/1/lid": f"0x{host:x}",
        "ports/1/sm_lid": "0x1",
        "ports/1/gids/0": f"fe80:0000:0000:0000:{guid}",
        "ports/1/gid_attrs/ndevs/0": "ib0",
        "ports/1/gid_attrs/types/0": "IB/RoCE v1",
    }


def write_port_state(folder: Path, active: bool) -> None:
    """Set the port ACTIVE at 200 Gb/s, or DOWN as with the cable out."""
    port = folder / "mlx5_0/ports/1"
    (port / "state").write_text("4: ACTIVE\n" if active else "1: DOWN\n")
    (port / "phys_state").write_text("5: LinkUp\n" if active else "2: Polling\n")
    (port / "rate").write_text("200 Gb/sec (4X HDR)\n" if active else "10 Gb/sec (4X SDR)\n")
