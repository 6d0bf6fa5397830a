"""The Metrics page of a run: what it measured over time, with a cursor; live, ended or played again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp

from distui.cluster.backend.values import LiveRun
from distui.runs.lines.text import safe
from distui.runs.series.words import value_words
from distui.runs.state.standstill import standstill
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.metrics.painting import SMOOTH, Looks, Page, members_of, page_lines, shares, state_line, value_at
from distui.tui.metrics.panels import Panel, panels_of
from distui.tui.metrics.progress import progress_line
from distui.tui.metrics.reading import NOTHING, Readings, RunReader, with_last
from distui.tui.metrics.window import Window
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.plot.dots import WIDE
from distui.tui.plot.plot import AXIS
from distui.tui.widgets.painted import Painted

TICK_S = 1.0
"""How often a run that goes on is looked at."""
SLOWEST_S = 30.0
"""New values are read at least so often, and no sooner than they would move something."""
NEAR = 0.5
"""Zooming in shows so much of what was seen."""


class Plots(Painted):
    """The plots; a click puts the cursor there, the wheel zooms."""

    can_focus = True

    @property
    def page(self) -> MetricsScreen:
        """The screen it is on."""
        screen = self.screen
        assert isinstance(screen, MetricsScreen)
        return screen

    def on_click(self, event: Click) -> None:
        """The cursor goes there."""
        self.page.point_at(event.x, event.y)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Closer."""
        self.page.action_closer()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Further away."""
        self.page.action_wider()


class MetricsScreen(View):
    """Plots under each other over one time axis. Reads in a thread, and paints what is known meanwhile."""

    VIEW = "runs"
    PLACE = "Metrics"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("earlier", "cursor", ("left", "h"), "Move", footer=True, help="The cursor to earlier values."),
        Action("later", "cursor right", ("right", "l"), "Move", help="The cursor to later values; at the end, none."),
        Action("plot_down", "next plot", ("down", "j"), "Move", help="The next plot."),
        Action("plot_up", "plot before", ("up", "k"), "Move", help="The plot before."),
        Action("first", "begin", ("home", "g"), "Move", help="The cursor to the begin of the run."),
        Action("newest", "newest", ("end", "G"), "Move", help="The newest values, and those that come."),
        Action("closer", "zoom", ("plus", "equals_sign"), "View", footer=True, help="Half as much time."),
        Action("wider", "zoom out", ("minus", "underscore"), "View", help="Twice as much time."),
        Action("whole", "all", ("0",), "View", footer=True, help="All the time there is."),
        Action("pan_back", "pan back", ("less_than_sign", "comma"), "View", help="Half a window earlier."),
        Action("pan_on", "pan on", ("greater_than_sign", "full_stop"), "View", help="Half a window later."),
        Action("alone", "one plot", ("f", "enter"), "View", footer=True, help="This plot alone, and back."),
        Action("ranks", "ranks", ("r",), "View", "ranks", footer=True,
               help="Each rank and host by itself; else median, lowest and highest of all."),
        Action("next_member", "next rank", ("right_square_bracket",), "View", help="Of single ranks, the next one."),
        Action("last_member", "rank before", ("left_square_bracket",), "View", help="Of single ranks, the one before."),
        Action("smooth", "smooth", ("s",), "View", "smooth", footer=True,
               help="Means over 2, 6, 20 % of the width, with what was measured behind; then off."),
        Action("log_axis", "log", ("L",), "View", "log", footer=True, help="This axis by powers of ten, and back."),
        Action("times", "times", ("t",), "View", help="Time of day, or since the begin."),
        Action("copy_values", "copy", ("y", "c"), "View", help="The values at the cursor, into the clipboard."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    MetricsScreen #plots { height: 1fr; }
    """

    def __init__(self, live: LiveRun, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.live = live
        self.looks = Looks()
        self.window: Window | None = None
        self.readings: Readings = NOTHING
        self.panels: tuple[Panel, ...] = ()
        self.read_yet = False
        self._clock = clock
        self._stored = live.stored
        self._reader = RunReader.of(live.stored)
        self.reading = False
        """Whether the files are being read just now."""
        self._again = False
        self._read_at = float("-inf")
        self._read_ended = False
        """Whether it was read since the run has ended."""

    # What it shows.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Runs", self.live.plan.run_id, "metrics")

    def headline(self, line: Line, palette: Palette) -> None:
        """Where the run is, or since when it stands still."""
        state, now = self.live.state, self._clock()
        stands, over = standstill(self.live.plan, state, now), state.ended is not None or state.stopping is not None
        line.add(progress_line(palette, state.progress, over=over, room=self.size.width - 40, stands=stands, now=now))

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Plots(self._plots, id="plots")
        yield Painted(self._state, id="state")

    @property
    def page(self) -> Page | None:
        """All that is painted; None before anything was read."""
        if self.window is None:
            return None
        return Page(self.readings, self.panels, self.window, self.looks)

    @property
    def panel(self) -> Panel | None:
        """The one that the keys are about."""
        return self.panels[self.looks.focus] if self.panels else None

    def _plots(self, width: int, height: int) -> list[Line]:
        page = self.page
        if page is None:
            return [Line().gap(1).put(self._nothing(), self.palette.muted)]
        return page_lines(self.palette, self.glyphs, page, width, height)

    def _nothing(self) -> str:
        """Why there is no page."""
        if not self.read_yet:
            return "reading"
        if not self._stored.path.exists():
            return "the run's folder was removed from this machine, with what was measured"
        return "nothing of this run was measured on this machine"

    def _state(self, width: int, height: int) -> list[Line]:
        page = self.page
        return [state_line(self.palette, page, width)] if page is not None else []

    @property
    def dots(self) -> int:
        """Columns of dots of a plot: as fine as values are read."""
        return max(WIDE, WIDE * (self.query_one("#plots").size.width - 1 - AXIS))

    # Reading.

    def on_mount(self) -> None:
        """Read at once, then as values come."""
        self.query_one(Plots).focus()
        self._read()
        self.set_interval(TICK_S, self._tick)

    def on_resize(self) -> None:
        """More cells show more."""
        self._read()

    def _tick(self) -> None:
        """Read on while the run goes on, as often as that would move something."""
        if self.closing:
            return
        if self._is_due():
            self._read()
        self.refresh_bars()

    def _is_due(self) -> bool:
        """Whether to read on; once more when the run has ended, since what it measured last is written then."""
        if self.live.state.ended is not None:
            return not self._read_ended
        pace = self.window.span / self.dots if self.window is not None else 0.0
        return not 0 <= self._clock() - self._read_at < min(SLOWEST_S, pace)  # a clock may be set back

    def _read(self) -> None:
        """Have it read what is looked at; once more afterwards where it is being read already."""
        self._again = True
        if not self.reading:
            self.reading = True
            self.work(self._reads(), name="metrics", alone=False)

    async def _reads(self) -> None:
        try:
            while self._again and not self.closing:
                self._again, self._read_at = False, self._clock()
                self._read_ended = self.live.state.ended is not None
                if self.live.stored != self._stored:  # its owner left, and it is looked on at in a copy
                    self._stored = self.live.stored
                    self._reader = RunReader.of(self._stored)
                found = await asyncio.to_thread(self._found, self.window, self.looks, self.dots)
                self.read_yet = True
                if not self.closing:
                    self._take(found)
        finally:
            self.reading = False

    def _found(self, window: Window | None, looks: Looks, dots: int) -> Readings:
        span = self._reader.span()
        if span is None:
            return NOTHING
        window = Window.of(*span) if window is None else window.grown(*span)
        every = window.span / dots
        names = [name for panel in self.panels for name in panel.names] if looks.each else []
        margin = max(every * 4, 60.0)
        found = self._reader.read(window.low - margin, window.high + margin, finest=every, each=names, ranks=True)
        state = self.live.state
        at_end = window.high >= window.end
        return with_last(found, state.progress, goes_on=state.ended is None) if at_end else found

    def _take(self, found: Readings) -> None:
        self.readings = found
        if found.span is not None:
            self.window = Window.of(*found.span) if self.window is None else self.window.grown(*found.span)
        focus = self.panel.name if self.panel is not None else ""
        self.panels = panels_of(found.names)
        at = next((i for i, panel in enumerate(self.panels) if panel.name == focus), 0)
        self.looks = replace(self.looks, focus=at)
        self._repaint()

    def _repaint(self) -> None:
        for painted in self.query("#body Painted").results(Painted):
            painted.repaint()
        self.refresh_bars()

    # Keys.

    def _show(self, window: Window | None = None, **looks: object) -> None:
        """Look at something else: what is known at once, and what has to be read for it."""
        if window is not None:
            moved = self.window is None or (window.low, window.high) != (self.window.low, self.window.high)
            self.window = window
            if moved:
                self._read()
        if looks:
            self.looks = replace(self.looks, **looks)  # type: ignore[arg-type]
        self._repaint()

    def _move(self, cells: int) -> None:
        if self.window is not None:
            self._show(self.window.moved(cells * WIDE * self.window.span / self.dots))

    def action_earlier(self) -> None:
        """The cursor one cell to the left."""
        self._move(-1)

    def action_later(self) -> None:
        """The cursor one cell to the right."""
        self._move(1)

    def _step(self, number: int) -> None:
        if self.panels:
            self._show(focus=(self.looks.focus + number) % len(self.panels))

    def action_plot_down(self) -> None:
        """The next plot."""
        self._step(1)

    def action_plot_up(self) -> None:
        """The plot before."""
        self._step(-1)

    def action_first(self) -> None:
        """The begin."""
        if self.window is not None:
            self._show(self.window.first())

    def action_newest(self) -> None:
        """The end."""
        if self.window is not None:
            self._show(self.window.last())

    def action_closer(self) -> None:
        """Half as much time."""
        if self.window is not None:
            self._show(self.window.zoomed(NEAR))

    def action_wider(self) -> None:
        """Twice as much."""
        if self.window is not None:
            self._show(self.window.zoomed(1 / NEAR))

    def action_whole(self) -> None:
        """All of it."""
        if self.window is not None:
            self._show(self.window.whole())

    def action_pan_back(self) -> None:
        """Half a window earlier."""
        if self.window is not None:
            self._show(self.window.panned(-0.5))

    def action_pan_on(self) -> None:
        """Half a window later."""
        if self.window is not None:
            self._show(self.window.panned(0.5))

    def action_alone(self) -> None:
        """This plot alone, and back."""
        self._show(alone=not self.looks.alone)

    def action_ranks(self) -> None:
        """Each by itself, or folded."""
        self._show(each=not self.looks.each)
        self._read()

    def action_next_member(self) -> None:
        """The next rank."""
        self._member(1)

    def action_last_member(self) -> None:
        """The rank before."""
        self._member(-1)

    def _member(self, number: int) -> None:
        page, panel = self.page, self.panel
        count = len(members_of(page, panel)) // len(panel.names) if page is not None and panel is not None else 0
        if not self.looks.each or count < 2:
            app_of(self).tell("r shows each rank by itself; [ and ] then choose one")
            return
        self._show(member=(self.looks.member + number) % count)

    def action_smooth(self) -> None:
        """Smoother, then as it was."""
        self._show(smooth=(self.looks.smooth + 1) % len(SMOOTH))

    def action_log_axis(self) -> None:
        """By powers of ten, and back."""
        self._show(log=not self.looks.log)

    def action_times(self) -> None:
        """Time of day, or since the begin."""
        self._show(clock=not self.looks.clock)

    def action_copy_values(self) -> None:
        """A line for each series, as they are in the titles."""
        page = self.page
        if page is None:
            app_of(self).tell("nothing was measured yet")
            return
        rows = []
        for name in (name for panel in self.panels for name in panel.names):
            found = value_at(self.readings.points.get(name, ()), page.window, self.readings.finest_of(name))
            if found is not None:
                rows.append("\t".join((safe(name), *(value_words(name, v) for v in found[1:]))))
        app_of(self).copy("\n".join(("series\tmedian\tlowest\thighest", *rows)) + "\n")

    def point_at(self, x: int, y: int) -> None:
        """A click: the cursor, and the plot below it."""
        window, cells = self.window, self.dots // WIDE
        if window is None:
            return
        at = window.low + (min(max(0, x - AXIS), cells) + 0.5) / max(1, cells) * window.span
        row = 0
        for number, rows in shares(self.query_one("#plots").size.height - 1, len(self.panels), self.looks).items():
            if row <= y < row + rows:
                self.looks = replace(self.looks, focus=number)
            row += rows
        self._show(window.moved(at - window.at))

    def undo(self) -> bool:
        """One plot alone, then the zoom."""
        if self.looks.alone:
            self.action_alone()
            return True
        if self.window is not None and (self.window.cursor is not None or not self.window.is_whole):
            self._show(self.window.last().whole())
            return True
        return False
