"""The page of plots as rows: panels under each other over one time axis, values at the cursor, how it is looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.style import Style

from distui.amounts import counted, duration
from distui.frozen import frozen
from distui.runs.series.values import Series
from distui.runs.series.words import value_words
from distui.tui.metrics.panels import Panel, unit_at
from distui.tui.metrics.reading import Readings
from distui.tui.metrics.window import Window
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.curve import Point, nearest, usual_gap
from distui.tui.plot.plot import AXIS, Curve, Plot, axis_line, plot_lines
from distui.tui.plot.scale import clock_words, length_words, time_ticks

LEAST_ROWS = 4
"""Of a panel: its title and three rows of dots."""
SMOOTH = (0.0, 0.01, 0.03, 0.1)
"""Parts of the width at each side of a value that it is the mean of."""


@frozen
class Looks:
    """How the page is looked at."""

    focus: int = 0
    """The panel that the keys are about."""
    alone: bool = False
    """Whether only that one is shown."""
    each: bool = False
    """Each rank and host by itself; else median, lowest, highest."""
    member: int = 0
    """Which of them is the bright one."""
    log: bool = False
    smooth: int = 0
    clock: bool = True
    """Time of day, else since the begin."""


@frozen
class Page:
    """All that is painted."""

    readings: Readings
    panels: Sequence[Panel]
    window: Window
    looks: Looks


def shares(height: int, panels: int, looks: Looks) -> dict[int, int]:
    """Panel -> its rows: all where they fit, else those around the one with the keys."""
    if not panels or height < 2:
        return {}
    if looks.alone or height < LEAST_ROWS:
        return {looks.focus: height}
    count = min(panels, max(1, height // LEAST_ROWS))
    first = max(0, min(looks.focus - count // 2, panels - count))
    rows, more = divmod(height, count)
    return {first + i: rows + (i < more) for i in range(count)}


def page_lines(palette: Palette, glyphs: Glyphs, page: Page, width: int, height: int) -> list[Line]:
    """Panels, then the time axis."""
    if not page.panels:
        return [Line().gap(1).put("nothing was measured yet", palette.muted)]
    lines: list[Line] = []
    for number, rows in shares(height - 1, len(page.panels), page.looks).items():
        panel = panel_lines(palette, glyphs, page, number, width - 1, rows)
        lines += panel + [Line()] * (rows - len(panel))
    return [*lines, time_line(palette, page, width - 1)]


def panel_lines(palette: Palette, glyphs: Glyphs, page: Page, number: int, width: int, rows: int) -> list[Line]:
    """The title with the values at the cursor, then the plot."""
    panel, looks, window = page.panels[number], page.looks, page.window
    here = number == looks.focus
    known = [point for name in panel.names for point in page.readings.between(name, window.low, window.high)]
    factor, unit = unit_at(panel.name, max((p.high for p in known if math.isfinite(p.high)), default=0.0))
    title = Line().put(glyphs.cursor if here else " ", palette.accent)
    title.put(panel.title, palette.accent if here else palette.bold).gap(2).put(
        f"{unit} {panel.per}".strip(), palette.faint
    )
    end = values_line(palette, page, panel)
    if title.width + end.width + 4 <= width:
        title.rule(width - end.width - 2, palette.accent if here else palette.rule, glyphs.rule)
    lines = [title.ends_with(end, width)]
    plot_rows = rows - 1 - (rows >= 7)
    plot = Plot(
        [_scaled(curve, factor) for curve in _curves(palette, page, panel)], window.low, window.high,
        log=looks.log and number == looks.focus, zero=panel.has_zero,
        top=panel.top, smooth=_radius(looks, width), cursor=window.cursor,
    )  # fmt: skip
    return lines + plot_lines(palette, glyphs, plot, width, plot_rows)


def _radius(looks: Looks, width: int) -> int:
    part = SMOOTH[looks.smooth]
    return max(1, round(part * 2 * max(0, width - AXIS))) if part else 0


def _curves(palette: Palette, page: Page, panel: Panel) -> list[Curve]:
    """Of one rank or host each where that is wanted, the chosen one on top; else all of them folded."""
    readings, window = page.readings, page.window
    found: list[Curve] = []
    for number, name in enumerate(panel.names):
        bright = palette.data[3] if number == 0 else palette.hues[1]
        finest = readings.finest_of(name)
        members = readings.members.get(name, {}) if page.looks.each else {}
        if len(members) > 1:
            chosen = _chosen(members, page.looks)
            for series, points in members.items():
                if series != chosen:
                    found.append(_curve(points, window, palette.data[1 if number == 0 else 0], finest))
            found.append(_curve(members[chosen], window, bright, finest))
        else:
            points = readings.between(name, window.low, window.high)
            curve = _curve(points, window, bright, finest)
            found.append(replace(curve, band=len(panel.names) == 1))
    return found


def _curve(points: Sequence[Point], window: Window, style: Style, finest: float) -> Curve:
    return Curve(points, style, gap=usual_gap(points, max(3 * finest, window.span / 100)))


def _scaled(curve: Curve, factor: float) -> Curve:
    if factor == 1:
        return curve
    return replace(curve, points=[Point(p.x, p.mid / factor, p.low / factor, p.high / factor) for p in curve.points])


def members_of(page: Page, panel: Panel) -> list[Series]:
    """The ranks or hosts of a panel."""
    return sorted({s for name in panel.names for s in page.readings.members.get(name, {})}, key=_order)


def _order(series: Series) -> tuple[int, str, str]:
    return (-1 if series.rank is None else series.rank, series.host, series.name)


def _chosen(members: Iterable[Series], looks: Looks) -> Series:
    found = sorted(members, key=_order)
    return found[looks.member % len(found)]


def values_line(palette: Palette, page: Page, panel: Panel) -> Line:
    """The values at the cursor, or the newest; nothing where none was measured near it."""
    line = Line()
    for name in panel.names:
        if name != panel.names[0]:
            line.gap(3)
        _value(line, palette, page, name, several=len(panel.names) > 1)
    return line


def _value(line: Line, palette: Palette, page: Page, name: str, *, several: bool) -> None:
    readings, looks = page.readings, page.looks
    members = readings.members.get(name, {}) if looks.each else {}
    points: Sequence[Point] = readings.points.get(name, ())
    if several:
        line.put(name.removeprefix("net_"), palette.faint).gap(1)
    if len(members) > 1:
        chosen = _chosen(members, looks)
        points = members[chosen]
        line.put(f"rank {chosen.rank}" if chosen.rank is not None else chosen.host, palette.muted).gap(2)
    found = value_at(points, page.window, readings.finest_of(name))
    if found is None:
        line.put("-", palette.faint)
        return
    low, mid, high = (value_words(name, value) for value in (found.low, found.mid, found.high))
    if low != high and not several and len(members) < 2:
        line.put(low, palette.muted).put(" to ", palette.faint).put(high, palette.muted).gap(2)
    line.put(mid, palette.bold if math.isfinite(found.mid) else palette.wrong)


def value_at(points: Sequence[Point], window: Window, finest: float) -> Point | None:
    """The point at the cursor; the newest one without it. None where the nearest is too far away."""
    if window.cursor is None:
        return points[-1] if points else None
    found = nearest(points, window.cursor)
    if found is None or abs(found.x - window.cursor) > usual_gap(points, max(3 * finest, window.span / 100)):
        return None
    return found


def time_line(palette: Palette, page: Page, width: int) -> Line:
    """Ticks of the time, and the cursor's own."""
    window, clock = page.window, page.looks.clock
    shift = 0.0 if clock else window.begin
    values = time_ticks(window.low - shift, window.high - shift, max(2, (width - AXIS) // 16), clock=clock)
    words = clock_words(values) if clock else length_words(values)
    here = None
    if window.cursor is not None:
        here = (window.cursor, moment_words(page, window.cursor))
    return axis_line(palette, window.low, window.high, [v + shift for v in values], words, width, here=here)


def moment_words(page: Page, at: float) -> str:
    """A moment to the second, with its day where more than one is looked at."""
    if not page.looks.clock:
        return length_words([at - page.window.begin])[0]
    return clock_words([at, at + 1])[0] if page.window.span < 86400 else _dated(at)


def _dated(at: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(at))


def state_line(palette: Palette, page: Page, width: int) -> Line:
    """How the page is looked at, and how much of the time is."""
    looks, window = page.looks, page.window
    end = Line()
    if (step := page.readings.step_at(window.at)) is not None:
        end.put("step ", palette.muted).put(f"{step:,.0f}", palette.bold).gap(3)
    end.put(duration(window.span), palette.text)
    if not window.is_whole:
        end.put(f" of {duration(window.end - window.begin)}", palette.muted)
    if len(page.panels) > 1:
        end.gap(3).put(f"{looks.focus + 1} of {counted(len(page.panels), 'plot')}", palette.muted)
    end.gap(1)
    line = Line().gap(1)
    smooth = f"{2 * SMOOTH[looks.smooth]:.0%} of the width" if looks.smooth else "off"
    for label, value in (
        ("smooth", smooth), ("log", "on" if looks.log else "off"), ("ranks", "each" if looks.each else "folded"),
        ("time", "clock" if looks.clock else "since the begin"),
    ):  # fmt: skip
        if line.width + len(label) + len(value) + 4 + end.width <= width:
            line.put(f"{label} ", palette.faint).put(value, palette.text).gap(3)
    return line.ends_with(end, width, gap=0)
