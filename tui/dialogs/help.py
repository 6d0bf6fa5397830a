"""The keys of a place, made from the registry of actions."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input

from distui.tui.dialogs.keys import DialogKeys, Keys
from distui.tui.dialogs.over import Over
from distui.tui.frame.actions import Action
from distui.tui.frame.base import HEIGHTS, View
from distui.tui.frame.context import app_of, palette_of
from distui.tui.frame.help import help_rows, reachable, short_rows
from distui.tui.frame.keys import actions_here
from distui.tui.paint.paint import Line
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import Row, RowList

KEYS: Keys = (("type", "to find a key or an action"), ("up down", "scroll"), ("esc", "close"))
LEAST = 10
"""Rows of the list below which nothing is kept in sight beside it."""


class HelpScreen(Over[None]):
    """Grouped by task; what touches hosts stands apart. Where sentences have no room only names are listed; typing
    filters, and says of what it finds all that is known."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,ctrl+c,ctrl+q", "dismiss_help", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown,ctrl+d", "move(10)", show=False, priority=True),
        Binding("pageup,ctrl+u", "move(-10)", show=False, priority=True),
    ]
    VERTICAL_BREAKPOINTS = HEIGHTS
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen:ansi { background: transparent; }
    HelpScreen > Vertical {
        width: 140; max-width: 100%; height: auto; max-height: 100%; background: $panel; padding: 1 2;
    }
    HelpScreen.-h0 > Vertical { padding: 0; max-height: 100%; }
    HelpScreen Input { border: none; height: 1; padding: 0 1; background: $cursor; margin: 0 0 1 0; }
    HelpScreen Input:focus { border: none; }
    HelpScreen.-h0 Input { margin: 0; }
    HelpScreen RowList { height: auto; max-height: 100%; background: $panel; }
    HelpScreen #changes { margin: 1 0 0 0; background: $panel; }
    """

    def __init__(self, behind: Screen[Any]) -> None:
        super().__init__()
        self.actions: tuple[Action, ...] = reachable(actions_here(behind), app_of(behind).keymap)
        self.place = behind.PLACE if isinstance(behind, View) else ""
        self._lines: list[Line] = []
        self._changes: list[Line] = []
        """What touches hosts: below the list, and always seen where there is room."""

    def compose(self) -> ComposeResult:
        """See textual."""
        with Vertical():
            yield Input(placeholder=f"keys of {self.place}: type to find a key or an action", compact=True)
            yield RowList(self._paint)
            yield Painted(lambda width, height: [Line().gap(1).add(line) for line in self._changes], id="changes")
        yield DialogKeys(lambda: KEYS)

    def on_mount(self) -> None:
        """Everything."""
        self.query_one(RowList).can_focus = False
        self.query_one(Input).focus()
        self._show("")

    def on_resize(self) -> None:
        """Two columns where there is room."""
        self._show(self.query_one(Input).value)

    def _show(self, wanted: str) -> None:
        rows = self.query_one(RowList)
        width = min(140, self.app.size.width) - 6
        keymap, palette = app_of(self).keymap, palette_of(self)
        most = self.app.size.height - 5
        self._lines, self._changes = help_rows(self.actions, keymap, palette, width, wanted)
        if not wanted.strip() and len(self._lines) + 1 + len(self._changes) > most:
            self._lines, self._changes = short_rows(self.actions, keymap, palette, width)
        room = most - (len(self._changes) + 1)
        if room < LEAST:
            self._lines += [*([Line()] if self._lines and self._changes else []), *self._changes]
            self._changes = []
        changes = self.query_one("#changes", Painted)
        changes.display, changes.styles.height = bool(self._changes), max(1, len(self._changes))
        changes.repaint()
        rows.styles.height = max(1, len(self._lines) if not self._changes else min(len(self._lines), room))
        rows.set_rows([Row("", plain=True)] * len(self._lines))
        rows.refresh()

    def _paint(self, number: int, width: int, here: bool) -> Line:
        return Line().gap(1).add(self._lines[number])

    def on_input_changed(self, event: Input.Changed) -> None:
        """Every key filters."""
        self._show(event.value)

    def action_dismiss_help(self) -> None:
        """Back to what is behind."""
        self.dismiss()

    def action_move(self, step: int) -> None:
        """Scroll; its keys come first of all, also before the list is there."""
        for rows in self.query(RowList):
            rows.scroll_relative(y=step, animate=False)
