"""The ranks side by side at one line of the merged log, in seconds after the first."""

from __future__ import annotations

from collections.abc import Sequence

from distui.runs.report.rank_rows import digits
from distui.tui.logs.merged.groups import Group
from distui.tui.logs.merged.why_apart import why_apart
from distui.tui.paint.figures import level
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

LATE_S = 1.0
CELL = 29
ROWS = 4
"""Ranks above each other before they go into the next column: few enough to be compared, and no hole at the right."""


def moments_of(groups: Sequence[Group], group: Group) -> dict[int, float]:
    """Rank -> seconds after the first that said the line; those that came late in rows of their own, too."""
    begin = next((i for i, g in enumerate(groups) if g is group), None)
    near = groups[begin : begin + 400] if begin is not None else [group]
    alike = [g for g in near if g is group or (g.shift and g.key == group.key)]
    found: dict[int, float] = {}
    for member in alike:
        for rank, _, at in member.each():
            found.setdefault(rank, at - group.at)
    return dict(sorted(found.items()))


def compare_lines(
    palette: Palette,
    glyphs: Glyphs,
    groups: Sequence[Group],
    group: Group | None,
    ranks: Sequence[int],
    width: int,
    height: int,
    *,
    fold: bool = True,
) -> list[Line]:
    """Title, then a cell for each rank, column by column."""
    if height < 2 or group is None:
        return []
    if group.parts:  # of several steps the last one
        group = group.parts[-1]
    found = moments_of(groups, group)
    why = why_apart(groups, group, fold=fold) if group.members == 1 and len(ranks) > 1 and len(found) == 1 else ""
    lines = [_title(palette, glyphs, group, found, ranks, width, why)]
    if len(found) < 2 or max(found) < 0:
        return lines
    room = height - 1
    columns = max(1, min((width - 2) // CELL, max(-(-len(ranks) // room), -(-len(ranks) // ROWS))))
    shown = _picked(ranks, found, columns * room)
    per = -(-len(shown) // columns)
    top = max([LATE_S / 10, *found.values()])
    lines += [Line()] if per + 2 <= height else []
    for row in range(min(per, room)):
        line = Line().gap(2)
        for rank in shown[row::per][:columns]:
            line.add(_cell(palette, glyphs, rank, found.get(rank), top, digits(ranks))).gap(3)
        lines.append(line)
    return lines


def _picked(ranks: Sequence[int], found: dict[int, float], room: int) -> list[int]:
    """All, or where they do not fit the slowest and those that said nothing."""
    if len(ranks) <= room:
        return list(ranks)
    return sorted(sorted(ranks, key=lambda r: -found.get(r, float("inf")))[:room])


def _title(
    palette: Palette, glyphs: Glyphs, group: Group, found: dict[int, float], ranks: Sequence[int], width: int, why: str
) -> Line:
    line = Line().gap(1).put(group.shown.strip()[: width // 3], palette.bold).gap(2)
    if len(found) == 1:
        only = min(found)
        line.put(f"only rank {only} said it" if only >= 0 else "only the launcher said it", palette.muted)
        line.put(f": {why}" if why and only >= 0 else "", palette.muted)
        return line.cut(width - 1).rule(width - 1, palette.rule, glyphs.rule)
    if max(found, default=0) < 0:
        line.put(f"said by {len(found)} launchers", palette.muted)
        return line.cut(width - 1).rule(width - 1, palette.rule, glyphs.rule)
    slow = [(rank, at) for rank, at in found.items() if at > LATE_S]
    quick = [at for at in found.values() if at <= LATE_S]
    line.put(f"{len(quick)} of {len(ranks)} ranks within {max(quick, default=0) * 1000:.0f} ms", palette.muted)
    if slow:
        rank, at = max(slow, key=lambda pair: pair[1])
        who = f"rank {rank}" if len(slow) == 1 else f"{len(slow)} others"
        line.put(f", {who} up to {at:.1f} s late" if len(slow) > 1 else f", {who} came {at:.1f} s late", palette.watch)
    elif missing := [r for r in ranks if r not in found]:
        line.put(f", {len(missing)} did not say it", palette.muted)
    end = Line().put("seconds after the first rank", palette.muted).gap(1)
    if line.width + end.width + 4 > width:
        return line.cut(width - 1)
    return line.rule(width - end.width - 1, palette.rule, glyphs.rule).ends_with(end, width, gap=1)


def _cell(palette: Palette, glyphs: Glyphs, rank: int, at: float | None, top: float, width: int) -> Line:
    line = Line().put(glyphs.hue, palette.hues[rank % len(palette.hues)])
    late = at is not None and at > LATE_S
    line.put(f"{rank:0{width}d}", palette.bold if late else palette.muted).gap(2)
    if at is None:
        return line.put("said nothing", palette.faint, width=20)
    level(line, palette, glyphs, max(0.04, at / top), 12, palette.watch if late else palette.data[2])
    return line.gap(1).put(f"{at:.3f}", palette.watch if late else palette.muted, width=7, right=True)
