"""GPUs of one host as a table of thin levels: eight of them are a table and not a wall. Pure."""

from __future__ import annotations

from distui.amounts import memory_words
from distui.facts.gpus import throttle
from distui.frozen import frozen
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import GpuOwner, HostBoard
from distui.plan.labels import format_ranks
from distui.tui.hosts.rows import process_words
from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette


@frozen
class GpuColumns:
    """Width of each column in cells; 0 is folded. The owner takes the rest."""

    width: int
    bar: int
    hist: int
    mem: int
    name: int
    power: bool
    wide_words: bool
    """Whether the owner's ranks are spelled out (`rank 8`)."""
    sm: bool = False
    pcie: bool = False
    ecc: bool = False


def gpu_columns(width: int, *, detail: bool = False) -> GpuColumns:
    """The columns that fit; clocks and PCIe fold first, then histories and bars, memory's bar, power."""
    if width >= 180:
        hist = 36 if detail else 60
        return GpuColumns(width, 24 if detail else 28, hist, 20, 14 if detail else 0, True, detail, *(3 * (detail,)))
    if width >= 150 and detail:
        return GpuColumns(width, 18, 24, 14, 0, True, True, True, True, True)
    if width >= 112 and detail:
        return GpuColumns(width, 12, 15, 8, 0, True, True, sm=True, ecc=True)
    if width >= 112:
        return GpuColumns(width, 18, 20, 14, 0, True, False)
    if width >= 94:
        return GpuColumns(width, 12, 15, 0 if detail else 8, 0, True, False, ecc=detail)
    if width >= 70:
        return GpuColumns(width, 10, 12, 0, 0, True, False)
    return GpuColumns(width, 8, 0, 0, 0, False, False)


def gpu_header(host: HostBoard, at: GpuColumns, palette: Palette) -> Line:
    """The heads; the memory of one GPU stands there when all have the same."""
    totals = {gpu.memory_total for gpu in host.gpus.values()}
    total = figures.gib(next(iter(totals))) if len(totals) == 1 else "?"
    line, faint = Line().gap(1), palette.faint
    line.put("GPU", faint).gap(2)
    if at.name:
        line.put("NAME", faint, width=at.name).gap(2)
    line.put("UTIL", faint, width=at.bar + 6).gap(2)
    if at.hist:
        line.put("LAST 60 S", faint, width=at.hist).gap(2)
    if at.mem:
        line.put("MEMORY", faint, width=at.mem).gap(1)
    line.put(f"/ {total} GiB", faint, width=9, right=True).gap(2)
    if at.power:
        line.put("POWER", faint, width=6, right=True).gap(2)
    line.put("TEMP", faint, width=4, right=True).gap(2)
    if at.sm:
        line.put("SM MHz", faint, width=_SM).gap(2)
    if at.pcie:
        line.put("PCIe IN,OUT", faint, width=_PCIE, right=True).gap(2)
    if at.ecc:
        line.put("ECC", faint, width=3, right=True).gap(2).put("XID", faint, width=3, right=True).gap(2)
    return line.put("OWNER", faint)


_SM = 11
"""Cells of the clock and the word why it is held down: `1320 brake !`."""
_PCIE = 14


def gpu_row(host: HostBoard, gpu: GpuHistory, at: GpuColumns, palette: Palette, glyphs: Glyphs, *, bold: bool) -> Line:
    """One GPU. A lost one says so in the place of its numbers."""
    line = Line().gap(1).put(gpu.index, palette.bold if bold else palette.muted, width=2, right=True).gap(3)
    if at.name:
        line.put(figures.models([gpu.facts]) if gpu.facts else "-", palette.muted, width=at.name).gap(2)
    if gpu.facts and gpu.facts.problem and (gpu.reading is None or gpu.silent):
        line.put(gpu.facts.problem.message, palette.wrong).gap(2)
        return line.put(cut(gpu.facts.problem.hint, max(0, at.width - line.width - 1)), palette.muted)
    _load(line, gpu, at, palette, glyphs)
    if at.hist:
        figures.spark(line, palette, glyphs, gpu.load.last(60), at.hist, 100.0, 60).gap(2)
    _memory(line, gpu, at, palette, glyphs)
    if at.power:
        watts = "-" if gpu.power is None else f"{gpu.power:.0f}"
        line.put(watts, palette.text if gpu.power else palette.faint, width=4, right=True)
        line.put(" W", palette.faint).gap(2)
    degrees = "-" if gpu.temperature is None else f"{gpu.temperature:.0f}{glyphs.degree}C"
    line.put(degrees, figures.heat(palette, gpu.temperature), width=4, right=True).gap(2)
    _health(line, gpu, at, palette, glyphs)
    nobody = host.unowned_words(gpu)
    return owner_words(
        line, host.owner(gpu), palette, wide=at.wide_words, room=at.width - line.width - 1, nobody=nobody
    )


def _load(line: Line, gpu: GpuHistory, at: GpuColumns, palette: Palette, glyphs: Glyphs) -> None:
    load = gpu.utilization
    figures.level(line, palette, glyphs, None if load is None else load / 100, at.bar)
    line.put(figures.percent(load), palette.text if load and load >= 1 else palette.faint, width=6, right=True).gap(2)


def _memory(line: Line, gpu: GpuHistory, at: GpuColumns, palette: Palette, glyphs: Glyphs) -> None:
    used, total = gpu.memory_used, gpu.memory_total
    if at.mem:
        part = used / total if used is not None and total else None
        figures.level(line, palette, glyphs, part, at.mem, palette.data[2]).gap(1)
    line.put(figures.gib(used), palette.text if used else palette.faint, width=5, right=True)
    line.put(" GiB", palette.faint).gap(2)


def _health(line: Line, gpu: GpuHistory, at: GpuColumns, palette: Palette, glyphs: Glyphs) -> None:
    """Clock and why it is held down, PCIe, ECC and the newest XID; what nobody reported is `-`."""
    now = gpu.reading
    if at.sm:
        start, why = line.width, throttle.word(now.throttle if now else None)
        slowed = bool(now and now.throttle and now.throttle & throttle.SLOWED)
        clock = now.sm_mhz if now else None
        line.put(
            "-" if clock is None else clock, palette.faint if clock is None else palette.muted, width=4, right=True
        )
        if why and clock is not None:
            line.gap(1).put(f"{why} {glyphs.remark}" if slowed else why, palette.watch if slowed else palette.faint)
        line.gap(max(0, start + _SM - line.width)).gap(2)
    if at.pcie:
        (rx, tx), unit = figures.rates(now.pcie_rx if now else None, now.pcie_tx if now else None)
        known = now is not None and now.pcie_rx is not None
        text = f"{rx} {tx} {unit}" if known else "-"
        line.put(text, palette.muted if known and rx != "0" else palette.faint, width=_PCIE, right=True).gap(2)
    if at.ecc:
        for value in (now.ecc if now else None, now.xid if now else None):
            bad = palette.wrong if value else palette.faint
            line.put("-" if value is None else value, bad, width=3, right=True).gap(2)


def owner_words(line: Line, owner: GpuOwner, palette: Palette, *, wide: bool, room: int, nobody: str = "free") -> Line:
    """`llm-7f3 r8`; strangers in amber with what they hold; else `nobody`."""
    end = line.width + max(0, room)
    if owner.use is not None:
        ranks = format_ranks(owner.ranks)
        shown = (" rank " if wide and len(owner.ranks) == 1 else " ranks " if wide else " r") + ranks if ranks else ""
        line.put(owner.use.run, palette.text).put(shown, palette.muted)
    for process in owner.foreign:
        held = f" {memory_words(process.memory_mib)}" if process.memory_mib else ""
        line.gap(2 if owner.use else 0).put(process_words(process.user, process.name) + held + " !", palette.watch)
        break
    if owner.use is None and not owner.foreign:
        line.put(nobody, palette.faint)
    return line.cut(end)
