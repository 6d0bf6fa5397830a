"""What log panes share: a title with a rule, rows drawn by line, following, a cursor, scrolling. No layout on growth.

Whoever feeds a pane only marks it dirty; a pump flushes one dirty pane at a time (`tui/logs/pump.py`).
"""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Focus, MouseScrollDown, MouseScrollUp, Resize
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.paint import Line
from distui.tui.paint.steady import Steady

WHEEL = 3
SIDE = 8


class Pane(Steady, can_focus=True):
    """A one-line title and a window on rows. Following shows the last rows; any move up pauses it."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("down", "down", ("j", "down"), "Move"),
        Action("up", "up", ("k", "up"), "Move"),
        Action("first", "first line", ("g", "home"), "Move"),
        Action("last", "last line", ("G", "end"), "Move", help="The last line; the pane follows again."),
        Action("half_down", "half a page down", ("ctrl+d",), "Move"),
        Action("half_up", "half a page up", ("ctrl+u",), "Move"),
        Action("page_down", "a page down", ("ctrl+f", "pagedown"), "Move"),
        Action("page_up", "a page up", ("ctrl+b", "pageup"), "Move"),
        Action("left", "left", ("h", "left"), "Move"),
        Action("right", "right", ("l", "right"), "Move"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = "Pane { height: 1fr; width: 1fr; min-height: 2; }"
    auto_links = False

    class Active(Message):
        """The pane was focused or clicked: keys for logs mean this one."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    class AtTop(Message):
        """The first row was asked for while it was the cursor's already."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, number: int, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.number = number
        self.active = False
        self.dirty = True
        self.more = False
        """Whether there was more to read than one flush may take."""
        self.flushed = 0.0
        """When it was last flushed, by the pump's clock."""
        self.follow = True
        self.top = 0
        self.left = 0
        self.cursor: int | None = None
        """The row of the cursor; None while following."""
        self._painted: object = None
        """What it was painted from last; files grow behind its back."""
        self.since = 0
        """Which of the last minutes are shown: an index of SINCE_S."""
        self.only = ""
        """What only lines with it are shown, as it was typed; empty for all."""
        self.seen = 0
        """Rows there were when following was paused."""

    # What subclasses say.

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return 0

    @property
    def content(self) -> object:
        """What rows are painted from: they are painted again when it has changed."""
        return self.rows

    def row_strip(self, row: int) -> Strip:
        """One row, uncut and without background; column 0 is left to the gutter."""
        return Strip([])

    def title(self, width: int) -> Line:
        """The title's row, rule and all."""
        return Line()

    def row_text(self, row: int) -> str:
        """A row's text as it is copied."""
        return self.row_strip(row).text

    @property
    def text_from(self) -> int:
        """The first cell of a row that is its text: what is before it, such as the time, is never copied."""
        return 0

    def sign(self, row: int) -> tuple[str, Style]:
        """The sign in column 0, and its style."""
        return " ", Style()

    def row_fill(self, row: int) -> Style | None:
        """A background of the row."""
        return None

    def grow(self, budget: float) -> bool:
        """Take in what is new, for at most `budget` seconds. Whether more is to do."""
        return False

    def prepare(self) -> None:
        """Called before rows are drawn: fetch what is visible in one go."""

    # Following and moving.

    @property
    def height(self) -> int:
        """Rows visible under the title."""
        return max(0, self.size.height - 1)

    @property
    def new_rows(self) -> int:
        """Rows that came since following was paused."""
        return 0 if self.follow else max(0, self.rows - self.seen)

    @property
    def shown(self) -> int:
        """How many rows are seen at once."""
        return self.height

    def top_for(self, row: int) -> int:
        """The top row when this one is the last that is seen."""
        return row - self.height + 1

    @property
    def bottom(self) -> int:
        """The top row when the last one is visible."""
        return max(0, self.top_for(self.rows - 1))

    def flush(self, budget: float) -> bool:
        """Take in what is new and repaint when it shows. Whether more is to do."""
        more = self.grow(budget)
        self.dirty = self.more = more
        if more or self.content != self._painted:
            self._repaint_end()
        return more

    def _repaint_end(self) -> None:
        """Paint what has grown: all of it when it scrolls, else the rows that are not what they were."""
        if self.follow and self.top != self.bottom:
            self.repaint()
        else:
            self._painted = self.content
            self.refresh_changed()

    def refresh_changed(self) -> None:
        """See Steady."""
        self.prepare()
        super().refresh_changed()

    def repaint(self) -> None:
        """Paint all rows again, the last ones while following: there may be more than at the last flush."""
        if self.follow:
            self.top = self.bottom
        self._painted = self.content
        self.refresh()

    def set_follow(self, follow: bool) -> None:
        """Follow, or stay where it is."""
        if follow:
            self.cursor = None
        elif self.follow:
            self.seen = self.rows
        self.follow = follow
        self.repaint()

    def go(self, row: int, *, centre: bool = False) -> None:
        """Put the cursor on a row and show it; following is paused."""
        if not self.rows:
            return
        if self.follow:
            self.set_follow(False)
        self.cursor = max(0, min(row, self.rows - 1))
        if centre and not self.top <= self.cursor < self.top + self.shown:
            self.top = self.cursor - self.shown // 2
        self._show_cursor(self.cursor)
        self.repaint()

    def _show_cursor(self, row: int) -> None:
        self.top = max(0, min(self.top, row, self.bottom), self.top_for(row))

    @property
    def at(self) -> int:
        """The row things are done to: the cursor's, else the last visible one."""
        return self.cursor if self.cursor is not None else max(0, min(self.top + self.shown, self.rows) - 1)

    def move(self, rows: int) -> None:
        """Move the cursor."""
        if rows > 0 and self.follow:
            return
        self.go(self.at + rows)

    def scroll(self, rows: int) -> None:
        """Scroll as the mouse wheel does; at the end it follows again."""
        if rows < 0 and self.bottom:
            self.set_follow(False)
        elif rows > 0 and not self.follow and self.top + rows >= self.bottom:
            self.set_follow(True)
            return
        self.top = max(0, min(self.top + rows, self.bottom))
        if self.cursor is not None:
            self.cursor = max(self.top, min(self.cursor, self.top + self.shown - 1))
        self.repaint()

    def action_down(self) -> None:
        """The next line."""
        self.move(1)

    def action_up(self) -> None:
        """The line above."""
        self.move(-1)

    def action_half_down(self) -> None:
        """Half a page down."""
        self.move(max(1, self.shown // 2))

    def action_half_up(self) -> None:
        """Half a page up."""
        self.move(-max(1, self.shown // 2))

    def action_page_down(self) -> None:
        """A page down."""
        self.move(self.shown)

    def action_page_up(self) -> None:
        """A page up."""
        self.move(-self.shown)

    def action_first(self) -> None:
        """The first line; again, what is before it."""
        if self.cursor == 0:
            self.post_message(self.AtTop(self))
        self.top = 0
        self.go(0)

    def action_last(self) -> None:
        """The last line, and follow."""
        self.set_follow(True)

    def action_left(self) -> None:
        """Scroll sideways."""
        self.left = max(0, self.left - SIDE)
        self.repaint()

    def action_right(self) -> None:
        """Scroll sideways, not beyond the longest row that is seen."""
        seen = range(self.top, min(self.top + self.shown, self.rows))
        if any(self.row_strip(row).cell_length > self.left + SIDE for row in seen):
            self.left += SIDE
            self.repaint()

    # Mouse.

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """See textual."""
        event.stop()
        self.scroll(WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """See textual."""
        event.stop()
        self.scroll(-WHEEL)

    def on_click(self, event: Click) -> None:
        """A click puts the cursor there."""
        row = self.top + event.y - 1
        if event.y > 0 and row < self.rows and not self.text_selection:
            self.go(row)

    def on_focus(self, event: Focus) -> None:
        """Keys for logs mean this pane now."""
        self.post_message(self.Active(self))

    # Drawing.

    def on_resize(self, event: Resize) -> None:
        """The end stays visible."""
        if not self.follow and self.cursor is not None:
            self._show_cursor(self.cursor)
        self.repaint()

    def render_lines(self, crop: object) -> list[Strip]:
        """See textual: all rows of one paint are fetched at once."""
        self.prepare()
        return super().render_lines(crop)  # type: ignore[arg-type]

    def painted_row(self, y: int) -> Strip:
        """See Steady."""
        width, base = self.size.width, self.rich_style
        if y == 0:
            return self.title(width).cut(width).strip(width, base)
        row = self.top + y - 1
        if row >= self.rows:
            return Strip.blank(width, base)
        return self.paint(row, self.left, width, base)

    def paint(self, row: int, left: int, width: int, base: Style) -> Strip:
        """One row with gutter, cut to the pane; what goes on to the right ends in a sign."""
        palette, glyphs = palette_of(self), glyphs_of(self)
        sign, style = self.sign(row)
        fill = self.row_fill(row)
        if row == self.cursor:
            fill = fill or palette.cursor_row
            sign, style = (glyphs.cursor, palette.accent) if sign == " " else (sign, style)
        if fill is not None:
            base += fill
        body = self._selected(row, self.row_strip(row))
        room, longer = width - 1, body.cell_length > left + width - 1
        shown = body.crop(left, left + room - 1 if longer else left + room)
        line = Line().put(sign, style).strip(1, base)
        strips = [line, shown.apply_style(base).adjust_cell_length(room - 1 if longer else room, base)]
        if longer:
            strips.append(Line().put(glyphs.more, palette.accent).strip(1, base))
        return Strip.join(strips).apply_offsets(left - 1, row)

    # Selection: Textual marks with the mouse, rows are counted from the first one so that it survives scrolling.

    def _selected(self, row: int, strip: Strip) -> Strip:
        selection = self.text_selection
        if selection is None or (span := selection.get_span(row)) is None:
            return strip
        start, end = span
        end = strip.cell_length if end == -1 else min(end, strip.cell_length)
        if start >= end:
            return strip
        marked = strip.crop(start, end).apply_style(Style(reverse=True))
        return Strip.join([strip.crop(0, start), marked, strip.crop(end)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """See textual: the text that is marked."""
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self.rows - 1
        taken = []
        for row in range(max(0, first), min(last, self.rows - 1, first + 10_000) + 1):
            span = selection.get_span(row)
            if span is not None:
                text = self.row_strip(row).text
                taken.append(text[max(span[0], self.text_from) : None if span[1] == -1 else span[1]])
        return ("\n".join(taken), "\n") if taken else None

    def selection_updated(self, selection: Selection | None) -> None:
        """See textual: marking pauses, so that the text stays under the mouse."""
        if selection is not None and self.follow:
            self.set_follow(False)
        self.repaint()
