"""Searching the panes of the run view, filtering the active one, and going from error to error."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.widgets import Input, Static

from distui.patterns import given_up
from distui.tui.frame.actions import Action
from distui.tui.frame.bars import FilterBar
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.search import TROUBLE, LogView, Pattern, find, pattern_of, read_on
from distui.tui.run.panes.failure import FailureNavigator
from distui.tui.run.panes.panes import Panes


class LogSearch(Part):
    """What is searched, and what only is shown. Without a search its keys go from one failed rank to the next."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("search", "search", ("slash",), "Logs", "search", footer=True, help="Find text or a regex in the log."),
        Action(
            "next_match", "next match", ("n",), "Logs", footer=True,
            help="The next line that matches; without a search, the culprit: the next rank that failed or is behind.",
            also="culprit stalled stuck hangs holds up slow suspect failure",
        ),
        Action(
            "previous_match", "previous match", ("N",), "Logs",
            also="culprit stalled stuck hangs holds up slow suspect failure",
        ),
        Action(
            "only", "filter", ("ampersand",), "Logs", "filter", footer=True,
            help="Show only lines that match; `!text` those that do not.",
        ),
        Action("next_error", "next error", ("e",), "Logs", footer=True, help="The next line that looks like trouble."),
        Action("previous_error", "previous error", ("E",), "Logs"),
    )  # fmt: skip

    def __init__(self, view: View, panes: Panes, failures: FailureNavigator) -> None:
        self.view = view
        self.panes = panes
        self.failures = failures
        self.text = ""
        """What is searched, as it was typed."""
        self._asking: Literal["search", "only"] = "search"

    @property
    def only(self) -> str:
        """The filter of the active pane, as it was typed."""
        return self.panes.active.only

    def undo(self) -> bool:
        """End the search, then the filter. Whether there was one."""
        if self.text:
            self.set_search("")
        elif self.only:
            self.set_only("")
        else:
            return False
        return True

    # Typing.

    def _ask(self, what: Literal["search", "only"], sign: str, text: str, hint: str) -> None:
        self._asking = what
        bar = self.view.query_one(FilterBar)
        bar.query_one(Static).update(sign)
        bar.query_one(Input).placeholder = hint
        bar.open(text)

    def action_search(self) -> None:
        """Open the search row."""
        self._ask("search", "/", "", "text or regex, enter finds the next one, n N go on, esc ends")

    def action_only(self) -> None:
        """Open the filter row."""
        self._ask("only", "&", self.only, "show only lines with this text or regex, !text without, esc shows all")

    def typed(self, text: str, *, done: bool) -> None:
        """What is typed takes effect at once; enter looks for the next match."""
        if self._asking == "only":
            self.set_only(text)
        elif text or not done:
            self.set_search(text)
        else:
            self.set_search("")
        if done:
            self.view.focus_back()
            self._say_slow()
            if self._asking == "search" and text:
                self._look(1)
        self.panes.changed()

    def set_search(self, text: str) -> None:
        """Mark what matches, in every pane: `n` goes on in whichever is the active one."""
        self.text, pattern = text, pattern_of(text) if text else None
        panes: list[LogPane | MergedPane] = [*self.panes.grid.logs, *self.panes.merged]
        for pane in panes:
            pane.pattern = pattern
            pane.repaint()

    def set_only(self, text: str) -> None:
        """Show only matching lines in the active pane."""
        pane = self.panes.active
        pane.only = text
        if isinstance(pane, LogPane) and pane.view is not None:
            pane.view.set_filter(text)
            pane.dirty = True
            pane.set_follow(True)
        elif isinstance(pane, MergedPane):
            inverse = text.startswith("!") and len(text) > 1
            pane.set_filter(pattern_of(text[inverse:]) if text else None, inverse=inverse)

    def _say_slow(self) -> None:
        """A pattern that took too long finds nothing: that is said."""
        pane = self.panes.active
        merged = pane.filter if isinstance(pane, MergedPane) else None
        single = pane.view.filter.pattern if isinstance(pane, LogPane) and pane.view and pane.view.filter else None
        searched = pane.pattern if isinstance(pane, LogPane | MergedPane) else None
        if words := given_up(merged) or given_up(single) or given_up(searched):
            app_of(self.view).tell(f"this pattern {words}; write another", level="warning")

    def command_search(self, argument: str) -> None:
        """`:search TEXT`."""
        self.set_search(argument)
        self._look(1)

    def command_filter(self, argument: str) -> None:
        """`:filter TEXT`."""
        self.set_only(argument)
        self._say_slow()
        self.panes.changed()

    # Finding.

    @property
    def by_rank(self) -> bool:
        """Whether the keys for matches go to ranks that failed or hold others up: nothing is searched."""
        return not self.text and bool(self.failures.suspects)

    def action_next_match(self) -> None:
        """Further down; without a search the next rank that failed or holds others up."""
        self.failures.step(1) if self.by_rank else self._look(1)

    def action_previous_match(self) -> None:
        """Further up; without a search such a rank before."""
        self.failures.step(-1) if self.by_rank else self._look(-1)

    def action_next_error(self) -> None:
        """Further down."""
        self._look(1, trouble=True)

    def action_previous_error(self) -> None:
        """Further up."""
        self._look(-1, trouble=True)

    def _look(self, step: int, *, trouble: bool = False) -> None:
        if not trouble and not self.text:
            app_of(self.view).tell("nothing to look for; / starts a search")
            return
        pattern = TROUBLE if trouble else pattern_of(self.text)
        what = "trouble" if trouble else self.text
        pane = self.panes.active
        if isinstance(pane, MergedPane):
            if not pane.find(None if trouble else pattern, step):
                app_of(self.view).tell(f"no line with {what}")
        elif isinstance(pane, LogPane) and pane.view is not None:
            self.view.work(self._find(pane, pane.view, pattern, step, what), name="find", group="find")

    async def _find(self, pane: LogPane, view: LogView, pattern: Pattern, step: int, what: str) -> None:
        """Search the file, round the end once, over lines a filter hides."""
        await read_on(view)
        buffer = view.buffer
        start = view.line(pane.at) if view.rows else 0
        line = await find(buffer, pattern, start, step)
        if line is None or line < view.floor:
            line = await find(buffer, pattern, view.floor - 1 if step > 0 else buffer.count, step)
        if words := given_up(pattern):
            app_of(self.view).tell(f"{what} {words}; write another", level="warning")
            return
        if line is None or pane.view is not view or line < view.floor:
            app_of(self.view).tell(f"no line with {what} in {buffer.path.name}")
            return
        pane.go_to_line(line)
        self.panes.changed()
