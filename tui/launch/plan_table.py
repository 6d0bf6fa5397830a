"""The table of a plan: which host has which ranks and GPUs, at which address, and where they meet. Pure.

Where it has not all room, what carries the data is said in fewer words, names are cut, then columns go that are shown
elsewhere; the address and where the ranks meet are whole as long as anything else is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from distui.frozen import frozen
from distui.plan.labels import format_ranks
from distui.plan.model import HostNetwork, RunPlan
from distui.plan.text.render import held
from distui.runs.state.load import used_networks
from distui.spec.hosts.names import fold
from distui.tui.paint.paint import Line, cut_left
from distui.tui.paint.theme import Palette

NODE, HOST, GPUS, ADDRESS, PATH, MEETS = "NODE", "HOST", "GPUS", "ADDRESS", "DATA PATH", "RENDEZVOUS"
GOES = (NODE, PATH, GPUS, ADDRESS)
"""Columns that go, first to last: hosts are in the order of nodes, the rest is below, in why and in the commands."""
NAME_LEAST, NAME_MOST = 8, 16
RANKS_MOST = 36
PATH_LEAST, PATH_MOST = 10, 24
MEETS_LEAST = 12
"""Of the path of a file where ranks meet; the end of a longer one is kept."""


@frozen
class _Column:
    head: str
    cells: tuple[str, ...]
    width: int
    least: int


def plan_table(plan: RunPlan, width: int, palette: Palette) -> list[Line]:
    """Heads, and a row for each host."""
    columns = _columns(plan, PATH_MOST)
    if _width(columns) > width - 2:
        columns = _fitted(_columns(plan, PATH_LEAST), width - 2)
    return [_row(columns, number, palette) for number in range(-1, len(plan.networks))]


def _columns(plan: RunPlan, path: int) -> list[_Column]:
    """All of them; what carries the data in so many cells, where it can be said so."""
    nets, used = plan.networks, used_networks(plan)
    ranks = "TASKS" if plan.rank_names else "RANKS"
    return [
        _column(NODE, [f"{plan.tasks_on(net.host)[0].node_rank:>4}" for net in nets]),
        _column(HOST, [net.host for net in nets], most=NAME_MOST, least=NAME_LEAST),
        _column(ranks, [held(plan.tasks_on(net.host)) for net in nets], most=RANKS_MOST),
        _column(GPUS, [format_ranks(plan.gpus_on(net.host)) or "-" for net in nets]),
        _column(ADDRESS, [net.addr for net in nets]),
        _column(PATH, [_path(used[net.host], path) for net in nets], most=PATH_MOST, least=PATH_LEAST),
        _column(MEETS, [_meets(plan, net) for net in nets], least=MEETS_LEAST),
    ]


def _column(head: str, cells: Sequence[str], *, most: int = 999, least: int = 999) -> _Column:
    wide = min(most, max(len(head), *map(len, cells)))
    return _Column(head, tuple(cells), wide, min(wide, max(least, len(head))))


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + 2 * (len(columns) - 1)


def _fitted(columns: Sequence[_Column], room: int) -> list[_Column]:
    """The columns that fit, as wide as they may be."""
    kept, gone = list(columns), list(GOES)
    while gone and _width(kept) - sum(column.width - column.least for column in kept) > room:
        head = gone.pop(0)
        kept = [column for column in kept if column.head != head]
    over = _width(kept) - room
    for head in (PATH, MEETS, HOST):
        for at, column in enumerate(kept):
            if column.head == head and over > 0:
                less = min(over, column.width - column.least)
                kept[at], over = _Column(head, column.cells, column.width - less, column.least), over - less
    return kept


def _row(columns: Sequence[_Column], number: int, palette: Palette) -> Line:
    """A host, or the heads."""
    line = Line().gap(1)
    for column in columns:
        line.gap(2 if line.width > 1 else 0)
        if number < 0:
            line.put(column.head, palette.faint, width=column.width)
        elif column.head == HOST:
            line.host(column.cells[number], palette.bold, width=column.width)
        elif column.head == MEETS:
            line.put(cut_left(column.cells[number], column.width), palette.muted)
        else:
            muted = column.head in (NODE, ADDRESS)
            line.put(column.cells[number], palette.muted if muted else palette.text, width=column.width)
    return line


def _path(net: HostNetwork, width: int = 99) -> str:
    """What carries the data: `mlx5_[0-7] ib`, or how many ports where that is too long; `eno1 tcp`."""
    devices = [h.partition(":")[0] for h in net.hcas]
    message = f"{fold(devices)} {net.fabric}" if devices else f"{net.ifname} {net.fabric}"
    return message if len(message) <= width or not devices else f"{len(devices)} ports {net.fabric}"


def _meets(plan: RunPlan, net: HostNetwork) -> str:
    if plan.launcher == "tf":
        return "TF_CONFIG"
    if plan.init_method.startswith("file"):
        return plan.init_method.removeprefix("file://")
    return f"here :{plan.master_port}" if net.addr == plan.master_addr else "node 0"
