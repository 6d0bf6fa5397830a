"""The list of hosts: rows with marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.hosts import select
from distui.tui.paint.paint import Line
from distui.tui.widgets.rows import Painter, RowList


class HostTable(RowList):
    """A RowList whose rows can be marked; actions of the screen apply to the marks, else to the row.

    Marks are names of hosts: a row that stands for several of them is marked when all are.
    """

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "open", ("enter",), "Move", footer=True, help="GPUs, links, processes and facts of the host."),
        Action("mark", "mark", ("space",), "Move", footer=True, help="Mark the host, and go on to the next."),
        Action("mark_range", "mark to here", ("V",), "Move", help="Mark all rows from the last mark to this one."),
        Action("unmark", "unmark all", ("U",), "Move"),
        Action("column_right", "next column", ("l", "right"), "Move", help="Where the hosts stand in columns."),
        Action("column_left", "column before", ("h", "left"), "Move"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS[1:])

    class Marked(Message):
        """The marks have changed."""

    def __init__(self, painter: Painter, *, id: str | None = None) -> None:
        super().__init__(self._with_mark, id=id)
        self.inner = painter
        self.marks: frozenset[str] = frozenset()
        self.members: Callable[[str], tuple[str, ...]] = lambda key: (key,)
        """The hosts a row stands for."""
        self._last = ""

    def _with_mark(self, number: int, width: int, here: bool) -> Line:
        """The row of the inner painter with the mark in the cell after the cursor's."""
        line = self.inner(number, width, here)
        hosts = self.members(self.rows[number].key)
        marked = self.marks.intersection(hosts)
        if not marked:
            return line
        glyphs, palette = glyphs_of(self), palette_of(self)
        whole = len(marked) == len(hosts)
        mark = Line().gap(1).put(glyphs.mark if whole else glyphs.absent, palette.key)
        first, style = line.pieces[0]
        line.pieces[0] = (first[2:], style)
        line.width -= 2
        return mark.add(line)

    @property
    def targets(self) -> tuple[str, ...]:
        """What an action applies to: the marked hosts in the order shown, else those of the row under the cursor."""
        return self._marked or (self.members(self.key) if self.key else ())

    @property
    def hidden_marks(self) -> int:
        """How many marked hosts are in no row that is shown: no action is for them."""
        return len(self.marks.difference(self._marked))

    @property
    def _marked(self) -> tuple[str, ...]:
        return tuple(name for row in self.rows for name in self.members(row.key) if name in self.marks)

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
            self.set_marks(select.toggled(self.marks, self.members(self.key)))
            self.action_down()

    def action_mark_range(self) -> None:
        """Mark from the last mark to here."""
        if self.key:
            keys = select.span([row.key for row in self.rows], self._last, self.key)
            self.set_marks(self.marks.union(*(self.members(key) for key in keys)))
            self._last = self.key

    def action_unmark(self) -> None:
        """No marks."""
        self.set_marks(frozenset())

    def action_column_right(self) -> None:
        """The host beside this one, in the next column."""
        if self.at + self.tall < len(self.rows):
            self._move_to(self.at + self.tall)

    def action_column_left(self) -> None:
        """The host beside this one, in the column before."""
        if self.at >= self.tall:
            self._move_to(self.at - self.tall)
