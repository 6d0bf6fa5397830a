"""What is shown of one host besides its GPUs: engine and clock, links, runs, remarks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from distui.amounts import counted, duration, plural, size_words
from distui.cluster.backend.values import LiveRun
from distui.facts.host import HostFacts
from distui.frozen import frozen
from distui.monitor.host_board import HostBoard
from distui.monitor.links import Link, grouped, links
from distui.monitor.remarks import Remark, remarks
from distui.plan.labels import format_ranks
from distui.runs.hosts.uses import Use
from distui.runs.state.standstill import standstill
from distui.tui.hosts import rows as host_rows
from distui.tui.hosts.gpu_rows import gpu_columns, gpu_header, gpu_row
from distui.tui.metrics.progress import progress_line
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette


def title(
    message: str,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
    *,
    facts: Sequence[str] = (),
    end: Line | None = None,
    focus: bool = False,
) -> Line:
    """A pane's title: name, facts after it, a thin rule, live values at the end of the rule."""
    line = Line().gap(1).put(message, palette.key if focus else palette.bold)
    tail = end or Line()
    for fact in facts:
        if line.width + len(fact) + 3 < width - tail.width - 6:
            line.gap(3 if line.width > len(message) + 1 else 2).put(fact, palette.muted)
    stop = width - 1 - (tail.width + 1 if tail.width else 0)
    line.rule(stop, palette.accent if focus else palette.rule, glyphs.rule)
    return line.gap(1).add(tail) if tail.width else line


def about(host: HostBoard) -> list[str]:
    """The host in a few words: driver, engine, clock, disk, system."""
    facts = host.facts
    if facts is None:
        return []
    words = [*_engine(facts), *_clock(facts)]
    disk = max(facts.disks, key=lambda d: d.total, default=None)
    if disk:
        words.append(f"{disk.path} {size_words(disk.free)} free")
    return [*words, *([facts.os] if facts.os else [])]


def _engine(facts: HostFacts) -> list[str]:
    driver = next((g.driver for g in facts.gpu.gpus if g.driver), None)
    version = ".".join((facts.engine.server or facts.engine.client or "").split(".")[:2])
    engine = f"{facts.engine.kind} {version}".strip() if facts.engine.kind != "none" else "no container engine"
    return [*([f"driver {driver}"] if driver else []), engine]


def _clock(facts: HostFacts) -> list[str]:
    return [] if facts.clock_offset_ms is None else [f"clock {facts.clock_offset_ms:+.0f} ms"]


def freshness(host: HostBoard, now: float, palette: Palette) -> Line:
    """`2 s ago`: when its values were taken."""
    taken = host.sample.at if host.sample else host.seen
    if taken is None:
        return Line()
    seconds = max(0.0, now - taken)
    late = host.sample is not None and seconds > figures.OLD_S
    return Line().put(figures.ago(seconds), palette.watch if late else palette.faint)


@frozen
class LinkColumns:
    """Width of each column of a link in cells; 0 is folded."""

    name: int
    device: int
    speed: int
    bar: int

    @property
    def width(self) -> int:
        """All of it, with the rates and their unit."""
        return sum(w + 1 for w in (self.name, self.device, self.speed, self.bar) if w) + 21


def link_columns(found: Sequence[Link], room: int, *, device: bool = False) -> LinkColumns:
    """The columns for these links; the bar takes what is left, the device folds first."""
    name = min(14, max([4, *(len(x.name) for x in found)]))
    speed = 9 if any(x.members > 1 for x in found) else 5
    wide = min(8, max([0, *(len(x.device) for x in found)])) if device else 0
    for shown in (wide, 0):
        bare = LinkColumns(name, shown, speed, 0)
        bar = room - bare.width - 1
        if bar >= 6 or not shown:
            return LinkColumns(name, shown, speed, max(0, min(bar, 60)) if bar >= 4 else 0)
    raise AssertionError("the loop above returns")


def link_line(link: Link, at: LinkColumns, palette: Palette, glyphs: Glyphs, *, errors: bool = False) -> Line:
    """One link: name, speed, history, what comes and goes; errors when there are new ones (`errors`: always)."""
    line = Line().put(link.name, palette.text if link.up else palette.watch, width=at.name).gap(1)
    if at.device:
        line.put(link.device, palette.muted, width=at.device).gap(1)
    line.put(_speed(link, glyphs), palette.muted, width=at.speed, right=at.speed < 9).gap(1)
    if not link.up:
        return line.put(f"{link.state} {glyphs.remark}", palette.watch)
    if at.bar:
        figures.spark(line, palette, glyphs, link.history, at.bar, _scale(link), 60).gap(1)
    (rx, tx), unit = figures.rates(link.rx, link.tx)
    for label, shown in (("rx", rx), ("tx", tx)):
        line.put(f"{label} ", palette.faint)
        line.put(shown, palette.faint if shown in ("0", "-") else palette.text, width=4, right=True).gap(1)
    line.put(unit if link.rx is not None else "", palette.faint, width=4)
    if link.new_errors:
        line.gap(2).put(f"{link.new_errors:,} new {plural(link.new_errors, 'error')}", palette.watch)
    elif errors:
        line.gap(2).put("-" if link.errors is None else f"{link.errors:,}", palette.faint, width=8, right=True)
    return line


def _scale(link: Link) -> float:
    """What fills the bar: a bit above the most seen lately, but never so little that noise looks like work."""
    top = max((v for v in link.history if v is not None), default=0.0)
    return max(1.4 * top, (link.gbps or 0.0) * link.members * 1e9 / 8 * 0.02, 1.0)


def _speed(link: Link, glyphs: Glyphs) -> str:
    if link.gbps is None:
        return ""
    return f"{link.members} {glyphs.times} {link.gbps:g}" if link.members > 1 else f"{link.gbps:g}G"


def network(found: Sequence[Link], width: int, palette: Palette, glyphs: Glyphs, *, device: bool = False) -> list[Line]:
    """Links in one or two columns, down the first and then the second."""
    shown = [x for x in found if x.up or x.infiniband]
    across = 2 if width >= 100 and len(shown) > 1 else 1
    each = (width - 3) // across
    at = link_columns(shown, min(each - 1, 64), device=device)
    cells = [link_line(x, at, palette, glyphs).cut(each - 1) for x in shown]
    half = -(-len(cells) // across)
    lines: list[Line] = []
    for i in range(half):
        line = Line().gap(2).add(cells[i])
        if i + half < len(cells):
            line.gap(2 + each - line.width).add(cells[i + half])
        lines.append(line)
    return lines


def run_lines(
    host: HostBoard, runs: Mapping[str, LiveRun], width: int, palette: Palette, glyphs: Glyphs, now: float
) -> list[Line]:
    """The runs on it: name, job, ranks, since when; how far each is that is followed here, or since when it stalls."""
    lines = []
    by_run: dict[str, list[Use]] = {}
    for use in host.uses:
        by_run.setdefault(use.run, []).append(use)
    for run, uses in by_run.items():
        ranks = format_ranks(sorted({r for u in uses for r in u.ranks}))
        live = runs.get(run)
        stands = standstill(live.plan, live.state, now) if live is not None else None
        line = Line().gap(2).put(glyphs.up, palette.good if stands is None else palette.watch).gap(1)
        line.put(run, palette.bold).gap(2)
        line.put(uses[0].job, palette.muted)
        if ranks:
            line.gap(3).put(f"ranks {ranks} of {uses[0].world_size}", palette.muted)
        started = min((u.started for u in uses if u.started is not None), default=None)
        if started is not None:
            line.gap(3).put(f"running {duration(now - started)}", palette.text)
        if live is not None:
            room, progress = width - line.width - 4, live.state.progress
            over = live.state.ended is not None or live.state.stopping is not None
            far = progress_line(palette, progress, over=over, room=room, stands=stands, now=now)
            line.gap(3 if far.width else 0).add(far)
        lines.append(line.cut(width - 1))
    return lines


def remark_lines(found: Sequence[Remark], width: int, palette: Palette, glyphs: Glyphs, *, most: int = 4) -> list[Line]:
    """What is worth a look, one line each."""
    lines = []
    for remark in found[:most]:
        style = palette.wrong if remark.level == "wrong" else palette.watch
        words = remark.text if glyphs.degree else remark.text.replace("°", "")
        line = Line().gap(2).put(f"{glyphs.remark} ", style).put(words, style)
        if remark.hint and line.width + 12 < width:
            line.gap(3).put(cut(remark.hint, width - line.width - 1), palette.muted)
        lines.append(line.cut(width - 1))
    if len(found) > most:
        lines.append(Line().gap(4).put(f"and {len(found) - most} more", palette.muted))
    return lines


def preview(
    host: HostBoard,
    runs: Mapping[str, LiveRun],
    width: int,
    height: int,
    palette: Palette,
    glyphs: Glyphs,
    now: float,
) -> list[Line]:
    """One host in what room there is: GPUs, network, runs and remarks. Only what is already known.

    `runs` are those that are followed here, by name.
    """
    end = freshness(host, now, palette)
    head = title(host.name, width, palette, glyphs, facts=about(host), end=end)
    if host.status in ("down", "lost"):
        return [head, Line(), *_why(host, width, palette, glyphs)][:height]
    gpus = _gpus(host, width, palette, glyphs)
    net = network(grouped(links(host)), width, palette, glyphs)
    found = remark_lines(remarks(host, now), width, palette, glyphs)
    on_it = run_lines(host, runs, width, palette, glyphs, now)
    sections = [("", gpus), ("Network", net), ("Run" if on_it else "Remarks", [*on_it, *found])]
    return _fitted(head, [(name, lines) for name, lines in sections if lines], width, height, palette, glyphs)


def why_lines(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """Why a host is down, and what to do, in as many rows as that needs."""
    reason, hint = host_rows.reason_of(host)
    lines = []
    for at, row in enumerate(wrap(reason, max(20, width - 5), break_on_hyphens=False) or [""]):
        lines.append(Line().gap(2).put(f"{' ' if at else glyphs.bad} {row}", palette.wrong))
    for at, row in enumerate(wrap(hint, max(20, width - 9), break_on_hyphens=False)):
        lines.append(Line().gap(4).put("    " if at else "try ", palette.faint).put(row, palette.text))
    return lines


def _why(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    lines = why_lines(host, width, palette, glyphs)
    known = host.facts
    if known is not None:
        message = (
            f"{counted(len(host.gpus), 'GPU')}, {known.os or 'unknown system'}"
            if host.gpus
            else known.os or "unknown system"
        )
        lines += [Line(), Line().gap(4).put(f"when it last answered: {message}", palette.muted)]
    return lines


def _gpus(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    if not host.gpus:
        return []
    at = gpu_columns(width)
    rows = [gpu_row(host, gpu, at, palette, glyphs, bold=False) for gpu in host.gpus_in_order()]
    return [gpu_header(host, at, palette), *rows]


def _fitted(
    head: Line, sections: Sequence[tuple[str, list[Line]]], width: int, height: int, palette: Palette, glyphs: Glyphs
) -> list[Line]:
    """Sections with air if there is room, without it if not; the last ones go first, then rows of GPUs."""
    lines = [head]
    for count in range(len(sections), 0, -1):
        for air in (True, False):
            lines = [head]
            for name, rows in sections[:count]:
                lines += [Line()] if air else []
                lines += [title(name, width, palette, glyphs), *([Line()] if air else [])] if name else []
                lines += rows
            if len(lines) <= height:
                return lines
    return lines[:height]
