"""The last minutes of something that is sampled each second, as an area. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.curve import point
from distui.tui.plot.plot import Curve, Plot, axis_line, plot_lines
from distui.tui.plot.scale import length_words

GAP_S = 3.0
"""Samples further apart than this are not joined."""


def recent_lines(
    palette: Palette,
    glyphs: Glyphs,
    samples: Sequence[float | None],
    width: int,
    rows: int,
    *,
    top: float | None = None,
    seconds: int = 300,
) -> list[Line]:
    """The last `seconds`, newest at the right, in `rows` rows and one for the time; `top` is on the axis at least."""
    recent = samples[-seconds:]
    points = [point(i + 0.5 - len(recent), value) for i, value in enumerate(recent) if value is not None]
    plot = Plot([Curve(points, palette.data[2], gap=GAP_S)], float(-seconds), 0.0, area=True, zero=True, top=top)
    below = axis_line(palette, -seconds, 0, [-seconds, 0], [*length_words([-seconds]), "now"], width)
    return [*plot_lines(palette, glyphs, plot, width, rows), below]
