"""Curves as rows of cells: an axis with ticks at the left, lines of dots or an area, a cursor. The one way to plot."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.style import Style

from distui.frozen import frozen
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import NOTHING, Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.curve import Point, binned, joined, smoothed
from distui.tui.plot.dots import HIGH, WIDE, Dots
from distui.tui.plot.scale import Scale, log_words, scale_of, tick_words, ticks

AXIS = 7
"""Cells of the labels at the left, with the gap after them."""
LEAST = AXIS + 2
"""Fewer cells show nothing."""


@frozen
class Curve:
    """Points in order of x, and how they are drawn."""

    points: Sequence[Point]
    style: Style
    band: bool = False
    """Whether what lies between the lowest and the highest is shown behind it."""
    gap: float = math.inf
    """Points further apart in x than this are not joined."""


@frozen
class Plot:
    """What is drawn: later curves lie above earlier ones."""

    curves: Sequence[Curve]
    low: float
    """x at the left edge, and at the right one."""
    high: float
    log: bool = False
    zero: bool = False
    """Whether the axis begins at zero."""
    top: float | None = None
    """Where the axis ends at least."""
    smooth: int = 0
    """Columns of dots at each side that a value is the mean of; what was measured is then shown behind it."""
    area: bool = False
    """Whether the first curve is filled down to the axis."""
    cursor: float | None = None


def plot_lines(palette: Palette, glyphs: Glyphs, plot: Plot, width: int, height: int) -> list[Line]:
    """`height` rows of `width` cells; nothing where that is too little."""
    cells = width - AXIS
    if height < 1 or width < LEAST:
        return []
    columns = [_columns(curve, plot, cells * (1 if plot.area else WIDE)) for curve in plot.curves]
    scale = _scale(plot, columns, height)
    labels = _labels(scale, height)
    cursor = _cursor(plot, cells)
    if plot.area:
        rows = [_area_row(palette, glyphs, columns[0] if columns else [], scale, row, height) for row in range(height)]
    else:
        rows = _dot_rows(palette, glyphs, plot, columns, scale, cells, height, cursor)
    lines = []
    for row in reversed(range(height)):
        line = Line().put(labels.get(row, ""), palette.faint, width=AXIS - 1, right=True).gap(1)
        lines.append(line.add(rows[row]))
    return lines


def _columns(curve: Curve, plot: Plot, cells: int) -> list[Point | None]:
    return joined(binned(curve.points, plot.low, plot.high, cells), curve.gap)


def _scale(plot: Plot, columns: Sequence[Sequence[Point | None]], height: int) -> Scale:
    values = [plot.top] if plot.top is not None and not plot.log else []
    for curve, found in zip(plot.curves, columns, strict=True):
        known = [point for point in found if point is not None]
        values += [p.mid for p in known]
        if curve.band:
            values += [v for p in known for v in (p.low, p.high)]
    return scale_of(values, max(4, 2 * height), log=plot.log, zero=plot.zero)


def _labels(scale: Scale, height: int) -> dict[int, str]:
    """Row from the bottom -> its label: both ends, and what fits between them."""
    if height == 1:
        return {0: _fitting(_words(scale, [scale.high])[0])}
    found = {0: scale.low, height - 1: scale.high}
    for value in ticks(scale, max(2, height // 3)):
        row = round((scale.part(value) or 0.0) * (height * HIGH - 1)) // HIGH
        if all(abs(row - taken) > (height > 3) for taken in found):
            found[row] = value
    return {row: _fitting(word) for row, word in zip(found, _words(scale, list(found.values())), strict=True)}


def _words(scale: Scale, values: Sequence[float]) -> list[str]:
    return (log_words if scale.log else tick_words)(values)


def _fitting(word: str) -> str:
    """Nothing instead of a part of a number."""
    return word if len(word) < AXIS else ""


def _cursor(plot: Plot, cells: int) -> int | None:
    if plot.cursor is None or not plot.low <= plot.cursor <= plot.high:
        return None
    return column_of(plot.cursor, plot.low, plot.high, cells)


def column_of(x: float, low: float, high: float, cells: int) -> int:
    """The cell in which `x` lies."""
    return max(0, min(cells - 1, int((x - low) / (high - low) * cells)))


def _dot_rows(
    palette: Palette,
    glyphs: Glyphs,
    plot: Plot,
    columns: Sequence[Sequence[Point | None]],
    scale: Scale,
    cells: int,
    height: int,
    cursor: int | None,
) -> list[Line]:
    """Rows from the bottom up."""
    dots, top = Dots(cells, height, ascii=glyphs.rule.isascii()), height * HIGH - 1

    def at(value: float) -> int | None:
        part = scale.part(value)
        return None if part is None else round(max(-0.1, min(1.1, part)) * top)

    for number, (curve, found) in enumerate(zip(plot.curves, columns, strict=True)):
        if curve.band:
            for x, known in enumerate(found):
                low, high = (at(known.low), at(known.high)) if known is not None else (None, None)
                if high is not None:
                    dots.upright(x, low if low is not None else 0, high, 0)
        if plot.smooth:
            _line(dots, [at(p.mid) if p is not None else None for p in found], 1)
            found = smoothed(found, plot.smooth)
        _line(dots, [at(p.mid) if p is not None else None for p in found], 2 + number)
    styles = [palette.data[0], palette.data[1], *(curve.style for curve in plot.curves)]
    return [_row(palette, glyphs, dots, styles, row, cells, cursor) for row in range(height)]


def _row(
    palette: Palette, glyphs: Glyphs, dots: Dots, styles: Sequence[Style], row: int, cells: int, cursor: int | None
) -> Line:
    """One row of dots, with as few pieces as there are styles side by side."""
    line, text, ink = Line(), "", NOTHING
    for column in range(cells):
        dot = dots.cell(column, row)
        sign, style = (dot.sign, styles[dot.layer]) if dot is not None else (" ", NOTHING)
        if column == cursor:
            sign, style = (sign if dot is not None else glyphs.tree), palette.accent
        if style is not ink:
            line.put(text, ink)
            text, ink = "", style
        text += sign
    return line.put(text, ink)


def _line(dots: Dots, heights: Sequence[int | None], layer: int) -> None:
    """Dots of one curve, each joined to the one before."""
    before: int | None = None
    for x, y in enumerate(heights):
        if y is not None:
            begin = y if before is None or before == y else before + (1 if y > before else -1)
            dots.upright(x, begin, y, layer)
        before = y


def _area_row(
    palette: Palette, glyphs: Glyphs, columns: Sequence[Point | None], scale: Scale, row: int, height: int
) -> Line:
    """One row of an area; the lowest one shows that a value is known, even if it is nothing."""
    style, steps, text = palette.data[1 + min(2, 3 * row // height)], len(glyphs.area), ""
    for known in columns:
        part = scale.part(known.mid) if known is not None else None
        full = 0 if part is None else min(steps, max(0, round(part * height * steps) - row * steps))
        text += glyphs.area[full - 1] if full else glyphs.area[0] if row == 0 and part is not None else " "
    return Line().put(text, style)


def axis_line(
    palette: Palette,
    low: float,
    high: float,
    values: Sequence[float],
    words: Sequence[str],
    width: int,
    *,
    here: tuple[float, str] | None = None,
) -> Line:
    """The row below a plot: words at their places in x, and `here` at the cursor, before which others give way."""
    cells = width - AXIS
    if cells < 1 or not high > low:
        return Line()
    placed: list[tuple[int, str, Style]] = []
    for x, text, style in [*([(*here, palette.accent)] if here else []),
                           *((x, text, palette.faint) for x, text in zip(values, words, strict=True))]:  # fmt: skip
        begin = column_of(x, low, high, cells) - len(text) // 2
        begin = max(0, min(cells - len(text), begin))
        if len(text) <= cells and all(begin >= b + len(t) + 2 or begin + len(text) + 2 <= b for b, t, _ in placed):
            placed.append((begin, text, style))
    line = Line().gap(AXIS)
    for begin, text, style in sorted(placed, key=lambda one: one[0]):
        line.gap(AXIS + begin - line.width).put(text, style)
    return line


def beside(left: Sequence[Line], right: Sequence[Line], at: int) -> list[Line]:
    """Two blocks of lines side by side, the right one beginning at cell `at`."""
    lines = []
    for i in range(max(len(left), len(right))):
        line = (left[i] if i < len(left) else Line()).cut(at - 1)
        if i < len(right):
            line.gap(at - line.width).add(right[i])
        lines.append(line)
    return lines
