"""The list of hosts: rows with marks."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from tui import select
from tui.actions import Action, bindings
from tui.base import glyphs_of, look_of
from tui.paint import Line
from tui.widgets.rows import Painter, RowList


class HostTable(RowList):
    """A RowList whose rows can be marked; actions of the screen apply to the marks, else to the row."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "open", ("enter",), "Move", footer=True, help="GPUs, links, processes and facts of the host."),
        Action("mark", "mark", ("space",), "Move", footer=True, help="Mark the host, and go on to the next."),
        Action("mark_range", "mark to here", ("V",), "Move", help="Mark all rows from the last mark to this one."),
        Action("unmark", "unmark all", ("U",), "Move"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS[1:])

    class Marked(Message):
        """The marks have changed."""

    def __init__(self, painter: Painter, *, id: str | None = None) -> None:
        super().__init__(self._with_mark, id=id)
        self.inner = painter
        self.marks: frozenset[str] = frozenset()
        self._last = ""

    def _with_mark(self, number: int, width: int, here: bool) -> Line:
        """The row of the inner painter with the mark in the cell after the cursor's."""
        line = self.inner(number, width, here)
        if self.rows[number].key not in self.marks:
            return line
        mark = Line().gap(1).put(glyphs_of(self).mark, look_of(self).key)
        first, style = line.pieces[0]
        line.pieces[0] = (first[2:], style)
        line.width -= 2
        return mark.add(line)

    @property
    def targets(self) -> tuple[str, ...]:
        """What an action applies to: the marked rows in the order shown, else the row under the cursor."""
        marked = tuple(row.key for row in self.rows if row.key in self.marks)
        return marked or ((self.key,) if self.key else ())

    def set_marks(self, marks: frozenset[str]) -> None:
        """Mark exactly these."""
        if marks != self.marks:
            self.marks = marks
            self.repaint()
            self.post_message(self.Marked())

    def action_mark(self) -> None:
        """Mark or unmark the row and go on."""
        if self.key:
            self._last = self.key
            self.set_marks(select.toggled(self.marks, self.key))
            self.action_down()

    def action_mark_range(self) -> None:
        """Mark from the last mark to here."""
        if self.key:
            names = [row.key for row in self.rows]
            self.set_marks(self.marks | select.span(names, self._last, self.key))
            self._last = self.key

    def action_unmark(self) -> None:
        """No marks."""
        self.set_marks(frozenset())
