"""The figure of a run over its steps, in a few cells beside its logs: an area on its real zero, with its scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from distui.runs.state.progress import Point as Progress
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.curve import point
from distui.tui.plot.plot import Curve, Plot, axis_line, plot_lines


def loss_lines(
    palette: Palette, glyphs: Glyphs, name: str, seen: Sequence[Progress], newest: float | None, width: int, height: int
) -> list[Line]:
    """Title with the newest value, the plot, and the steps it goes over; by the number of the line without steps."""
    found = [(p.values.get("step", float(i)), p.values[name]) for i, p in enumerate(seen) if name in p.values]
    points = [point(x, value) for x, value in found if math.isfinite(x) and math.isfinite(value)]
    if height < 2 or not points:
        return []
    last = found[-1][1] if newest is None else newest
    end = Line().put(shown(last), palette.bold if math.isfinite(last) else palette.wrong)
    title = Line().gap(1).put(name.capitalize(), palette.bold)
    title.rule(width - end.width - 1, palette.rule, glyphs.rule)
    low, high = min(p.x for p in points), max(p.x for p in points)
    high = high if high > low else low + 1
    plot = Plot([Curve(points, palette.data[2])], low, high, area=True, zero=True)
    rows = plot_lines(palette, glyphs, plot, width, height - 2 if height > 3 else height - 1)
    below = axis_line(palette, low, high, [low, high], [f"{low:,.0f}", f"{high:,.0f}"], width)
    return [title.ends_with(end, width, gap=1), *rows, *([below] if height > 3 else [])]


def shown(value: float) -> str:
    """A loss in as few digits as tell it: `2.104`, `0.0012`, `nan`."""
    if not math.isfinite(value) or value == 0:
        return str(value) if value else "0"
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 else f"{value:.3g}"
