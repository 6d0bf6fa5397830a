"""Why a run does not go on, or slowly: each rank with its place in the collectives, and its calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import Blur, Focus, Resize

from distui.amounts import plural
from distui.cluster.backend.values import LiveRun
from distui.errors import DistuiError
from distui.runs.lines.explanation import RankPlace
from distui.runs.lines.text import safe
from distui.runs.report.network_words import network_text
from distui.runs.report.why_words import text
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.why import lines
from distui.tui.why.answers import Answer, Answers
from distui.tui.why.table import Table, head_line, rank_line
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import Row, RowList

TICK_S = 0.5
"""How often ages are painted again, and it is looked whether there is a new answer."""
BESIDE = 120
"""From so many columns on the calls are beside the ranks, else below them."""
FINDING, FIRST_RANKS, FIRST_CALLS = 4, 5, 7
"""Rows of a screen of 24 that the finding keeps, ranks with their heads, and what one rank does with two calls."""


class WhyRows(RowList):
    """One row a rank."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "to its log", ("enter",), "Logs", footer=True, help="The log of the rank under the cursor."),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)


class CallRows(RowList):
    """What one rank does, and its calls."""

    ACTIONS: ClassVar[tuple[Action, ...]] = ()

    def show(self, count: int) -> None:
        """So many rows; without the keys they have no cursor."""
        self.set_rows([Row(str(number), plain=not self.has_focus) for number in range(count)])

    def on_focus(self, event: Focus) -> None:
        """Its cursor can be moved."""
        self.show(len(self.rows))

    def on_blur(self, event: Blur) -> None:
        """And is not shown."""
        self.show(len(self.rows))


class WhyScreen(View):
    """Shows the last answer at once, and asks the ranks again meanwhile. They go on as they are."""

    VIEW = "runs"
    PLACE = "Why"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("again", "ask again", ("r",), "View", footer=True, help="Ask the ranks again."),
        Action(
            "stacks", "with calls", ("s",), "View", footer=True,
            help="Ask again, for the calls of every rank, too: each gets a signal, which may wake one that sleeps.",
        ),
        Action("copy_all", "copy all", ("y", "c"), "View", footer=True, help="All of the answer, into the clipboard."),
        Action("older", "older", ("right_square_bracket",), "View", footer=True, help="The answer before this one."),
        Action("newer", "newer", ("left_square_bracket",), "View", help="The answer after this one."),
        Action("other_list", "ranks or calls", ("tab",), "Move", help="From the ranks to the calls, and back."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    WhyScreen #mid { height: 1fr; width: 1fr; layout: vertical; }
    WhyScreen.-w120 #mid, WhyScreen.-w180 #mid { layout: horizontal; }
    WhyScreen #mid > Vertical { width: 1fr; height: 1fr; }
    WhyScreen.-w120 #ranks, WhyScreen.-w180 #ranks { width: 3fr; padding-right: 1; }
    WhyScreen.-w120 #calls, WhyScreen.-w180 #calls { width: 2fr; }
    WhyScreen #mid > Vertical { min-height: 1; }
    """

    def __init__(
        self, live: LiveRun, show_log: Callable[[int], None], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.answers = Answers(live, clock=clock)
        self.show_log = show_log
        self.table = Table.of(None)
        self._called: list[Line] = []
        """What is shown of the rank under the cursor."""

    # What it shows.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Runs", self.answers.live.plan.run_id, "why")

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """What it is in a word."""
        shown = self.answers.shown
        if shown is not None:
            found = shown.record.found
            line.gap(3).put(lines.kind_words(found), lines.kind_style(palette, found))

    def headline(self, line: Line, palette: Palette) -> None:
        """How many ranks were asked."""
        shown = self.answers.shown
        if shown is not None:
            count = len(shown.record.found.ranks)
            line.put(count, palette.bold).put(f" {plural(count, 'rank')}", palette.muted)

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(lambda width, _: [lines.answers_line(self.palette, self.answers, width)], id="answers")
        yield Painted(lambda width, _: lines.status_lines(self.palette, self.answers, width), id="status")
        yield Painted(self._head, id="head")
        with Container(id="mid"):
            with Vertical(id="ranks"):
                yield Painted(lambda width, _: [head_line(self.palette, self.table, width)], id="heads")
                yield WhyRows(self._rank, id="ranks-rows")
            with Vertical(id="calls"):
                yield Painted(self._title, id="title")
                yield CallRows(self._call, id="calls-rows")
        yield Painted(self._next, id="next")
        yield Painted(self._network, id="network")

    @property
    def rows(self) -> WhyRows:
        """The ranks."""
        return self.query_one(WhyRows)

    @property
    def place(self) -> RankPlace | None:
        """The rank under the cursor."""
        return next((place for place in self.table.places if str(place.rank) == self.rows.key), None)

    def _head(self, width: int, height: int) -> list[Line]:
        return lines.head_lines(self.palette, self.answers.shown, width, height)

    def _next(self, width: int, height: int) -> list[Line]:
        return lines.next_lines(self.palette, self.answers.shown, width, height)

    def _network(self, width: int, most: int) -> list[Line]:
        used, now = self.answers.live.state.network, self.answers.clock()
        return lines.network_lines(self.palette, used, now, width, most)

    def _title(self, width: int, height: int) -> list[Line]:
        return [lines.rank_title(self.palette, self.glyphs, self.place, width)]

    def _rank(self, number: int, width: int, here: bool) -> Line:
        return rank_line(self.palette, self.glyphs, self.table, number, width)

    def _call(self, number: int, width: int, here: bool) -> Line:
        known = self._called[number] if number < len(self._called) else Line()
        return Line().add(known)

    # What happens.

    def on_mount(self) -> None:
        """What is known at once; then ask."""
        self._show()
        self.set_interval(TICK_S, self._tick)
        self.rows.focus()
        self.work(self._open(), name="why", group="why")

    async def _open(self) -> None:
        await self._read()
        if self.answers.may_ask:
            await self._ask(stacks=False)

    async def _read(self) -> None:
        """What is kept here."""
        found = await asyncio.to_thread(self.answers.read)
        self.answers.read_yet = True
        self._take(found)

    async def _ask(self, *, stacks: bool) -> None:
        """Ask the ranks; what can't be asked is shown in words."""
        self.answers.begin()
        self._fit()
        self._repaint()
        try:
            found = await self.backend.why(self.answers.live.plan.run_id, stacks=stacks)
        except DistuiError as error:
            self.answers.end(error)
            self._fit()
            self._repaint()
        else:
            self.answers.end()
            self._take([Answer(found.record, found.slow)])

    def _take(self, found: Sequence[Answer]) -> None:
        self.answers.take(found)
        self._show()

    def _tick(self) -> None:
        """Ages; and what whoever follows the run has asked by itself."""
        if self.closing:
            return
        if self.answers.has_news():
            self.work(self._read(), name="read why")
        self.query_one("#status", Painted).repaint()

    def _show(self) -> None:
        """Another answer: who holds the others up comes first, and so does the cursor."""
        if self.closing:
            return
        at_top, rows = self.rows.at == 0, self.rows
        self.table = Table.of(self.answers.shown)
        rows.set_rows([str(place.rank) for place in self.table.places])
        if at_top and self.table.places:
            rows.go(str(self.table.places[0].rank))
        self._fit()
        self._show_calls()
        self._repaint()

    def _show_calls(self) -> None:
        """The rank under the cursor."""
        place, calls = self.place, self.query_one(CallRows)
        width = calls.scrollable_content_region.width
        self._called = lines.rank_lines(self.palette, self.answers, self.table, place, width) if place else []
        calls.show(len(self._called))
        self.query_one("#title", Painted).repaint()

    def _repaint(self) -> None:
        if self.closing:
            return
        for painted in self.query("#body Painted").results(Painted):
            painted.repaint()
        self.rows.repaint()
        self.refresh_bars()

    # Room.

    def on_resize(self, event: Resize) -> None:
        """Parts are as high as what is in them."""
        self.call_after_refresh(self._refit)

    def _refit(self) -> None:
        if not self.closing:
            self._fit()
            self.call_after_refresh(self._show_calls)
            self.call_after_refresh(self._repaint)

    def _fit(self) -> None:
        """Share the rows: first the ranks, then the finding, then the calls."""
        size, shown = self.query_one("#body").size, self.answers.shown
        if not size.width or self.closing:
            return
        answers = len(self.answers.all) > 1 and size.height >= 8
        advice = len(lines.next_lines(self.palette, shown, size.width, 2 if size.height >= 12 else 1))
        advice = advice if size.height >= 6 else 0
        most = max(2 if size.height >= 6 else 1, size.height // 3 if size.height < 30 else size.height // 2 - 6)
        network = len(self._network(size.width, 3)) if size.height >= 16 else 0
        status = len(lines.status_lines(self.palette, self.answers, size.width, 3 if size.height >= 12 else 1))
        rest = size.height - status - answers - advice - network
        ranks = 1 + len(self.table.places)
        beside = size.width >= BESIDE
        if not beside:  # what proves the finding leaves room for the first calls
            most = min(most, max(FINDING, rest - min(ranks, FIRST_RANKS) - FIRST_CALLS))
        head = len(lines.head_lines(self.palette, shown, size.width, most))
        rest -= head
        calls = rest >= 4 if beside else rest >= 9
        for name, rows in (("answers", int(answers)), ("head", head), ("next", advice), ("network", network)):
            part = self.query_one(f"#{name}")
            part.display = rows > 0
            part.styles.height = max(1, rows)
        self.query_one("#status").styles.height = status
        self.query_one("#calls").display = calls
        below = min(ranks, max(4, rest // 2))
        self.query_one("#ranks").styles.height = "1fr" if beside or not calls else below

    # Keys.

    def offers(self, action: Action) -> bool:
        """See View: a run that has ended can't be asked, and without an answer there is nothing to go to or to copy."""
        now = {
            "again": self.answers.may_ask, "stacks": self.answers.may_ask, "older": len(self.answers.all) > 1,
            "choose": self.place is not None, "copy_all": self.answers.shown is not None,
        }  # fmt: skip
        return now.get(action.id, True)

    def _again(self, *, stacks: bool) -> None:
        app = app_of(self)
        if not self.answers.may_ask:
            app.tell(f"{self.answers.live.plan.run_id} has ended: its ranks can't be asked any more")
        elif self.answers.asking_since is not None:
            app.tell("they are being asked")
        else:
            self.answers.at = 0
            self.work(self._ask(stacks=stacks), name="why", group="why")

    def action_again(self) -> None:
        """Ask once more."""
        self._again(stacks=False)

    def action_stacks(self) -> None:
        """Ask once more, for calls, too."""
        self._again(stacks=True)

    def action_older(self) -> None:
        """The answer before this one."""
        self._step(1)

    def action_newer(self) -> None:
        """The answer after this one."""
        self._step(-1)

    def _step(self, number: int) -> None:
        if self.answers.step(number):
            self._show()
        else:
            app_of(self).tell("nothing older is kept" if number > 0 else "this is the newest answer")

    def action_copy_all(self) -> None:
        """The text of `distui why --stacks`."""
        shown = self.answers.shown
        if shown is None:
            app_of(self).tell("the ranks have not answered yet" if self.answers.may_ask else "no answer is kept")
            return
        used = self.answers.live.state.network
        network = ("", *network_text(used, self.answers.clock())) if used is not None else ()
        lines = (*text(shown.record, shown.slow, stacks=True), *network)
        app_of(self).copy("\n".join(map(safe, lines)) + "\n")

    def action_other_list(self) -> None:
        """From the ranks to the calls, and back."""
        calls = self.query_one(CallRows)
        (calls if self.rows.has_focus and self.query_one("#calls").display else self.rows).focus()

    @on(RowList.Moved, "#ranks-rows")
    def on_another_rank(self, event: RowList.Moved) -> None:
        """The calls are those of the rank under the cursor."""
        self._show_calls()

    @on(RowList.Chosen)
    async def on_chosen(self, event: RowList.Chosen) -> None:
        """Enter: to the log of the rank."""
        event.stop()
        place = self.place
        if place is not None:
            await self.app.run_action("app.back")
            self.show_log(place.rank)
