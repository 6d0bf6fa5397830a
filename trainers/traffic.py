"""Which network interfaces of this host carried how many bytes, by the kernel's counters. Linux only.

Needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_WORD = 4
"""Bytes that InfiniBand's data counters count in."""


class Bytes(NamedTuple):
    """Bytes since the host started, or between two looks."""

    sent: int
    received: int


def counters(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> dict[str, Bytes]:
    """The counters now, by interface, and by `device:port` for RDMA, which the interfaces don't see; may be none."""
    return _interfaces(proc / "net/dev") | _rdma_ports(sys / "class/infiniband")


def between(before: Mapping[str, Bytes], after: Mapping[str, Bytes]) -> dict[str, Bytes]:
    """What each interface carried, those with the most first; without those that carried nothing."""
    carried = {
        name: Bytes(now.sent - before[name].sent, now.received - before[name].received)
        for name, now in after.items()
        if name in before
    }
    busy = {name: number for name, number in carried.items() if sum(number) > 0}
    return dict(sorted(busy.items(), key=lambda item: -sum(item[1])))


def text(carried: Mapping[str, Bytes]) -> str:
    """For people, in MB (10^6 bytes)."""
    parts = (f"{name} {n.sent / 1e6:,.1f} MB out {n.received / 1e6:,.1f} MB in" for name, n in carried.items())
    return ", ".join(parts) or "nothing that can be seen here"


def _interfaces(table: Path) -> dict[str, Bytes]:
    """/proc/net/dev: two lines of head, then `name: received ... (8 columns) sent ...`."""
    try:
        lines = table.read_text("ascii").splitlines()[2:]
    except OSError:
        return {}
    found = ((name.strip(), columns.split()) for name, _, columns in (line.rpartition(":") for line in lines))
    return {name: Bytes(int(columns[8]), int(columns[0])) for name, columns in found}


def _rdma_ports(folder: Path) -> dict[str, Bytes]:
    found = {}
    for port in sorted(folder.glob("*/ports/*")):
        try:
            sent, received = (int((port / f"counters/port_{way}_data").read_text()) for way in ("xmit", "rcv"))
        except (OSError, ValueError):
            continue
        found[f"{port.parts[-3]}:{port.name}"] = Bytes(sent * _WORD, received * _WORD)
    return found
