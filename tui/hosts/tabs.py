"""The tabs of a host: what their rows are and how one is painted, and what is drawn below them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from distui.amounts import clock, counted, plural
from distui.facts.host import GpuProcess
from distui.frozen import frozen
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import BUSY_PCT, HostBoard
from distui.monitor.links import Link, grouped, links
from distui.monitor.notes import Note
from distui.monitor.remarks import remarks
from distui.plan.labels import format_ranks
from distui.runs.hosts.uses import Use
from distui.tui.hosts.lines import LinkColumns, link_columns, link_line, network, remark_lines, title
from distui.tui.hosts.rows import process_words
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.plot import beside
from distui.tui.plot.recent import recent_lines

TABS = ("gpu", "net", "procs", "containers", "facts", "log")
NAMES = {"gpu": "GPU", "net": "Net", "procs": "Procs", "containers": "Containers", "facts": "Facts", "log": "Log"}


Graphs = Literal["some", "large", "none"]
"""How much of the room below the GPUs the plots take."""
GRAPHS: tuple[Graphs, ...] = ("some", "large", "none")


@frozen
class Process:
    """A process on a GPU of the host."""

    gpu: int
    process: GpuProcess


def processes(host: HostBoard) -> dict[int, Process]:
    """All of them, by a number that stays theirs when others come and go."""
    found = [Process(x.index, p) for x in host.gpus_in_order() for p in (x.facts.processes if x.facts else ())]
    return {x.process.pid << 10 | x.gpu: x for x in found}


def no_process_words(host: HostBoard) -> str:
    """Why no row is there: a driver that is asked from inside a container names no processes."""
    working = sum((gpu.utilization or 0.0) >= BUSY_PCT for gpu in host.gpus.values())
    if not working:
        return "no process is on its GPUs"
    return f"nvidia-smi names no process, though {counted(working, 'GPU')} {'is' if working == 1 else 'are'} at work"


def use_at(host: HostBoard, found: Process) -> Use | None:
    """The task of a run that a process belongs to; None for strangers. A probe may have lost its GPU meanwhile."""
    owner = host.owner(host.gpus.get(found.gpu) or GpuHistory(found.gpu))
    return host.use_of(found.process.container) or (owner.use if host.belongs(found.process, owner.use) else None)


def process_header(palette: Palette) -> Line:
    """The heads."""
    faint = palette.faint
    line = Line().gap(1).put("PID", faint, width=8, right=True).gap(2).put("USER", faint, width=10).gap(2)
    line.put("PROGRAM", faint, width=24).gap(2).put("GPU", faint, width=3, right=True).gap(2)
    return (
        line.put("MEMORY", faint, width=9, right=True).gap(2).put("CONTAINER", faint, width=12).gap(2).put("RUN", faint)
    )


def process_row(host: HostBoard, found: Process, palette: Palette, *, bold: bool) -> Line:
    """One process; one that is of no run is remarked."""
    p = found.process
    line = Line().gap(1).put(p.pid, palette.bold if bold else palette.text, width=8, right=True).gap(2)
    line.put(p.user or "-", palette.text if p.user else palette.faint, width=10).gap(2)
    line.put(process_words(None, p.name), palette.text, width=24).gap(2)
    line.put(found.gpu, palette.muted, width=3, right=True).gap(2)
    line.put(figures.gib(p.memory_mib), palette.text, width=5, right=True).put(" GiB", palette.faint).gap(2)
    line.put((p.container or "-")[:12], palette.muted if p.container else palette.faint, width=12).gap(2)
    use = use_at(host, found)
    if use is None:
        return line.put("of no run !", palette.watch)
    ranks = use.gpus.get(found.gpu) or use.ranks
    return line.put(use.run, palette.text).put(f" rank {format_ranks(ranks)}" if ranks else "", palette.muted)


def note_row(note: Note, now: float, palette: Palette) -> Line:
    """One thing that happened: when, how long ago, what."""
    styles = {"info": palette.text, "good": palette.good, "watch": palette.watch, "wrong": palette.wrong}
    line = Line().gap(2).put(clock(note.at), palette.faint).gap(2)
    line.put(figures.ago(now - note.at), palette.muted, width=14, right=True).gap(2)
    return line.put(note.text, styles[note.level])


def link_header(found: Sequence[Link], width: int, palette: Palette) -> Line:
    """The heads."""
    at = _link_columns(found, width)
    line = Line().gap(2).put("LINK", palette.faint, width=at.name).gap(1)
    if at.device:
        line.put("DEVICE", palette.faint, width=at.device).gap(1)
    line.put("SPEED", palette.faint, width=at.speed).gap(1)
    if at.bar:
        line.put("LAST 60 S", palette.faint, width=at.bar).gap(1)
    line.put("RECEIVED, SENT", palette.faint, width=20).gap(2)
    return line.put("ERRORS", palette.faint, width=8, right=True).gap(3).put("ADDRESS", palette.faint)


def link_row(found: Sequence[Link], number: int, width: int, palette: Palette, glyphs: Glyphs) -> Line:
    """One port or interface with its errors and addresses."""
    link, at = found[number], _link_columns(found, width)
    line = Line().gap(2).add(link_line(link, at, palette, glyphs, errors=True))
    line.gap(max(2, 2 + at.width + 12 - line.width))
    words = _where(link)
    return line.put(words or "-", palette.muted if words else palette.faint)


def _link_columns(found: Sequence[Link], width: int) -> LinkColumns:
    """What is left beside the errors and the longest addresses."""
    return link_columns(found, width - 15 - min(48, max([7, *(len(_where(x)) for x in found)])), device=True)


def _where(link: Link) -> str:
    return "  ".join([*link.addresses[:2], *(["default route"] if link.default else [])])


def below_gpu(
    host: HostBoard,
    gpu: GpuHistory | None,
    width: int,
    height: int,
    palette: Palette,
    glyphs: Glyphs,
    now: float,
    *,
    graphs: Graphs = "some",
) -> list[Line]:
    """Under the GPUs: the last five minutes of the one under the cursor and of the network, links, remarks."""
    found = links(host)
    looks = remark_lines(remarks(host, now), width, palette, glyphs, most=3)
    net = network(found, width, palette, glyphs, device=True)
    tail = [Line(), *looks] if looks else []
    shown = [x for x in found if x.up or x.infiniband]
    errors = sum(x.errors or 0 for x in found)
    end = (
        Line()
        .put(f"{counted(len(shown), 'link')}, ", palette.faint)
        .put(f"{errors:,} {plural(errors, 'error')}", palette.muted if errors else palette.faint)
    )
    head = title("Network", width, palette, glyphs, facts=_data_path(host), end=end)
    full = [Line(), head, Line(), *net]
    if graphs == "none":
        return [*full, *tail][:height]
    for middle in ([],) if graphs == "large" else (full, [head, *net], []):
        left = height - 1 - len(middle) - len(tail)
        if left >= 6:
            rows = left if graphs == "large" else min(left, 14)
            return [*_plots(host, gpu, found, width, rows, palette, glyphs), *middle, *tail]
    return [*looks, *([head, *net] if len(looks) + len(net) < height else [])][:height]


def _data_path(host: HostBoard) -> list[str]:
    ports = host.ib_ports()
    active = [p for p in ports if p.active]
    return [f"{len(active)} of {len(ports)} InfiniBand ports ACTIVE"] if ports else []


def _plots(
    host: HostBoard,
    gpu: GpuHistory | None,
    found: Sequence[Link],
    width: int,
    height: int,
    palette: Palette,
    glyphs: Glyphs,
) -> list[Line]:
    """GPU at the left, traffic of the main link at the right; below 100 cells only one of them."""
    rows = height - 3
    wide = (width - 4) // 2 if width >= 100 else width
    traffic = grouped([x for x in found if x.up])
    right = _traffic(traffic[0], wide, rows, palette, glyphs) if traffic else []
    if gpu is None:
        return [Line(), *right]
    left = _utilisation(gpu, wide, rows, palette, glyphs)
    return [Line(), *(beside(left, right, wide + 2) if width >= 100 else left)]


def _utilisation(gpu: GpuHistory, width: int, rows: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    end = Line().put(figures.percent(gpu.utilization).rstrip("%"), palette.bold).put(" %", palette.faint)
    head = title(f"GPU {gpu.index}", width, palette, glyphs, facts=["utilisation", "5 min"], end=end)
    return [head, *recent_lines(palette, glyphs, gpu.load.last(300), width - 1, rows, top=100.0)]


def _traffic(link: Link, width: int, rows: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    (rx, tx), unit = figures.rates(link.rx, link.tx)
    end = (
        Line().put(rx, palette.bold).put(" rx  ", palette.faint).put(tx, palette.bold).put(f" tx {unit}", palette.faint)
    )
    head = title(link.name, width, palette, glyphs, facts=["traffic", "5 min"], end=end)
    top = max([v for v in link.history if v is not None] or [0.0])
    _, scale_unit = figures.rates(top)
    factor = {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3}.get(scale_unit, 1.0)
    values = [None if v is None else v / factor for v in link.history]
    return [head, *recent_lines(palette, glyphs, values, width - 1, rows)]


def below_net(link: Link | None, width: int, height: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """Under the links: five minutes of the one under the cursor."""
    if link is None or height < 6:
        return []
    return [Line(), *_traffic(link, width, min(height - 3, 12), palette, glyphs)]
