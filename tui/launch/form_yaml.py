"""The job file as text: an editor whose problems are listed by line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from distui.errors import Problem
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.paint import Line, cut
from distui.tui.widgets.painted import Painted

MOST_LINES = 1000
"""Above this an editor of one's own is faster: a key would take 160 ms here (UX 5.3)."""
LISTED = 5
"""Problems listed below the text."""


class JobText(TextArea):
    """The text; escape leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_text", show=False, priority=True),
        Binding("f8,ctrl+n", "next_problem", show=False, priority=True),
    ]

    def action_next_problem(self) -> None:
        """To the next problem."""
        assert isinstance(self.parent, YamlPane)
        self.parent.next_problem()


class YamlPane(Vertical):
    """Text and problems. Too long a text is only shown."""

    DEFAULT_CSS = """
    YamlPane JobText { height: 1fr; border: none; padding: 0; background: $background; }
    YamlPane JobText:focus { border: none; }
    YamlPane #problems { height: auto; max-height: 7; }
    """

    class Edited(Message):
        """The text is another now."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.problems: tuple[Problem, ...] = ()
        self._known = ""
        """The text both sides know of: typing that is on its way must not be undone."""

    def compose(self) -> ComposeResult:
        """See textual."""
        area = JobText("", show_line_numbers=True, soft_wrap=False, tab_behavior="indent", compact=True)
        if find_spec("tree_sitter_yaml") is not None:
            area.language = "yaml"
        yield area
        yield Painted(self._problems, id="problems")

    @property
    def area(self) -> JobText:
        """The editor."""
        return self.query_one(JobText)

    def load(self, text: str) -> None:
        """Show another text, unless it is what was shown or told last."""
        area = self.area
        if self._known != text:
            self._known = text
            with area.prevent(TextArea.Changed):
                area.load_text(text)
        area.read_only = text.count("\n") > MOST_LINES
        self._measure()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """List them."""
        self.problems = tuple(problems)
        self._measure()

    def _measure(self) -> None:
        listed = self.query_one("#problems", Painted)
        rows = min(len(self.problems), LISTED) + (len(self.problems) > LISTED) + self.area.read_only
        listed.styles.height = rows
        listed.display = rows > 0
        listed.repaint()

    def go(self, line: int, column: int = 1) -> None:
        """Put the cursor at a place, both from 1."""
        self.area.move_cursor((max(0, line - 1), max(0, column - 1)), center=True)
        self.area.focus()

    def next_problem(self) -> None:
        """To the problem after the cursor, else the first."""
        placed = [p for p in self.problems if p.line]
        row, column = self.area.cursor_location
        after = (p for p in placed if (p.line - 1, p.column - 1) > (row, column))
        found = next(after, placed[0] if placed else None)
        if found is not None:
            self.go(found.line, found.column)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Every key counts."""
        event.stop()
        self._known = event.text_area.text
        self.post_message(self.Edited(self._known))

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        """The problem of the cursor's line is bright."""
        event.stop()
        self.query_one("#problems", Painted).repaint()

    def _problems(self, width: int, height: int) -> list[Line]:
        palette, glyphs = palette_of(self), glyphs_of(self)
        row = self.area.cursor_location[0] + 1
        lines = []
        if self.area.read_only:
            message = f"more than {MOST_LINES:,} lines: e opens $EDITOR"
            lines.append(Line().gap(1).put(glyphs.remark, palette.watch).put(f" {message}", palette.muted))
        for problem in self.problems[:LISTED]:
            place = f"{problem.line}:{problem.column}" if problem.line else "file"
            subject = f"{problem.key}: " if problem.key else ""
            style = palette.wrong if problem.line == row else palette.watch
            line = Line().gap(1).put(place, palette.faint, width=7, right=True).gap(1)
            lines.append(line.put(cut(subject + problem.message, width - 10), style))
        if len(self.problems) > LISTED:
            lines.append(
                Line().gap(9).put(f"and {len(self.problems) - LISTED} more; F8 goes to the next", palette.muted)
            )
        return lines
