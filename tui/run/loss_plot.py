"""The loss over the whole run, in a few cells: the present at the right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from distui.tui.paint.figures import resampled
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette


def plot_lines(
    palette: Palette, glyphs: Glyphs, name: str, values: Sequence[float], width: int, height: int
) -> list[Line]:
    """Title with the newest value, then an area in three bands of the ramp."""
    finite = [v for v in values if math.isfinite(v)]
    if height < 2 or not finite:
        return []
    end = Line().put(shown(values[-1]), palette.bold if math.isfinite(values[-1]) else palette.wrong)
    title = Line().gap(1).put(name.capitalize(), palette.bold)
    title.rule(width - end.width - 1, palette.rule, glyphs.rule)
    lines = [title.ends_with(end, width, gap=1)]
    columns = resampled(finite, width - 1, len(finite)) if len(finite) >= width - 1 else _stretched(finite, width - 1)
    heights = [_eighths(v, min(finite), max(finite), height - 1, len(glyphs.area)) for v in columns]
    for row in range(height - 2, -1, -1):
        lines.append(_row(palette, glyphs, heights, row, height - 1))
    return lines


def shown(value: float) -> str:
    """A loss in as few digits as tell it: `2.104`, `0.0012`, `nan`."""
    if not math.isfinite(value) or value == 0:
        return str(value) if value else "0"
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 else f"{value:.3g}"


def _stretched(values: Sequence[float], cells: int) -> list[float | None]:
    return [values[min(len(values) - 1, i * len(values) // cells)] for i in range(cells)]


def _eighths(value: float | None, low: float, high: float, rows: int, steps: int) -> int:
    """Height in parts of a cell; the lowest value still fills a third, so that the area stands on something."""
    if value is None:
        return 0
    part = 0.35 + 0.65 * ((value - low) / (high - low) if high > low else 0.3)
    return max(1, round(part * rows * steps))


def _row(palette: Palette, glyphs: Glyphs, heights: Sequence[int], row: int, rows: int) -> Line:
    steps = len(glyphs.area)
    band = palette.data[1 + min(2, row * 3 // max(1, rows))]
    line = Line().gap(1)
    for height in heights:
        filled = min(steps, max(0, height - row * steps))
        line.put(glyphs.area[filled - 1] if filled else " ", band)
    return line
