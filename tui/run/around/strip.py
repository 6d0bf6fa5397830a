"""GPUs and network of a run's hosts, a row each: tanks, load, memory, heat, the data network with its history."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from distui.frozen import frozen
from distui.plan.model import HostNetwork
from distui.runs.lines.events import GpuReading, HostSampled, NetworkUsed
from distui.runs.report.rank_rows import network_name
from distui.runs.state.load import data_rate, link_share, readings
from distui.tui.paint.figures import gib, heat, percent, rates, share, spark, tank
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette

HISTORY_S = 60
TANKS = 8
RANGES_FROM = 120
"""From this width on there is room for the lowest and highest load and the share of the link."""
WATTS_FROM = 150
LAST = "as measured last"
"""Of a run that has ended."""


@frozen
class HostRow:
    """One host of the run as the strip shows it."""

    host: str
    sign: str
    ranks: str
    samples: Sequence[HostSampled]
    network: HostNetwork | None
    lost: str = ""
    """Why it can't be reached; empty when it can."""
    trouble: bool = False
    remark: str = ""
    """What to look at among its ranks, in a word."""
    groups: Sequence[tuple[int, ...]] | None = None
    """The GPUs of each of its ranks; None where all of the host's are the run's."""
    other: str = ""
    """Another interface than the plan chose, where that carried more."""
    over: bool = False
    """Whether the run is not followed any more: what was measured last is not so now."""

    @property
    def sample(self) -> HostSampled | None:
        """The newest sample."""
        return self.samples[-1] if self.samples else None

    def gpus(self) -> list[list[GpuReading]]:
        """Its GPUs as they were measured last, rank by rank; each once, those of this run alone."""
        seen = {gpu.index: gpu for gpu in readings(self.sample)}
        groups = [(index,) for index in seen] if self.groups is None else dict.fromkeys(self.groups)
        return [found for group in groups if (found := [seen[index] for index in group if index in seen])]


@frozen
class Figures:
    """What the GPUs of one sample come to; None is unknown."""

    load: float | None
    """The median."""
    least: float | None
    most: float | None
    watts: float | None
    """The median."""
    used: float | None
    total: float | None
    warmest: float | None


def figures(gpus: Iterable[GpuReading]) -> Figures:
    """Median, lowest and highest load, median power, memory used and total in MiB, the highest temperature."""
    found = list(gpus)
    loads = [g.utilization_pct for g in found if g.utilization_pct is not None]
    watts = [g.power_w for g in found if g.power_w is not None]
    used = [g.memory_used_mib for g in found if g.memory_used_mib is not None]
    total = [g.memory_total_mib for g in found if g.memory_total_mib is not None]
    return Figures(
        statistics.median(loads) if loads else None,
        min(loads, default=None),
        max(loads, default=None),
        statistics.median(watts) if watts else None,
        sum(used) if used else None,
        sum(total) if total else None,
        max((g.temperature_c for g in found if g.temperature_c is not None), default=None),
    )


def strip_title(
    palette: Palette, glyphs: Glyphs, rows: Sequence[HostRow], width: int, end: Line, used: NetworkUsed | None = None
) -> Line:
    """The strip's head: whether the figures are of now, which interface carried how much, where there is room, and what
    the data was to go over, or that nothing is left.
    """
    line = Line().gap(1).put("GPUs and network", palette.bold)
    if any(row.over and row.samples for row in rows) and width - line.width - end.width >= len(LAST) + 4:
        line.gap(2).put(LAST, palette.muted)
    room = width - line.width - end.width - 6
    if used is not None and used.words and (used.warnings or len(used.words) <= room) and room > 0:
        line.gap(3).put(cut(used.words, room), palette.watch if used.warnings else palette.muted)
    line.rule(width - end.width - 2, palette.rule, glyphs.rule)
    return line.ends_with(end.gap(1), width, gap=1)


def fabric_words(networks: Sequence[HostNetwork]) -> str:
    """`RDMA over mlx5_0-7`, `TCP over eth0`."""
    if not networks:
        return ""
    names = dict.fromkeys(network_name(n) for n in networks)
    kind = "TCP" if networks[0].fabric == "tcp" else "RDMA"
    return f"{kind} over {' '.join(names)}" if len(names) <= 2 else f"{kind} over {len(names)} kinds of interface"


def host_line(
    palette: Palette, glyphs: Glyphs, row: HostRow, width: int, *, name: int, top: float, history: bool
) -> Line:
    """One host. `top` is the rate that fills the history; `name` the width of host names."""
    line = Line().gap(1).host(row.host, palette.wrong if row.lost else palette.text, width=name).gap(1)
    head = len(line.pieces)
    if row.lost:
        return line.put(glyphs.bad, palette.wrong).gap(1).put(f"lost: {row.lost}", palette.watch)
    sample, gpus = row.sample, row.gpus()
    if sample is None:
        return line.put("no figures", palette.faint)
    if gpus:
        _tanks(line, palette, glyphs, gpus)
        _gpu_words(line, palette, glyphs, figures(gpu for group in gpus for gpu in group), width)
    else:
        _cpu_words(line, palette, sample)
    end = _network(palette, row, data_rate(row.network, sample), width)
    if history and (room := width - line.width - end.width - 16) >= 12:
        line.gap(3).put(network_name(row.network), palette.muted, width=9)
        spark(line, palette, glyphs, _history(row), min(60, room), top, HISTORY_S)
    line.ends_with(end.gap(1), width)
    return _dimmed(line, palette, head) if row.over else line


def _dimmed(line: Line, palette: Palette, head: int) -> Line:
    """The pieces behind the head faint, whatever they say: it is not so any more."""
    line.pieces[head:] = [(text, palette.faint) for text, _ in line.pieces[head:]]
    return line


def _tanks(line: Line, palette: Palette, glyphs: Glyphs, gpus: Sequence[Sequence[GpuReading]]) -> None:
    """A cell a GPU, two where ranks have one each; those of one rank side by side."""
    wide = len(gpus) <= TANKS and all(len(group) == 1 for group in gpus)
    apart = wide or any(len(group) > 1 for group in gpus)
    for i, group in enumerate(gpus):
        line.gap(1 if i and apart else 0)
        for gpu in group:
            tank(line, palette, glyphs, gpu.utilization_pct, 2 if wide else 1)


def _gpu_words(line: Line, palette: Palette, glyphs: Glyphs, sums: Figures, width: int) -> None:
    line.gap(1).put(percent(sums.load), palette.bold if sums.load else palette.faint, width=5, right=True)
    if width >= RANGES_FROM:
        same = sums.least is None or sums.most is None or round(sums.least) == round(sums.most)
        line.put("" if same else f"{sums.least:.0f}-{sums.most:.0f}", palette.faint, width=7, right=True)
    if width >= WATTS_FROM:
        line.put("-" if sums.watts is None else f"{sums.watts:.0f} W", palette.muted, width=7, right=True)
    line.gap(2).put(gib(sums.used), palette.text, width=4, right=True)
    line.put(f" / {gib(sums.total)} GiB", palette.faint, width=11)
    warm = "-" if sums.warmest is None else f"{sums.warmest:.0f}{glyphs.degree}C"
    line.put(warm, heat(palette, sums.warmest), width=5, right=True)


def _cpu_words(line: Line, palette: Palette, sample: HostSampled) -> None:
    line.put("no GPU", palette.faint).gap(2).put("cpu ", palette.faint).put(percent(sample.cpu_pct), palette.text)
    if sample.memory_total_mib and sample.memory_available_mib is not None:
        line.gap(2).put(gib(sample.memory_total_mib - sample.memory_available_mib), palette.text)
        line.put(f" / {gib(sample.memory_total_mib)} GiB", palette.faint)


def _network(palette: Palette, row: HostRow, both: tuple[float, float] | None, width: int) -> Line:
    """Which part of its link is used, or which other one carries the data, and how much that is."""
    end, part = Line(), link_share(row.network, row.sample)
    if row.other:
        end.put(f"{row.other} carries it", palette.watch)
    elif part is not None and row.network is not None and width >= RANGES_FROM:
        end.put(share(part, row.network.speed_mbps), palette.muted)
    return end.add(_rates(palette, both))


def _rates(palette: Palette, both: tuple[float, float] | None) -> Line:
    end = Line()
    if both is None:
        return end
    words, unit = rates(*both)
    for name, number, value in zip(("rx", "tx"), words, both, strict=True):
        end.gap(2).put(name, palette.faint).put(
            number, palette.faint if value < 1000 else palette.text, width=6, right=True
        )
    return end.gap(1).put(unit, palette.faint, width=4)


def _history(row: HostRow) -> list[float | None]:
    found = (data_rate(row.network, sample) for sample in row.samples)
    return [None if both is None else sum(both) for both in found]


def top_rate(rows: Sequence[HostRow]) -> float:
    """The highest rate any host's history has."""
    return max((v for row in rows for v in _history(row)[-HISTORY_S:] if v is not None), default=1.0)


def _weight(row: HostRow) -> int:
    """Its place where not all fit: what is lost or wrong, what is to be watched, the others."""
    return 0 if row.lost or row.trouble else 1 if row.remark else 2


def strip_lines(
    palette: Palette,
    glyphs: Glyphs,
    rows: Sequence[HostRow],
    width: int,
    height: int,
    end: Line,
    *,
    full: bool,
    used: NetworkUsed | None = None,
) -> list[Line]:
    """Title and hosts in so many rows; hosts that do not fit are counted, those with trouble or a remark come first."""
    if height <= 0:
        return []
    lines = [strip_title(palette, glyphs, rows, width, end, used)]
    ordered = sorted(rows, key=_weight) if len(rows) > height - 1 else list(rows)
    name, top = max((len(r.host) for r in rows), default=4), top_rate(rows)
    for row in ordered[: height - 1]:
        lines.append(host_line(palette, glyphs, row, width, name=min(12, name), top=top, history=full))
    hidden = len(rows) - (height - 1)
    if hidden > 0 and len(lines) > 1:
        lines[-1] = Line().gap(1).put(f"{hidden + 1} more hosts", palette.muted)
    return lines


def narrow_line(palette: Palette, glyphs: Glyphs, row: HostRow, width: int, name: int, ranks: int) -> Line:
    """One host where there is no room for the rank list: state, ranks, tanks, totals."""
    line = Line().gap(1).put(glyphs.state(row.sign), palette.state(row.sign)).gap(1)
    line.host(row.host, palette.wrong if row.trouble or row.lost else palette.text, width=name).gap(2)
    if row.lost:
        return line.put(f"lost: {row.lost}", palette.watch)
    loud = palette.wrong if row.trouble else palette.watch
    line.put(row.remark or row.ranks, loud if row.remark else palette.muted, width=ranks).gap(1)
    head = len(line.pieces)
    sample = row.sample
    if sample is None:
        return line.put("no figures", palette.faint)
    gpus = row.gpus()
    sums = figures(gpu for group in gpus for gpu in group)
    if gpus and width >= 60:
        _tanks(line, palette, glyphs, gpus)
    if gpus:
        line.put(percent(sums.load), palette.bold if sums.load else palette.faint, width=6, right=True)
        line.put(gib(sums.used), palette.text, width=5, right=True).put(" GiB", palette.faint)
        warm = "-" if sums.warmest is None else f"{sums.warmest:.0f}{glyphs.degree}C"
        line.put(warm, heat(palette, sums.warmest), width=7, right=True)
    else:
        _cpu_words(line, palette, sample)
    both, end = data_rate(row.network, sample), Line()
    if row.other:
        end.put(row.other, palette.watch).gap(2)
    if both is not None:
        words, unit = rates(both[0])
        end.put("rx ", palette.faint).put(words[0], palette.text).put(f" {unit}", palette.faint).gap(1)
    ranks_too = _with_ranks(row, palette, end)
    end = ranks_too if line.width + ranks_too.width + 1 <= width else end
    line = line.ends_with(end, width, gap=1) if line.width + end.width + 1 <= width else line
    return _dimmed(line, palette, head) if row.over else line


def _with_ranks(row: HostRow, palette: Palette, end: Line) -> Line:
    """The end of a host's row behind all its ranks, where a remark stands in their place that names some."""
    line = Line()
    if row.remark and row.ranks != row.remark.partition(" ")[0]:
        line.put(f"ranks {row.ranks}", palette.muted).gap(2)
    for words, style in end.pieces:
        line.put(words, style)
    return line


def narrow_lines(palette: Palette, glyphs: Glyphs, rows: Sequence[HostRow], width: int, height: int) -> list[Line]:
    """Those rows; hosts with trouble or a remark first when not all fit."""
    name = min(12, max((len(r.host) for r in rows), default=4))
    ordered = sorted(rows, key=_weight) if len(rows) > height else list(rows)
    ranks = min(10, max((len(r.remark or r.ranks) for r in rows), default=5))
    lines = [narrow_line(palette, glyphs, row, width, name, max(5, ranks)) for row in ordered[:height]]
    if len(rows) > height and lines:
        lines[-1] = Line().gap(1).put(f"{len(rows) - height + 1} more hosts", palette.muted)
    return lines


def samples_of(samples: Mapping[str, Sequence[HostSampled]]) -> dict[str, HostSampled]:
    """The newest sample of each host that has one."""
    return {host: found[-1] for host, found in samples.items() if found}
