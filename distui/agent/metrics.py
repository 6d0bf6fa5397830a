# ruff: noqa: PTH123, PTH207, UP037, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""What a host is doing, once a second, from the kernel's own counters (NVIDIA GPUs: see `gpus`)."""

import glob
import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional


def read(path: str) -> str:
    """A small file as text, empty when it can't be read."""
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def measure(disks: "dict[str, list[int]]") -> "dict[str, Any]":
    """CPU, memory, network, InfiniBand and AMD GPUs, as the kernel's own counters, beside what is known of disks."""
    cpu = [int(n) for n in read("/proc/stat").partition("\n")[0].split()[1:9]]
    memory = dict(line.split(":", 1) for line in read("/proc/meminfo").splitlines() if ":" in line)
    return {
        "wall": time.time(),
        "boot": boot_clock(),
        "cpu": [sum(cpu) - sum(cpu[3:5]), sum(cpu)],
        "load": read("/proc/loadavg").split(" ")[0],
        "memory": [memory.get(name, "").strip().split(" ")[0] for name in ("MemTotal", "MemAvailable")],
        "net": measure_net(),
        "errors": measure_errors(),
        "ib": {path.split("/")[4] + ":" + path.split("/")[6]: measure_ib(path) for path in glob.glob(IB_PORTS)},
        "amd": [measure_amd(path) for path in sorted(glob.glob(AMD_CARDS), key=card_number)],
        "disks": disks,
    }


def measure_lower() -> "dict[str, list[str]]":
    """Interface -> those that carry its traffic, which is counted at both: of a bond, a VLAN, a bridge."""
    found = {}  # type: dict[str, list[str]]
    for path in sorted(glob.glob(LOWER))[:MOST_LOWER]:
        name, lower = path.split("/")[4:6]
        found.setdefault(name, []).append(lower[len("lower_") :])
    return found


LOWER, MOST_LOWER = "/sys/class/net/*/lower_*", 1024
IB_PORTS = "/sys/class/infiniband/*/ports/*"
IB_ERRORS = ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_discards")
AMD_CARDS = "/sys/class/drm/card*/device/gpu_busy_percent"


def boot_id() -> str:
    """Another one after each boot; "" when it can't be read."""
    return read("/proc/sys/kernel/random/boot_id").strip()


def boot_clock() -> float:
    """Seconds since the boot; unlike the wall clock nobody sets it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def measure_net() -> "dict[str, list[int]]":
    """Interface -> bytes received and sent."""
    rows = [line.split(":", 1) for line in read("/proc/net/dev").splitlines()[2:]]
    return {name.strip(): [int(rest.split()[0]), int(rest.split()[8])] for name, rest in rows}


def measure_ib(port: str) -> "list[str]":
    """What a port received and sent, in the counters' own unit of four bytes."""
    return [read(port + "/counters/port_" + name + "_data").strip() for name in ("rcv", "xmit")]


def measure_errors() -> "dict[str, int]":
    """Interface or `hca:port` -> errors received and sent since the boot."""
    rows = [line.split(":", 1) for line in read("/proc/net/dev").splitlines()[2:]]
    found = {name.strip(): int(rest.split()[2]) + int(rest.split()[10]) for name, rest in rows}
    for port in glob.glob(IB_PORTS):
        texts = [read(port + "/counters/" + name).strip() for name in IB_ERRORS]
        found[port.split("/")[4] + ":" + port.split("/")[6]] = sum(int(text) for text in texts if text.isdigit())
    return found


def measure_amd(busy: str) -> "list[str]":
    """Load in percent, memory used and in all in bytes, temperature in m°C and power in µW of one AMD GPU."""
    device = busy[: -len("gpu_busy_percent")]
    names = ["gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "hwmon/*/temp1_input"]
    found = [glob.glob(device + name) for name in [*names, "hwmon/*/power1_average"]]
    return [read(paths[0]).strip() if paths else "" for paths in found]


def card_number(path: str) -> int:
    """The number in `/sys/class/drm/card9/...`: 9 comes before 17, as in the lists of amd-smi and rocm-smi."""
    digits = path.split("/")[4][len("card") :]
    return int(digits) if digits.isdigit() else 0


class Disks:
    """How full these folders' disks are, asked aside: a file server that hangs (NFS) holds up no log and no exit."""

    def __init__(self, paths: "list[str]") -> None:
        self.paths = paths
        self.found: "dict[str, list[int]]" = {}
        self.asking: "Optional[threading.Thread]" = None

    def measure(self) -> "dict[str, list[int]]":
        """What is found soon, else what was found a second ago; nothing while one of them hangs."""
        if self.asking is not None and self.asking.is_alive():
            return {}
        self.asking = threading.Thread(target=self.ask, daemon=True)
        try:
            self.asking.start()
        except RuntimeError:  # no further thread may be started here
            return {}
        self.asking.join(SOON)
        return self.found

    def ask(self) -> None:
        """All of them, one after the other."""
        self.found = {path: measure_disk(path) for path in self.paths}


SOON = 0.02
"""Seconds; a disk answers in microseconds, a file server far away may take longer."""


def measure_disk(path: str) -> "list[int]":
    """Bytes free to users and bytes in all; empty when unknown."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return []
    return [stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize]
