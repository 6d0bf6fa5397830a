"""The orders of the rows on the tabs of a host. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distui.tui.hosts.select import natural

Order = tuple[str, Callable[[Any], Any]]
"""Its name, and by what rows are sorted."""

AS_THEY_COME: tuple[Order, ...] = (("", lambda item: 0),)

ORDERS: dict[str, tuple[Order, ...]] = {
    "gpu": (
        ("number", lambda gpu: gpu.index),
        ("util", lambda gpu: -(gpu.utilization or 0.0)),
        ("mem", lambda gpu: -(gpu.memory_used or 0)),
        ("temp", lambda gpu: -(gpu.temperature or 0.0)),
        ("power", lambda gpu: -(gpu.power or 0.0)),
    ),
    "net": (
        ("kind", lambda link: 0),
        ("name", lambda link: natural(link.name)),
        ("traffic", lambda link: -((link.rx or 0.0) + (link.tx or 0.0))),
        ("errors", lambda link: -(link.errors or 0)),
    ),
    "procs": (
        ("gpu", lambda found: found.gpu),
        ("mem", lambda found: -(found.process.memory_mib or 0)),
        ("user", lambda found: found.process.user or ""),
        ("pid", lambda found: found.process.pid),
    ),
    "containers": (
        ("state", lambda found: 0),
        ("name", lambda found: natural(found.name)),
        ("since", lambda found: -(found.since or 0.0)),
        ("run", lambda found: found.task.run if found.task else "~"),
    ),
}
"""What `o` goes through on each tab; the first is how rows come."""
