"""A text to read: a plan, a diff of two plans, raw JSON, evidence."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import plural
from distui.regex import regex
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import ViewName, app_of
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.widgets.rows import RowList

_HEADING = regex(r"[A-Z][A-Z ]{4,}(?=[:,]|$)")
"""`FIRST FAILURE: rank 13`, `LOOK FURTHER`."""
_LABEL = regex(r"[a-z0-9][\w -]{0,14}?  +(?=\S)")
"""`cause      the GPU ran out of memory`: the word that says what the rest is."""


class TextScreen(View):
    """Lines with a cursor; of a diff the new lines are bright. `/` keeps only lines that contain the text."""

    PLACE = "A text"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        FILTER,
        Action("copy_all", "copy all", ("c", "y"), "View", footer=True, help="The whole text into the clipboard."),
        Action("side_right", "right", ("l", "right"), "Move"),
        Action("side_left", "left", ("h", "left"), "Move"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self, title: str, text: str, view: ViewName = "runs") -> None:
        super().__init__()
        self.VIEW = view  # type: ignore[misc]  # of the view it was opened from
        self.name_shown = title
        self.text = text
        self.lines = text.splitlines()
        self.left = 0

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return (self.VIEW.title(), self.name_shown)

    def headline(self, line: Line, palette: Palette) -> None:
        """How long it is."""
        line.put(f"{len(self.lines):,}", palette.bold).put(f" {plural(len(self.lines), 'line')}", palette.faint)

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield RowList(self._paint)

    def on_mount(self) -> None:
        """All lines."""
        self.filter_changed()

    def filter_changed(self) -> None:
        """Only lines with the text."""
        wanted = self.filter_text.lower()
        kept = [str(i) for i, line in enumerate(self.lines) if wanted in line.lower()]
        self.query_one(RowList).set_rows(kept)

    def _paint(self, number: int, width: int, here: bool) -> Line:
        rows = self.query_one(RowList)
        text = self.lines[int(rows.rows[number].key)]
        palette = self.palette
        style = palette.text
        if text.startswith("FAIL"):
            style = palette.wrong
        elif text.startswith("warn "):
            style = palette.watch
        elif text.startswith(("+++", "---")):
            style = palette.accent
        elif text.startswith("+"):
            style = palette.bold
        elif text.startswith("-"):
            style = palette.muted
        elif _HEADING.match(text):
            style = palette.bold
        label = _LABEL.match(text) if style is palette.text and not self.left else None
        line = Line().gap(1).put(label[0], palette.muted) if label else Line().gap(1)
        return line.put(text[label.end() if label else self.left :], style)

    def action_side_right(self) -> None:
        """Further right."""
        self._side(8)

    def action_side_left(self) -> None:
        """Further left."""
        self._side(-8)

    def _side(self, step: int) -> None:
        longest = max(map(len, self.lines), default=0)
        self.left = max(0, min(self.left + step, longest - 8))
        self.query_one(RowList).repaint()

    def action_copy_all(self) -> None:
        """The whole text."""
        app_of(self).copy(self.text)
