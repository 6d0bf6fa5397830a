"""What is told of one host besides its GPUs: engine and clock, links, runs, remarks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.facts.host import HostFacts
from distui.plan.labels import format_ranks
from distui.run.board import HostBoard
from distui.run.links import Link, grouped, links
from distui.run.remarks import Remark, remarks
from distui.run.uses import Use
from tui import figures, host_rows
from tui.glyphs import Glyphs
from tui.gpu_rows import gpu_columns, gpu_header, gpu_row
from tui.paint import Line, cut
from tui.theme import Palette


def title(
    words: str,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
    *,
    facts: Sequence[str] = (),
    end: Line | None = None,
    focus: bool = False,
) -> Line:
    """A pane's title: name, facts after it, a thin rule, live values at the end of the rule."""
    line = Line().gap(1).put(words, palette.key if focus else palette.bold)
    tail = end or Line()
    for fact in facts:
        if line.width + len(fact) + 3 < width - tail.width - 6:
            line.gap(3 if line.width > len(words) + 1 else 2).put(fact, palette.muted)
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
        words.append(f"{disk.path} {figures.size(disk.free)} free")
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


def link_line(
    link: Link, palette: Palette, glyphs: Glyphs, *, name: int, bar: int, device: int = 0, full: bool = False
) -> Line:
    """One link: name, speed, history, what comes and goes; errors only when there are some (`full`: always)."""
    line = Line().put(cut(link.name, name), palette.text if link.up else palette.watch, width=name).gap(1)
    if device:
        line.put(cut(link.device, device), palette.muted, width=device).gap(1)
    line.put(_speed(link, glyphs), palette.muted, width=9, right=not link.members > 1).gap(2)
    if not link.up:
        return line.put(f"{link.state} {glyphs.remark}", palette.watch)
    if bar:
        top = max([v for v in link.history if v is not None] or [0.0]) or 1.0
        scale = max(1.4 * top, (link.gbps or 0) * link.members * 1e9 / 8 * 0.02)
        figures.spark(line, palette, glyphs, link.history, bar, scale, 60).gap(1)
    _rates(line, link, palette)
    if link.errors and (full or link.new_errors):
        line.gap(2).put(f"err {link.errors:,}", palette.watch if link.new_errors else palette.muted)
    elif full and link.errors is not None:
        line.gap(2).put("err 0", palette.faint)
    return line


def _speed(link: Link, glyphs: Glyphs) -> str:
    if link.gbps is None:
        return ""
    return f"{link.members} {glyphs.times} {link.gbps:g}" if link.members > 1 else f"{link.gbps:g}G"


def _rates(line: Line, link: Link, palette: Palette) -> None:
    for label, value in (("rx", link.rx), ("tx", link.tx)):
        number, unit = figures.rate(value)
        quiet = value is None or value < 500
        line.put(f"{label} ", palette.faint).put(number, palette.faint if quiet else palette.text, width=4, right=True)
        line.put(f" {unit}", palette.faint, width=5).gap(1)


def network(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """Its links in one or two columns, rails of one kind as one."""
    found = [x for x in grouped(links(host)) if x.up or x.infiniband]
    across = 2 if width >= 110 and len(found) > 1 else 1
    each = (width - 2) // across
    name = min(14, max([6, *(len(x.name) for x in found)]))
    cells = [link_line(x, palette, glyphs, name=name, bar=max(0, min(16, each - name - 42))) for x in found]
    lines: list[Line] = []
    for i in range(0, len(cells), across):
        line = Line().gap(2)
        for cell in cells[i : i + across]:
            line.to(2 + (each if line.width > 2 else 0)) if line.width > 2 else None
            line.add(cell.cut(each - 2))
        lines.append(line)
    return lines


def run_lines(host: HostBoard, now: float, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """The runs on it: name, job, ranks, since when."""
    lines = []
    by_run: dict[str, list[Use]] = {}
    for use in host.uses:
        by_run.setdefault(use.run, []).append(use)
    for run, uses in by_run.items():
        ranks = format_ranks(sorted({r for u in uses for r in u.ranks}))
        line = Line().gap(2).put(glyphs.up, palette.good).gap(1).put(run, palette.bold).gap(2)
        line.put(uses[0].job, palette.muted)
        if ranks:
            line.gap(3).put(f"ranks {ranks} of {uses[0].world_size}", palette.muted)
        started = min((u.started for u in uses if u.started is not None), default=None)
        if started is not None:
            line.gap(3).put(f"running {figures.span(now - started)}", palette.text)
        lines.append(line)
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


def preview(host: HostBoard, width: int, height: int, palette: Palette, glyphs: Glyphs, now: float) -> list[Line]:
    """One host in what room there is: GPUs, network, runs and remarks. Only what is already known."""
    end = freshness(host, now, palette)
    head = title(host.name, width, palette, glyphs, facts=about(host), end=end)
    if host.status in ("down", "lost"):
        return [head, Line(), *_why(host, width, palette, glyphs)][:height]
    gpus = _gpus(host, width, palette, glyphs)
    net = network(host, width, palette, glyphs)
    found = remark_lines(remarks(host, now), width, palette, glyphs)
    runs = run_lines(host, now, palette, glyphs)
    sections = [("", gpus), ("Network", net), ("Run" if runs else "Remarks", [*runs, *found])]
    return _fitted(head, [(name, lines) for name, lines in sections if lines], width, height, palette, glyphs)


def _why(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    reason, hint = host_rows.reason_of(host)
    lines = [Line().gap(2).put(f"{glyphs.bad} {reason}", palette.wrong)]
    if hint:
        lines.append(Line().gap(4).put("try ", palette.faint).put(hint, palette.text).cut(width - 1))
    known = host.facts
    if known is not None:
        words = f"{len(host.gpus)} GPUs, {known.os or 'unknown system'}" if host.gpus else known.os or "unknown system"
        lines += [Line(), Line().gap(4).put(f"when it last answered: {words}", palette.muted)]
    return lines


def _gpus(host: HostBoard, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    if not host.gpus:
        return []
    at = gpu_columns(width)
    rows = [gpu_row(host, lane, at, palette, glyphs, bold=False) for lane in host.lanes()]
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
