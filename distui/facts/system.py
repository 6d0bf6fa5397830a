"""What the probe says about the machine itself: clock, memory, disks, ports, names, owners of processes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from distui.facts.host import Disk
from distui.facts.values import integer
from distui.regex import regex
from distui.whole import whole

_CONTAINER = regex(r"(?:docker|libpod|cri-containerd|crio|containers?|pod|/)[-/:]?([0-9a-f]{64})(?:\.scope)?(?=/|$)")
_SLOW_LOGIN = 2.0  # seconds between the stamps that no network or busy machine explains
_DEFAULT_PORTS = (32768, 60999)

ROUND_TRIPS = 6
"""Of a connection that is made; asyncssh with one key took 6.2 to 6.5 without TCP's own."""


def clock_offset(
    began: float, ended: float, sent_at: float, received_at: float, connect_ms: float | None
) -> tuple[float, float]:
    """(host's clock minus ours, round trip), both in ms, from the four time stamps of one question.

    As in NTP the true offset lies between `ended - received_at` and `began - sent_at`. Of what lies between,
    the smallest difference is taken: a busy network or machine then never looks like a wrong clock. Where the
    two are seconds apart, a slow login shell has eaten them on the way there, and the way back counts.
    The round trip is at most a sixth of what connecting took: the banners, the two steps of the key exchange, and the
    four of a login by key (the service, which methods there are, the key, its signature) take one each but the first.
    """
    least, most = ended - received_at, began - sent_at
    width = max(0.0, most - least)
    trip = width if connect_ms is None else min(width, connect_ms / 1000 / ROUND_TRIPS)
    if width > _SLOW_LOGIN:
        most = least + trip
    offset = (least + most) / 2 if most < least else min(max(0.0, least), most)
    return offset * 1000, trip * 1000


def login_shell_s(age: str | None, asked: float) -> float | None:
    """Seconds that the login shell took to begin with the probe: since when its process is there (`probe.sh`), which no
    answer that comes late changes. At most what was `asked` for beyond the probe itself, from when that was sent on: a
    shell may have waited for it. None when the host does not tell.
    """
    up, _, start = (age or "").partition(" ")
    now, began = whole(up.replace(".", "", 1)), whole(start)
    return min(max(0, now - began) / 100, max(0.0, asked)) if now is not None and began is not None else None


def kib_line_as_mib(line: str | None) -> int | None:
    """MiB of a line of /proc/meminfo (`MemTotal:  24684100 kB`)."""
    size = integer((line or "").partition(":")[2].strip())
    return size // 1024 if size is not None else None


def after_colon(line: str | None) -> str | None:
    """The value of a `key : value` line, None when empty."""
    return (line or "").partition(":")[2].strip() or None


def os_name(line: str | None) -> str | None:
    """The name in os-release's `PRETTY_NAME="..."` line."""
    return (line or "").partition("=")[2].strip().strip("\"'") or None


def memlock_kib(text: str | None) -> int | None:
    """KiB of `ulimit -l`; -1 for unlimited."""
    return -1 if (text or "").strip() == "unlimited" else integer(text)


def port_range(text: str | None) -> tuple[int, int]:
    """The ephemeral ports of /proc/sys/net/ipv4/ip_local_port_range; the kernel's default when unreadable."""
    found = re.fullmatch(r"(\d{1,5})\s+(\d{1,5})", (text or "").strip(), re.ASCII)
    return (int(found[1]), int(found[2])) if found else _DEFAULT_PORTS


def listening_ports(text: str) -> frozenset[int]:
    """TCP ports of `ss -ltn` or of the listening lines of /proc/net/tcp and tcp6."""
    found = (_ss_port(line) or _proc_port(line) for line in text.splitlines())
    return frozenset(port for port in found if port)


def _ss_port(line: str) -> int | None:
    cells = line.split()
    if len(cells) < 4 or cells[0] != "LISTEN":
        return None
    return _port(cells[3].rpartition(":")[2], 10)


def _proc_port(line: str) -> int | None:
    cells = line.split()
    if len(cells) < 4 or cells[3] != "0A":
        return None
    return _port(cells[1].rpartition(":")[2], 16)


def _port(word: str, base: int) -> int | None:
    if not re.fullmatch(r"[0-9A-Fa-f]{1,5}" if base == 16 else r"[0-9]{1,5}", word):
        return None
    value = int(word, base)
    return value if 0 < value < 65536 else None


def disks(text: str) -> tuple[Disk, ...]:
    """`path P` lines, each followed by df -kP's line for it; paths that do not exist are left out.

    `and P` lines after the first are for one df of all those paths, whose lines come in the same order; `again` says
    that this df failed, and that one for each follows.
    """
    found: dict[str, Disk] = {}
    paths: list[str] = []
    for line in text.splitlines():
        if line.startswith("path "):
            paths = [line[5:].strip()]
        elif line.startswith("and "):
            paths.append(line[4:].strip())
        elif line == "again":
            found, paths = {}, []
        elif paths and (disk := df_line(paths[0], line)):
            found.setdefault(paths.pop(0), disk)
    return tuple(found.values())


def df_line(path: str, line: str) -> Disk | None:
    """Space at `path` from a line of `df -kP` (source, 1K blocks, used, free, percent, mount point)."""
    match = re.match(r"\S.*?\s(\d{1,18})\s+(?:-|-?\d{1,18})\s+(-?\d{1,18})\s+\S+\s+/", line, re.ASCII)
    return Disk(path, max(0, int(match[2])) * 1024, int(match[1]) * 1024) if match else None


def name_is_loopback(name: str, getent: str, hosts: str) -> bool:
    """Whether a host's own name leads to 127/8 or ::1 there: the first answer of getent, else of /etc/hosts."""
    own = [line.split()[0] for line in getent.splitlines() if line.split()]
    if not own:
        own = [c[0] for line in hosts.splitlines() if name in (c := line.partition("#")[0].split())[1:]]
    return bool(own) and _is_loopback(own[0])


def _is_loopback(ip: str) -> bool:
    try:
        return ipaddress.ip_address(ip.partition("%")[0]).is_loopback
    except ValueError:
        return False


def container_of(cgroup: str) -> str | None:
    """The container id in a line of /proc/PID/cgroup (cgroup v1 and v2, cgroupfs and systemd, Docker and Podman)."""
    found = _CONTAINER.findall(cgroup)
    return str(found[-1]) if found else None


def owners(values: Mapping[str, str]) -> dict[int, tuple[str | None, str | None]]:
    """pid -> (container, user) from `pid/N/user` and `pid/N/cgroup` lines."""
    found: dict[int, tuple[str | None, str | None]] = {}
    for path, value in values.items():
        match = re.fullmatch(r"pid/(\d{1,9})/(user|cgroup)(?:/\d+)?", path, re.ASCII)
        if not match:
            continue
        container, user = found.get(int(match[1]), (None, None))
        if match[2] == "user":
            user = value if value and value != "UNKNOWN" else None
        else:
            container = container or container_of(value)
        found[int(match[1])] = container, user
    return found
