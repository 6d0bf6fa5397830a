"""The Hosts screen's rows: which columns fit, and one host painted into them. Pure.

Columns fold in a fixed order, so that eyes keep their place when the window grows: 60 s history, DISK, ADDR, RTT,
GPUS, total memory, gaps between tanks, FABRIC unless it has a remark. HOST, state, UTIL and RUN never fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style

from distui.amounts import size_words
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.monitor.board import Totals
from distui.monitor.host_board import HostBoard
from distui.plan.labels import format_ranks
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette

FOLDS = ("hist", "disk", "addr", "rtt", "gpus", "total", "gaps", "fabric")
"""What folds, first to last."""
LEFT = 4
"""Cells before HOST: cursor, mark, state, gap."""
RUN_LEAST = 10
HOST_WIDE = 12
"""Longer names take a cell of each tank, where there is room for tanks of three."""
NO_GPUS = {"none": "no GPU", "silent": "driver !", "unknown": "-"}
"""What stands in the place of GPUs, by `HostBoard.gpu_state`."""


@frozen
class Columns:
    """Width of each column in cells; 0 is folded. `tank` and `gap` are of one GPU in UTIL."""

    width: int
    host: int
    addr: int
    rtt: int
    gpus: int
    tank: int
    gap: int
    util: int
    avg: int
    hist: int
    mem: int
    total: bool
    heat: int
    rx: int
    tx: int
    fabric: int
    disk: int
    run: int


def columns(width: int, names: Iterable[str], *, most_gpus: int = 8, remark: bool = False) -> Columns:
    """The columns that fit into `width` cells. `remark` keeps FABRIC: some host's fabric is not well."""
    longest = max((len(n) for n in names), default=8)
    for folded in range(len(FOLDS) + 1):
        names_folded = set(FOLDS[:folded]) - ({"fabric"} if remark else set())
        made = _columns(width, longest, most_gpus, names_folded)
        if made.run >= RUN_LEAST or folded == len(FOLDS):
            return made
    raise AssertionError("the loop above returns")


def _columns(width: int, longest: int, most_gpus: int, folded: set[str]) -> Columns:
    wide, narrow = not folded, "gaps" in folded
    tank = 1 if narrow else 3 if wide and longest <= HOST_WIDE else 2
    gap = 0 if narrow else 1
    shown = min(max(most_gpus, 8 if not narrow else 4), 16)
    widths = {
        "host": min(max(longest, 8), HOST_WIDE + shown if wide else 10 if narrow or longest > 8 else 8),
        "addr": 0 if "addr" in folded else 15,
        "rtt": 0 if "rtt" in folded else 6 if wide else 5,
        "gpus": 0 if "gpus" in folded else 14 if wide else 11,
        "util": shown * (tank + gap) - gap,
        "avg": 4,
        "hist": 0 if "hist" in folded else 16,
        "mem": 18 if wide else 4 if "total" in folded else 9,
        "heat": 4,
        "rx": 5 if narrow else 7,
        "tx": 5 if narrow else 7 if wide else 4,
        "fabric": 0 if "fabric" in folded else 12 if wide else 8,
        "disk": 0 if "disk" in folded else 9,
    }
    used = LEFT + sum(w + 2 for w in widths.values() if w) - bool(not widths["addr"] and widths["rtt"])
    return Columns(
        width=width, tank=tank, gap=gap, total="total" not in folded, run=max(0, width - used - 1), **widths
    )  # fmt: skip


def header(at: Columns, palette: Palette, glyphs: Glyphs) -> Line:
    """The heads of the columns."""
    line = Line().gap(LEFT)
    faint = palette.faint
    cell(line, "HOST", faint, at.host, gap=after_host(at))
    cell(line, "ADDR", faint, at.addr)
    cell(line, "RTT", faint, at.rtt, right=True)
    cell(line, "GPUS", faint, at.gpus)
    cell(line, "UTIL PER GPU" if at.util >= 12 else "UTIL", faint, at.util)
    cell(line, "AVG", faint, at.avg, right=True)
    cell(line, "LAST 60 S", faint, at.hist)
    cell(line, "MEM GiB" if at.mem > 6 else "GiB", faint, at.mem, right=True)
    cell(line, "MAX", faint, at.heat, right=True)
    cell(line, "B/s IN" if at.rx > 6 else "IN", faint, at.rx, right=True)
    cell(line, "OUT", faint, at.tx, right=True)
    cell(line, "FABRIC", faint, at.fabric)
    cell(line, "DISK FREE", faint, at.disk, right=True)
    return line.put("RUN", faint, width=at.run)


def cell(line: Line, text: str, style: Style, width: int, *, right: bool = False, gap: int = 2) -> None:
    """One cell of a column and the gap after it; nothing where the column is folded."""
    if width:
        line.put(text, style, width=width, right=right).gap(gap)


def after_host(at: Columns) -> int:
    """One cell is enough before a number at the right of its column."""
    return 1 if at.rtt and not at.addr else 2


def row(host: HostBoard, at: Columns, palette: Palette, glyphs: Glyphs, now: float, *, bold: bool = False) -> Line:
    """One host without its cursor and mark. Old values dim with their age."""
    line = Line().gap(LEFT - 2).put(state_glyph(host, glyphs), state_style(host, palette)).gap(1)
    name = palette.bold if bold else palette.text
    line.host(host.name, name, width=at.host).gap(after_host(at))
    if host.status in ("down", "lost"):
        return _dead(line, host, at, palette, now)
    if host.status == "unknown":
        message = "asking" + glyphs.ellipsis if host.probing else "not probed yet"
        return line.put(message, palette.faint)
    return _alive(line, host, at, _aged(palette, host, now), glyphs)


def state_glyph(host: HostBoard, glyphs: Glyphs) -> str:
    """The sign of its state; a host that is up and can start nothing is remarked."""
    if host.probing or host.status == "unknown":
        return glyphs.starting
    if host.status == "up":
        return glyphs.remark if host.engine_trouble else glyphs.up
    return glyphs.bad


def state_style(host: HostBoard, palette: Palette) -> Style:
    """The style of that sign."""
    if host.probing or host.status == "unknown":
        return palette.muted
    if host.status == "up":
        return palette.watch if host.engine_trouble else palette.good
    return palette.wrong


def age(host: HostBoard, now: float) -> float:
    """Seconds since its values were taken; 0 for a host that was only probed: nothing newer is expected of it."""
    return max(0.0, now - host.sample.at) if host.sample else 0.0


@frozen
class Inks:
    """The palette as it applies to values of some age."""

    palette: Palette
    text: Style
    bold: Style
    muted: Style
    faint: Style
    old: bool

    def heat(self, celsius: float | None) -> Style:
        """The style of a temperature."""
        return self.faint if self.old else figures.heat(self.palette, celsius)


def _aged(palette: Palette, host: HostBoard, now: float) -> Inks:
    seconds = age(host, now)
    if seconds > figures.OLD_S:
        return Inks(palette, palette.faint, palette.faint, palette.faint, palette.faint, True)
    if seconds > figures.STALE_S:
        return Inks(palette, palette.muted, palette.muted, palette.muted, palette.faint, False)
    return Inks(palette, palette.text, palette.bold, palette.muted, palette.faint, False)


def _dead(line: Line, host: HostBoard, at: Columns, palette: Palette, now: float) -> Line:
    """Why, what to do, and the last sign of life, in the place where its numbers would be."""
    cell(line, "", palette.faint, at.addr)
    cell(line, "-", palette.faint, at.rtt, right=True)
    reason, hint = reason_of(host)
    end = Line().put(f"seen {figures.ago(now - host.seen)}" if host.seen is not None else "never seen", palette.faint)
    what, _, more = reason.partition(": ")
    line.put(what, palette.wrong).gap(2)
    for words in (more, hint):
        if words and line.width + 12 < at.width - end.width - 3:
            line.put(cut(words, at.width - end.width - 3 - line.width), palette.muted).gap(3)
    return line.ends_with(end, at.width - 1)


def reason_of(host: HostBoard) -> tuple[str, str]:
    """(why, hint) of a host that is down, without its own name in front."""
    trouble = host.trouble or Trouble("", "")
    message = trouble.words(host.name)
    return message.splitlines()[0] if message else trouble.code, trouble.hint


def _alive(line: Line, host: HostBoard, at: Columns, ink: Inks, glyphs: Glyphs) -> Line:
    cell(line, address(host), ink.muted, at.addr)
    cell(line, rtt(host), ink.muted, at.rtt, right=True)
    if at.gpus:
        _gpus(line, host, at.gpus, ink, glyphs)
    _util(line, host, at, ink, glyphs)
    _average(line, host, at, ink)
    if at.hist:
        figures.spark(line, ink.palette, glyphs, mean_history(host, 60), at.hist, 100.0, 60).gap(2)
    _memory(line, host, at, ink, glyphs)
    hottest = host.hottest()
    degrees = "-" if hottest is None else f"{hottest:.0f}{glyphs.degree}{'C' if at.heat > 3 else ''}"
    cell(line, degrees, ink.heat(hottest), at.heat, right=True)
    rates = host.rates()
    for value, width in ((rates and rates[0], at.rx), (rates and rates[1], at.tx)):
        shown = figures.short_rate(value)
        cell(line, shown, ink.faint if shown in figures.IDLE_RATES else ink.text, width, right=True)
    if at.fabric:
        _fabric(line, host, at.fabric, ink, glyphs)
    if at.disk:
        cell(line, _disk(host), ink.muted, at.disk, right=True)
    return _run(line, host, at, ink)


def address(host: HostBoard) -> str:
    """The address people know it by: that of its main interface, else as the inventory says."""
    nic = host.main_nic()
    return nic.addresses[0].ip if nic and nic.addresses else host.spec.addr or "-"


def rtt(host: HostBoard) -> str:
    """Round trip in five letters at most: `2 ms`, `148ms`, `12 s`."""
    if host.facts is None or host.facts.rtt_ms is None:
        return "-"
    ms = max(1.0, host.facts.rtt_ms)
    return f"{ms:.0f} ms" if ms < 99.5 else f"{ms:.0f}ms" if ms < 999.5 else f"{min(999.0, ms / 1000):.0f} s"


def _gpus(line: Line, host: HostBoard, width: int, ink: Inks, glyphs: Glyphs) -> None:
    start, state = line.width, host.gpu_state
    if state != "some":
        style = ink.palette.watch if state == "silent" else ink.muted
        line.put(cut(NO_GPUS[state], width), style)
    else:
        known = [gpu.facts for gpu in host.gpus_in_order() if gpu.facts]
        broken = bool(host.facts and host.facts.gpu.problem) or any(g.problem for g in known)
        line.put(len(host.gpus), ink.text).put(f" {glyphs.times} ", ink.faint)
        words = figures.models(known) if known else "GPU"
        line.put(cut(words, width - (line.width - start) - 2 * broken), ink.muted)
        if broken:
            line.put(" !", ink.palette.watch)
    line.gap(start + width - line.width).gap(2)


def _util(line: Line, host: HostBoard, at: Columns, ink: Inks, glyphs: Glyphs) -> None:
    gpus, start = host.gpus_in_order(), line.width
    if not gpus:
        line.put(machine(host, at.util), ink.muted)
    fits = (at.util + at.gap) // (at.tank + at.gap)
    for gpu in gpus[:fits]:
        figures.tank(line, ink.palette, glyphs, gpu.utilization, at.tank, old=ink.old).gap(at.gap)
    line.gap(start + at.util - line.width + 2)


def machine(host: HostBoard, width: int) -> str:
    """A host without GPUs in a few words: `32 cores, load 0.4`, the load only where there is room."""
    cores = host.facts.cpus if host.facts else None
    load = host.sample.load if host.sample else None
    words = [*([f"{cores} cores"] if cores else []), *([f"load {load:.1f}"] if load is not None else [])]
    return cut(", ".join(words if len(", ".join(words)) <= width else words[:1]), width)


def _average(line: Line, host: HostBoard, at: Columns, ink: Inks) -> None:
    value = host.average()
    if value is None and not host.gpus and host.sample and host.sample.cpu_pct is not None:
        cell(line, figures.percent(host.sample.cpu_pct), ink.muted, at.avg, right=True)
        return
    cell(line, figures.percent(value), ink.text if value and value >= 1 else ink.faint, at.avg, right=True)


def mean_history(host: HostBoard, count: int) -> list[float | None]:
    """The mean utilisation of its GPUs at each of the last samples."""
    return means([gpu.load.last(count) for gpu in host.gpus.values()])


def means(histories: Sequence[list[float | None]]) -> list[float | None]:
    """The mean of several histories at each moment; the newest samples are of the same second."""
    most = max((len(history) for history in histories), default=0)
    missing: list[list[float | None]] = [[None] * (most - len(history)) for history in histories]
    padded = [gap + history for gap, history in zip(missing, histories, strict=True)]
    return [figures.mean(values) for values in zip(*padded, strict=True)]


def _memory(line: Line, host: HostBoard, at: Columns, ink: Inks, glyphs: Glyphs) -> None:
    memory, start = host.memory(), line.width
    if at.mem > 12:
        part = memory[0] / memory[1] if memory else None
        figures.level(line, ink.palette, glyphs, part, at.mem - 11).gap(2)
    wide = at.width and at.mem > 5
    room = start + at.mem - line.width
    if memory is None:
        line.put("-", ink.faint, width=room, right=True)
    elif wide and at.total:
        line.put(figures.gib(memory[0]), ink.text if memory[0] >= 1 else ink.faint, width=room - 6, right=True)
        line.put(" / ", ink.faint).put(figures.gib(memory[1]), ink.faint, width=3, right=True)
    else:
        line.put(figures.gib(memory[0]), ink.text, width=room, right=True)
    line.gap(2)


def fabric(host: HostBoard, glyphs: Glyphs) -> tuple[str, bool]:
    """(words, whether something is wrong): `8 × 400`, `7 of 8 !`, or the main interface `eno1 10`."""
    ports = host.rdma_ports()
    if not ports:
        nic = host.main_nic()
        return (f"{nic.name} {figures.speed(nic.speed_mbps)}".strip() if nic else "-"), False
    active = [p for p in ports if p.active]
    infiniband = bool(host.ib_ports())
    if len(active) < len(ports) and infiniband:
        return f"{len(active)} of {len(ports)} !", True
    top = max((p.rate_gbps or 0 for p in active or ports), default=0)
    return f"{len(active)} {glyphs.times} {top:g}", False


def _fabric(line: Line, host: HostBoard, width: int, ink: Inks, glyphs: Glyphs) -> None:
    words, remark = fabric(host, glyphs)
    cell(line, words, ink.palette.watch if remark else ink.muted, width)


def _disk(host: HostBoard) -> str:
    free = host.sample.disk_free if host.sample else None
    if free is None and host.facts and host.facts.disks:
        free = min(d.free for d in host.facts.disks)
    return "-" if free is None else size_words(free)


def _run(line: Line, host: HostBoard, at: Columns, ink: Inks) -> Line:
    """Which run has it and with which ranks; strangers on its GPUs; why it can start nothing; else free."""
    strangers = foreign(host)
    runs = runs_on(host)
    if not runs and not strangers:
        if host.engine_words:
            return line.put(cut(host.engine_words, at.run), ink.palette.watch)
        if any(host.busy(gpu) for gpu in host.gpus.values()):
            return line.put("in use", ink.muted)  # it works, and the login sees nobody's process
        if host.silent:
            return line.put("silent", ink.palette.watch)
        return line.put("free" if host.gpus else "-", ink.faint)
    made = _named(runs, strangers, ink, ranks=True)
    if made.width > at.run:
        made = _named(runs, strangers, ink, ranks=False)
    return line.add(made.cut(at.run))


def _named(runs: Sequence[tuple[str, str]], strangers: str, ink: Inks, *, ranks: bool) -> Line:
    line = Line()
    for i, (run, here) in enumerate(runs):
        line.put(", " if i else "", ink.faint).put(run, ink.text).put(f" {here}" if here and ranks else "", ink.muted)
    if strangers:
        line.put("  " if runs else "", ink.faint).put(f"{strangers} !", ink.palette.watch)
    return line


def runs_on(host: HostBoard) -> list[tuple[str, str]]:
    """(run, its ranks here): `r8-15`; ranks of more than one task are joined."""
    ranks: dict[str, list[int]] = {}
    for use in host.uses:
        ranks.setdefault(use.run, []).extend(use.ranks)
    return [(run, f"r{format_ranks(sorted(set(found)))}" if found else "") for run, found in ranks.items()]


def foreign(host: HostBoard) -> str:
    """People (or programs) on its GPUs that no run of distui accounts for: `alice python`."""
    people: dict[str, None] = {}
    for gpu in host.gpus_in_order():
        for process in host.owner(gpu).foreign:
            people[process_words(process.user, process.name)] = None
    names = list(people)
    return "" if not names else names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "")


def process_words(user: str | None, name: str) -> str:
    """`alice python`: the user and the program without its path and arguments."""
    program = name.split()[0].rpartition("/")[2] if name.split() else "process"
    return f"{user} {program}" if user else program


def totals(counts: Totals, palette: Palette, glyphs: Glyphs, *, bar: int = 16) -> Line:
    """The headline: `5 up  1 down   GPUs ━━━━ 20 of 32 busy   2 runs`."""
    line = Line()
    if counts.unknown:
        line.put(counts.unknown, palette.bold).put(" asked   ", palette.muted)
    line.put(counts.up, palette.bold).put(" up", palette.muted)
    if counts.down:
        line.gap(3).put(counts.down, palette.wrong).put(" down", palette.muted)
    if counts.no_engine:
        line.gap(3).put(counts.no_engine, palette.watch).put(" no engine", palette.muted)
    if counts.gpus:
        line.gap(4 if bar else 3).put("GPUs ", palette.muted)
        if bar:
            figures.level(line.gap(1), palette, glyphs, counts.busy / counts.gpus, bar, palette.data[3]).gap(2)
        line.put(counts.busy, palette.bold).put(f" of {counts.gpus} busy", palette.muted)
    line.gap(4 if bar else 3).put(counts.runs, palette.bold)
    return line.put(" run" if counts.runs == 1 else " runs", palette.muted)
