"""A list of rows with a cursor, drawn by line: only what is visible is painted, however long the list is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from distui.frozen import frozen
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.paint import Line
from distui.tui.paint.steady import Steady


@frozen
class Row:
    """One row: what it stands for, and whether the cursor may be on it. Headings have an empty key."""

    key: str
    plain: bool = False
    """A heading, a rule or an empty row: the cursor passes over it."""


Painter = Callable[[int, int, bool], Line]
"""(row number, width in cells, whether the cursor is on it) -> the row. Column 0 belongs to the cursor."""

MOVES = (
    Action("down", "down", ("j", "down"), "Move"),
    Action("up", "up", ("k", "up"), "Move"),
    Action("first", "first", ("g", "home"), "Move"),
    Action("last", "last", ("G", "end"), "Move"),
    Action("half_down", "half a page down", ("ctrl+d",), "Move"),
    Action("half_up", "half a page up", ("ctrl+u",), "Move"),
    Action("page_down", "a page down", ("ctrl+f", "pagedown"), "Move"),
    Action("page_up", "a page up", ("ctrl+b", "pageup"), "Move"),
)


class RowList(ScrollView, Steady, can_focus=True):
    """Rows painted by `painter`. Keeps the cursor on the same key when rows come, go or move."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (*MOVES, Action("choose", "open", ("enter",), "Move"))
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    RowList { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    class _OfRow(Message):
        """What happened at the row of `key`."""

        def __init__(self, rows: RowList, key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

        @property
        def control(self) -> RowList:
            """The list, for `@on` with a selector."""
            return self.rows

    class Chosen(_OfRow):
        """Enter, or a second click on the row of `key`."""

    class Moved(_OfRow):
        """The cursor is on the row of `key` now ("" when there is none)."""

    def __init__(self, painter: Painter, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.painter = painter
        self.rows: tuple[Row, ...] = ()
        self.at = 0
        self.across = 1
        """Columns of rows: the first is filled from top to bottom before the second begins."""

    # The rows.

    @property
    def key(self) -> str:
        """The key under the cursor; "" when there is none."""
        return self.rows[self.at].key if self.rows and not self.rows[self.at].plain else ""

    def set_rows(self, rows: Sequence[Row | str]) -> None:
        """Show other rows; the cursor stays on its key, else near where it was."""
        before, seen = self.key, self._sees(self.at)
        self.rows = tuple(row if isinstance(row, Row) else Row(row) for row in rows)
        same = next((i for i, row in enumerate(self.rows) if row.key == before and not row.plain), None)
        self.at = self._free(self.at if same is None else same, 1)
        self._measure()
        if seen and not self._sees(self.at):
            self._show_cursor()
        if self.key != before:
            self.post_message(self.Moved(self, self.key))

    def repaint(self, keys: Sequence[str] = ()) -> None:
        """Paint the rows of these keys again, all of them when none is named."""
        if not keys:
            self.refresh()
            return
        for i, row in enumerate(self.rows):
            if row.key in keys:
                self._repaint_row(i)

    def go(self, key: str) -> None:
        """Put the cursor on the row of `key`, if there is one."""
        for i, row in enumerate(self.rows):
            if row.key == key and not row.plain:
                self._move_to(i)
                return

    # Drawing.

    @property
    def tall(self) -> int:
        """How many rows a column has."""
        return max(1, -(-len(self.rows) // self.across))

    def set_across(self, columns: int) -> None:
        """Show the rows in so many columns."""
        if columns != self.across:
            self.across = columns
            self._measure()
            self._show_cursor()

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, self.tall if self.rows else 0)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        """The rows are as wide as the list."""
        self._measure()
        self._show_cursor()

    def painted_row(self, y: int) -> Strip:
        """See Steady."""
        row, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if self.across == 1:
            return self._row(row, width)
        edges = [width * i // self.across for i in range(self.across + 1)]
        numbers = [row + i * self.tall if row < self.tall else len(self.rows) for i in range(self.across)]
        return Strip.join([self._row(n, edges[i + 1] - edges[i]) for i, n in enumerate(numbers)])

    def _row(self, number: int, width: int) -> Strip:
        base = self.rich_style
        if number >= len(self.rows):
            return Strip.blank(width, base)
        here = number == self.at and not self.rows[number].plain
        palette = palette_of(self)
        if here and self.has_focus_within:
            base += palette.cursor_row
        line = self.painter(number, width, here)
        if not here:
            return line.cut(width).strip(width, base)
        mark = Line().put(glyphs_of(self).cursor, palette.accent)
        first = line.pieces[0] if line.pieces else ("", Style())
        if first[0].startswith(" "):
            line.pieces[0] = (first[0][1:], first[1])
            line.width -= 1
        return mark.add(line).cut(width).strip(width, base)

    def _repaint_row(self, number: int) -> None:
        y = number % self.tall - self.scroll_offset.y
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    # Moving.

    def _free(self, at: int, step: int) -> int:
        """The nearest row the cursor may be on, first in the direction of `step`."""
        at = max(0, min(at, len(self.rows) - 1))
        for direction in (step, -step):
            i = at
            while 0 <= i < len(self.rows):
                if not self.rows[i].plain:
                    return i
                i += direction
        return at

    def _move_to(self, at: int, step: int = 1) -> None:
        if not self.rows:
            return
        before, self.at = self.at, self._free(at, step)
        self._show_cursor()
        if before != self.at:
            self._repaint_row(before)
            self._repaint_row(self.at)
            self.post_message(self.Moved(self, self.key))

    def _sees(self, number: int) -> bool:
        """Whether a row is on the screen."""
        return 0 <= number % self.tall - self.scroll_offset.y < self.scrollable_content_region.height

    def _show_cursor(self) -> None:
        """Scroll so far that the cursor is seen; headings right above it, too.

        `force`: of rows that came just now the list may have no scrollbar yet.
        """
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        at = first = self.at % self.tall
        while self.across == 1 and first > 0 and self.rows[first - 1].plain:
            first -= 1
        if first < top and height:
            self.scroll_to(y=first if at - first < height else at, animate=False, force=True)
        elif height and at >= top + height:
            self.scroll_to(y=at - height + 1, animate=False, force=True)

    def action_down(self) -> None:
        """One row down."""
        self._move_to(self.at + 1)

    def action_up(self) -> None:
        """One row up."""
        self._move_to(self.at - 1, -1)

    def action_first(self) -> None:
        """The first row."""
        self._move_to(0)

    def action_last(self) -> None:
        """The last row."""
        self._move_to(len(self.rows) - 1, -1)

    def action_half_down(self) -> None:
        """Half a page down."""
        self._move_to(self.at + max(1, self.size.height // 2))

    def action_half_up(self) -> None:
        """Half a page up."""
        self._move_to(self.at - max(1, self.size.height // 2), -1)

    def action_page_down(self) -> None:
        """A page down."""
        self._move_to(self.at + max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        """A page up."""
        self._move_to(self.at - max(1, self.size.height - 1), -1)

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.key:
            self.post_message(self.Chosen(self, self.key))

    def on_click(self, event: Click) -> None:
        """A click moves the cursor; a second one on the same row opens it."""
        column = event.x * self.across // max(1, self.scrollable_content_region.width)
        number = event.y + self.scroll_offset.y + column * self.tall
        if not 0 <= number < len(self.rows) or self.rows[number].plain:
            return
        if number == self.at and event.chain >= 2:
            self.action_choose()
        else:
            self._move_to(number)
