"""Areas over time: cells in three bands of the ramp by height, axis labels at the left and below. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.tui.paint import figures
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

AXIS = 5
"""Cells of the labels at the left."""


def area(
    samples: Sequence[float | None],
    width: int,
    height: int,
    top: float,
    palette: Palette,
    glyphs: Glyphs,
    *,
    seconds: int = 300,
) -> list[Line]:
    """The last `seconds` as an area of `height` rows, with `top` at its upper edge, and the time axis below."""
    cells = max(1, width - AXIS - 2)
    values = figures.resampled(samples, cells, seconds)
    lines = [_row(values, row, height, top, palette, glyphs) for row in reversed(range(height))]
    return [*lines, _times(cells, seconds, palette)]


def _row(values: Sequence[float | None], row: int, height: int, top: float, palette: Palette, glyphs: Glyphs) -> Line:
    """Row number `row` from the bottom."""
    label = {height - 1: top, 0: 0.0}.get(row)
    if row == height // 2 and height > 4:
        label = top / 2  # as near as a row comes to it
    line = Line().put("" if label is None else f"{label:.3g}", palette.faint, width=AXIS, right=True).gap(1)
    style = palette.data[1 + min(2, 3 * row // height)]
    return line.put("".join(_cell(v, row, height, top, glyphs) for v in values), style)


def _cell(value: float | None, row: int, height: int, top: float, glyphs: Glyphs) -> str:
    """A full, a part or an empty cell; the lowest row shows that a value is known, even if it is nothing."""
    if value is None:
        return " "
    part = value / top * height - row
    if part >= 1:
        return glyphs.area[-1]
    step = int(part * len(glyphs.area))
    if part <= 0 or step == 0:
        return glyphs.area[0] if row == 0 else " "
    return glyphs.area[step - 1]


def _times(cells: int, seconds: int, palette: Palette) -> Line:
    line = Line().gap(AXIS + 1).put(f"-{seconds // 60} min", palette.faint)
    return line.gap(AXIS + 1 + cells - line.width - 3).put("now", palette.faint)


def beside(left: Sequence[Line], right: Sequence[Line], at: int) -> list[Line]:
    """Two blocks of lines side by side, the right one beginning at cell `at`."""
    lines = []
    for i in range(max(len(left), len(right))):
        line = (left[i] if i < len(left) else Line()).cut(at - 1)
        if i < len(right):
            line.gap(at - line.width).add(right[i])
        lines.append(line)
    return lines
