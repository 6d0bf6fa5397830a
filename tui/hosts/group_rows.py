"""A folded group of hosts as one row, one tank per host, and what it stands for below. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from distui.amounts import counted
from distui.monitor.groups import GroupBoard
from distui.monitor.host_board import HostBoard
from distui.tui.hosts import rows as host_rows
from distui.tui.hosts.lines import title
from distui.tui.hosts.rows import LEFT, NO_GPUS, Columns, cell
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette


def row(group: GroupBoard, at: Columns, palette: Palette, glyphs: Glyphs, now: float, *, bold: bool = False) -> Line:
    """The group without its cursor and mark. Trouble inside it comes before its runs."""
    line = Line().gap(LEFT - 2)
    down, up = group.with_status("down", "lost"), group.with_status("up")
    sign, style = (glyphs.bad, palette.wrong) if down else (glyphs.up, palette.good)
    if not down and any(host.engine_trouble for host in up):
        sign, style = glyphs.remark, palette.watch
    if not down and not up:
        sign, style = glyphs.starting, palette.muted
    line.put(sign, style).gap(1)
    start = line.width
    line.put(f"{glyphs.folded} ", palette.accent)
    line.name(group.key, palette.bold if bold else palette.text, width=start + at.host - line.width)
    line.gap(host_rows.after_host(at))
    cell(line, _count(group), palette.muted, at.addr)
    cell(line, "" if at.addr else f"{glyphs.times}{len(group.hosts)}", palette.muted, at.rtt, right=True)
    _gpus(line, group, at.gpus, palette, glyphs)
    _tanks(line, group.hosts, at.util, palette, glyphs)
    average = group.average()
    cell(
        line, figures.percent(average), palette.text if average and average >= 1 else palette.faint, at.avg, right=True
    )
    if at.hist:
        histories = [host_rows.mean_history(host, 60) for host in up]
        figures.spark(line, palette, glyphs, host_rows.means(histories), at.hist, 100.0, 60).gap(2)
    _memory(line, group, at, palette)
    hottest = group.hottest()
    degrees = "-" if hottest is None else f"{hottest:.0f}{glyphs.degree}{'C' if at.heat > 3 else ''}"
    cell(line, degrees, figures.heat(palette, hottest), at.heat, right=True)
    rates = group.rates()
    for value, width in ((rates and rates[0], at.rx), (rates and rates[1], at.tx)):
        shown = figures.short_rate(value)
        cell(line, shown, palette.faint if shown in figures.IDLE_RATES else palette.text, width, right=True)
    _fabric(line, group, at.fabric, palette, glyphs)
    cell(line, "", palette.faint, at.disk)
    return line.add(_trouble_and_runs(group, palette, glyphs, now).cut(at.run))


def _count(group: GroupBoard) -> str:
    return counted(len(group.hosts), "host")


def _gpus(line: Line, group: GroupBoard, width: int, palette: Palette, glyphs: Glyphs) -> None:
    if not width:
        return
    start, count = line.width, group.gpus()
    models = {figures.models(h.facts.gpu.gpus) for h in group.hosts if h.facts and h.facts.gpu.gpus}
    if count:
        model = next(iter(models), "GPU") if len(models) < 2 else f"{len(models)} kinds"
        if len(f"{count} {glyphs.times} {model}") > width:  # the memory is shown less often than the kind is asked for
            model = model.rpartition(" ")[0] or model
        line.put(count, palette.text).put(f" {glyphs.times} ", palette.faint).put(model, palette.muted)
    else:
        states = {host.gpu_state for host in group.hosts}
        state = next((state for state in ("silent", "none") if state in states), "unknown")
        line.put(NO_GPUS[state], palette.watch if state == "silent" else palette.muted)
    line.cut(start + width).gap(start + width - line.width).gap(2)


def _tanks(line: Line, hosts: Sequence[HostBoard], width: int, palette: Palette, glyphs: Glyphs) -> None:
    """One tank per host, as wide as fits; more hosts than cells share one. A host that is gone is a cross."""
    start = line.width
    tank = max((t for t in (2, 1) if len(hosts) * (t + 1) - 1 <= width), default=0)
    cells, gap = (tank, 1) if tank else (1, 0)
    for part in _parts(hosts, width if not tank else len(hosts)):
        if line.width > start:
            line.gap(gap)
        if any(host.status in ("down", "lost") for host in part):
            line.put(glyphs.bad * cells, palette.wrong)
        else:
            figures.tank(line, palette, glyphs, figures.mean([host.average() for host in part]), cells)
    line.cut(start + width).gap(start + width - line.width).gap(2)


def _parts(hosts: Sequence[HostBoard], count: int) -> list[Sequence[HostBoard]]:
    count = min(count, len(hosts))
    edges = [round(i * len(hosts) / count) for i in range(count + 1)]
    return [hosts[low:high] for low, high in pairwise(edges)]


def _memory(line: Line, group: GroupBoard, at: Columns, palette: Palette) -> None:
    """Of all together; the total where it has room."""
    memory, start = group.memory(), line.width
    if memory is None:
        line.put("-", palette.faint, width=at.mem, right=True)
    else:
        used, total = figures.gib(memory[0]), figures.gib(memory[1])
        if len(used) > at.mem:
            used = f"{memory[0] / 1024 / 1024:.0f}T"
        shown = Line().put(used, palette.text if memory[0] >= 1 else palette.faint)
        if at.total and len(used) + len(total) + 3 <= at.mem:
            shown.put(f" / {total}", palette.faint)
        line.gap(at.mem - shown.width).add(shown)
    line.cut(start + at.mem).gap(start + at.mem - line.width).gap(2)


def _fabric(line: Line, group: GroupBoard, width: int, palette: Palette, glyphs: Glyphs) -> None:
    ports = [port for host in group.hosts for port in host.ib_ports()]
    active = [port for port in ports if port.active]
    if ports and len(active) < len(ports):
        message = f"{len(active)} of {len(ports)} {glyphs.remark}"
        short = f"{len(ports) - len(active)} off {glyphs.remark}"
        cell(line, message if len(message) <= width else short, palette.watch, width)
    elif ports:
        top = max(port.rate_gbps or 0 for port in ports)
        message = f"{len(ports)} {glyphs.times} {top:g}"
        cell(line, message if len(message) <= width else message.replace(" ", ""), palette.muted, width)
    else:
        cell(line, "-", palette.faint, width)


def _trouble_and_runs(group: GroupBoard, palette: Palette, glyphs: Glyphs, now: float) -> Line:
    line, found = Line(), group.trouble(now)
    gone, others = (len({h.name for h, _ in found if bool(h.trouble) is down}) for down in (True, False))
    if gone:
        line.put(f"{gone} down", palette.wrong).gap(1)
    if others:
        line.put(f"{others} {glyphs.remark}", palette.watch).gap(1)
    if runs := group.runs():
        line.put(", ".join(runs), palette.text)
    elif not line.width:
        busy = sum(host.busy(gpu) for host in group.with_status("up") for gpu in host.gpus.values())
        line.put(f"{busy} busy" if busy else "free" if group.gpus() else "-", palette.muted if busy else palette.faint)
    return line


def preview(
    group: GroupBoard, at: Columns, width: int, height: int, palette: Palette, glyphs: Glyphs, now: float
) -> list[Line]:
    """What the group stands for: what is not well in it, then its hosts, those with trouble first."""
    end = Line().put(f"{len(group.with_status('up'))} of {len(group.hosts)} up", palette.muted)
    lines = [title(group.key, width, palette, glyphs, facts=(_count(group),), end=end), Line()]
    found = group.trouble(now)
    room = max(0, height - len(lines))
    for host, remark in found[: room // 2]:
        style = palette.wrong if remark.level == "wrong" else palette.watch
        line = Line().gap(2).put(f"{glyphs.remark} ", style).put(host.name, palette.text).gap(2).put(remark.text, style)
        lines.append(line.gap(3).put(remark.hint, palette.muted).cut(width - 1))
    if found:
        lines.append(Line())
    troubled = dict.fromkeys(host.name for host, _ in found)
    order = sorted(group.hosts, key=lambda host: host.name not in troubled)
    room = max(0, height - len(lines))
    shown = order if len(order) <= room else order[: max(0, room - 1)]
    lines += [host_rows.row(host, at, palette, glyphs, now).cut(width) for host in shown]
    if len(shown) < len(order):
        lines.append(Line().gap(LEFT).put(f"and {len(order) - len(shown)} more", palette.muted))
    return lines[:height]
