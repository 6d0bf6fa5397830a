"""Two runs compared: a table of figures, both curves on one plot, what differs between their jobs and plans."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import TextWrapper
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from distui.cluster.backend.values import LiveRun
from distui.plan.text.compare import compare
from distui.runs.lines.text import safe
from distui.runs.report.history import RunRow
from distui.runs.store.recorded import stored_progress
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.metrics.painting import SMOOTH
from distui.tui.metrics.reading import NOTHING, RunReader, with_last
from distui.tui.paint.paint import Line
from distui.tui.plot.curve import Point, usual_gap
from distui.tui.plot.dots import WIDE
from distui.tui.plot.plot import AXIS, Curve, Plot, axis_line, plot_lines
from distui.tui.plot.scale import Scale, length_words, tick_words, ticks, time_ticks
from distui.tui.runs.compare import Side, by_time, changed_keys, facts, figure_of
from distui.tui.runs.same_step import compared, steps_of
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import Row, RowList

Recorded = tuple[RunRow, LiveRun]

MOST_ROWS = 12
"""Of a difference, such as a command with its whole program; all of it is in what is copied."""


class CompareScreen(View):
    """The older run first. Read once: a run that goes on is shown as it was then."""

    VIEW = "runs"
    PLACE = "Compare"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("over", "over time", ("t",), "View", footer=True, help="The plot over the steps, or over the time."),
        Action("smooth", "smooth", ("s",), "View", "smooth", footer=True, help="Smoother, then as measured."),
        Action("log_axis", "log", ("L",), "View", "log", footer=True, help="The axis by powers of ten, and back."),
        Action("copy_all", "copy all", ("y", "c"), "View", footer=True, help="All of it as text, into the clipboard."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    CompareScreen #curves { height: 1fr; margin: 1 0; }
    CompareScreen.-h0 #curves, CompareScreen.-h24 #curves { margin: 0; }
    CompareScreen RowList { height: auto; max-height: 40%; }
    CompareScreen.-no-curve #curves { height: 1; }
    CompareScreen.-no-curve RowList { height: 1fr; max-height: 100%; }
    """

    def __init__(self, old: Recorded, new: Recorded) -> None:
        super().__init__()
        self.runs = (old, new)
        self.sides: tuple[Side, ...] = ()
        """What was read of both; empty before that."""
        self.timed = False
        """Whether the plot is over time."""
        self.powers = False
        self.smooth = 0
        self.lines: list[str] = []
        self.compared = False
        self._rows: list[tuple[int, str]] = []
        """Each row of the list: of which line it is, and its part of it."""

    # What it shows.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Runs", f"{self.runs[0][0].run} to {self.runs[1][0].run}")

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(self._table, id="table")
        yield Painted(self._curves, id="curves")
        yield RowList(self._difference)

    def on_mount(self) -> None:
        """Read both, in a thread."""
        self.query_one(RowList).focus()
        self.work(self._read(), name="compare")

    async def _read(self) -> None:
        width = max(1, WIDE * (self.size.width - AXIS - 1))
        found = await asyncio.gather(*(asyncio.to_thread(_side, row, live, width) for row, live in self.runs))
        if self.closing:
            return
        self.sides, self.lines = tuple(found), [f"comparing the plans{self.glyphs.ellipsis}"]
        self._show()
        self.lines = await asyncio.to_thread(self._differences)  # a second, of plans with hundreds of ranks
        self.compared = True
        if not self.closing:
            self._show()

    def _show(self) -> None:
        self._wrap()
        self.set_class(figure_of(*(side.readings for side in self.sides)) is None, "-no-curve")
        self.query_one("#table").styles.height = 1 + len(facts(*self.sides))
        for painted in self.query("#body Painted").results(Painted):
            painted.repaint()

    def on_resize(self) -> None:
        """Lines take the rows that they need."""
        self._wrap()

    def _wrap(self) -> None:
        room = max(20, self.size.width - 3)
        more = TextWrapper(
            room, subsequent_indent="      ", max_lines=MOST_ROWS, placeholder=f" {self.glyphs.ellipsis}"
        )
        self._rows = [(number, part) for number, line in enumerate(self.lines) for part in more.wrap(safe(line))]
        self.query_one(RowList).set_rows([Row(str(number)) for number in range(len(self._rows))])

    def _differences(self) -> list[str]:
        (_, old), (_, new) = self.runs
        keys = changed_keys(_job(old), _job(new)) if _job(old) and _job(new) else None
        plans = compare(old.plan, new.plan).splitlines()
        jobs = ["both ran the same job" if keys == [] else "the job of one of them is not recorded here"]
        jobs = ["JOB", *(f"  {key}" for key in keys)] if keys else jobs
        return [*jobs, *(["PLAN", *plans] if plans else ["both plans would run the same"])]

    def _table(self, width: int, height: int) -> list[Line]:
        palette = self.palette
        shown = facts(*self.sides) if self.sides else []
        label = max([20, *(len(fact.label) for fact in shown)])
        cells = min(24, max(10, (width - label - 4) // 3))
        line = Line().gap(1).put("", width=label)
        for (row, _), style in zip(self.runs, (palette.hues[1], palette.data[3]), strict=True):
            line.gap(2).put(self.glyphs.block, style).name(row.run, palette.bold, width=cells - 1)
        lines = [line]
        for fact in shown:
            line = Line().gap(1).put(fact.label, palette.muted, width=label).gap(2)
            line.put(fact.old, palette.text, width=cells).gap(2).put(fact.new, palette.bold, width=cells)
            lines.append(line.gap(2).put(fact.change, palette.muted))
        return lines

    def _curves(self, width: int, height: int) -> list[Line]:
        palette, sides = self.palette, self.sides
        if not sides:
            return [Line().gap(1).put("reading", palette.muted)]
        name = figure_of(sides[0].readings, sides[1].readings)
        if name is None or height < 4:
            return [Line().gap(1).put("" if name else "neither has a curve that the other has, too", palette.muted)]
        steps = steps_of(*(side.readings for side in sides))
        points: Sequence[Sequence[Point]]
        if self.timed:
            points = [by_time(side.readings, name, side.row.started) for side in sides]
        else:
            points = compared(sides[0].readings, sides[1].readings, name, steps).curves
        known = [0.0] * self.timed + [point.x for line in points for point in line]
        low, high = min(known, default=0.0), max(known, default=1.0)
        high = high if high > low else low + 1
        curves = [
            Curve(line, style, gap=usual_gap(line, (high - low) / 50))
            for line, style in zip(points, (palette.hues[1], palette.data[3]), strict=True)
        ]
        radius = round(SMOOTH[self.smooth] * WIDE * (width - AXIS))
        plot = Plot(curves, low, high, log=self.powers, smooth=max(1, radius) if self.smooth else 0)
        title = Line().gap(1).put(name.capitalize(), palette.bold).gap(2)
        title.put("over time" if self.timed else "over the steps", palette.faint)
        title.rule(width - 2, palette.rule, self.glyphs.rule)
        most = max(2, (width - AXIS) // 16)
        places = time_ticks(low, high, most, clock=False) if self.timed else ticks(Scale(low, high), most)
        words = length_words(places) if self.timed else tick_words(places)
        below = axis_line(palette, low, high, places, words, width - 1)
        return [title, *plot_lines(palette, self.glyphs, plot, width - 1, height - 2), below]

    def _difference(self, number: int, width: int, here: bool) -> Line:
        palette, (of, text) = self.palette, self._rows[number]
        begin = self.lines[of]
        style = palette.bold if begin.startswith("+") or begin.isupper() else palette.muted
        return Line().gap(1).put(text, palette.accent if begin.startswith(("+++", "---")) else style)

    # Keys.

    def title_of(self, action: Action) -> str:
        """See View."""
        return "over steps" if action.id == "over" and self.timed else action.title

    def _again(self) -> None:
        self.query_one("#curves", Painted).repaint()
        self.refresh_bars()

    def action_over(self) -> None:
        """Over steps, or time."""
        self.timed = not self.timed
        self._again()

    def action_smooth(self) -> None:
        """Smoother, then as it was."""
        self.smooth = (self.smooth + 1) % len(SMOOTH)
        self._again()

    def action_log_axis(self) -> None:
        """By powers of ten, and back."""
        self.powers = not self.powers
        self._again()

    def action_copy_all(self) -> None:
        """As text, once all of it is known."""
        if not self.compared:
            app_of(self).tell("the plans are still being compared", level="warning")
            return
        rows = [(fact.label, fact.old, fact.new, fact.change) for fact in facts(*self.sides)] if self.sides else []
        table = [("", *(row.run for row, _ in self.runs), ""), *rows]
        lines = ["\t".join(map(safe, row)) for row in table]
        app_of(self).copy("\n".join([*lines, "", *map(safe, self.lines)]) + "\n")


def _job(live: LiveRun) -> Mapping[str, object]:
    """The job as it was recorded; empty where it was not."""
    found = (live.stored.read_job() or {}).get("job")
    return found if isinstance(found, dict) else {}


def _side(row: RunRow, live: LiveRun, columns: int) -> Side:
    """All of a run, as fine as the plot is."""
    reader, now = RunReader.of(live.stored), time.time()
    span = reader.span()
    if span is None:
        return Side(row, live.plan, NOTHING, now)
    read = replace(reader.read(finest=(span[1] - span[0]) / columns), said=reader.by_step())
    said = live.state.progress or stored_progress(live.stored)
    return Side(row, live.plan, with_last(read, said, goes_on=live.state.ended is None), now)
