"""The log of one container: its last lines, and what comes."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from sys import getsizeof
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import plural
from distui.monitor.containers import HostContainer
from distui.runs.lines.severity import severity
from distui.runs.lines.text import LineAssembler, safe, text_of
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import app_of
from distui.tui.hosts import containers as host_containers
from distui.tui.logs.buffer import SHOWN_BYTES
from distui.tui.logs.highlight import spans
from distui.tui.logs.log_pane import kind_style
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.widgets.rows import RowList

KEPT = 10_000
"""Lines kept; older ones go. The container's engine has them all."""
KEPT_SIZE, LONGEST = 64 << 20, 1 << 18
"""Bytes of memory kept of all lines, and characters of one, which may take four bytes each: whoever started the
container may print without end or newline.
"""


class LogRows(RowList):
    """Lines with a cursor. On the last line it stays on the last line."""

    ACTIONS: ClassVar[tuple[Action, ...]] = ()

    @property
    def follows(self) -> bool:
        """Whether the cursor is on the last line."""
        return not self.rows or self.at >= len(self.rows) - 1


class ContainerLogScreen(View):
    """Lines as they come, safe to show. Moving up pauses, `F` or `G` follows again."""

    VIEW = "hosts"
    PLACE = "A container's log"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        FILTER,
        Action("follow", "follow", ("F",), "Logs", footer=True, help="Go to the end and stay there."),
        Action("wrong", "next error", ("e",), "Logs", footer=True, help="The next line that looks like an error."),
        Action("wrong_before", "error before", ("E",), "Logs"),
        Action("copy_line", "copy line", ("c",), "View", footer=True, help="The line under the cursor."),
        Action("side_right", "right", ("l", "right"), "Move"),
        Action("side_left", "left", ("h", "left"), "Move"),
        Action("back", "back", ("escape",), "Global", footer=True, help="Undo the filter, then go back."),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self, container: HostContainer) -> None:
        super().__init__()
        self.container = container
        self.lines: deque[str] = deque()
        self.first = 0
        """The number of the oldest line that is kept."""
        self._held = 0
        """Bytes of memory kept."""
        self.ended = False
        self.left = 0
        self._stale = False
        self._fresh = 0
        self._left_on: str | None = None
        """The key that the cursor was left on to go to the end from; None while it is paused."""

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield LogRows(self._paint)

    def on_mount(self) -> None:
        """Listen; paint at most ten times a second, however much comes."""
        self.set_interval(0.1, self._show)
        self.work(self._listen(), name="container log")

    async def _listen(self) -> None:
        lines = LineAssembler()
        try:
            async with aclosing(self.backend.container_log(self.container)) as stream:
                async for data in stream:
                    self._take([text_of(line) for line in lines.feed("stdout", data)])
            self._take([text_of(rest) for _, rest in lines.flush()])
        finally:
            self.ended = self._stale = True

    def _take(self, texts: list[str]) -> None:
        for text in texts:
            self.lines.append(text if len(text) <= LONGEST else text[:LONGEST] + self.glyphs.ellipsis)
            self._held += getsizeof(self.lines[-1])
            while len(self.lines) > KEPT or self._held > KEPT_SIZE:
                self._held -= getsizeof(self.lines.popleft())
                self.first += 1
        self._fresh += len(texts)
        self._stale = self._stale or bool(texts)

    # Showing.

    @property
    def rows(self) -> LogRows:
        """The list."""
        return self.query_one(LogRows)

    @property
    def follows(self) -> bool:
        """Whether the last line is shown, or will be: more lines may come before the cursor is moved there."""
        return self.rows.follows or self.rows.key == self._left_on

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Hosts", self.container.host, self.container.name or self.container.id[:12])

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """Its state when it was opened."""
        words, bad = host_containers.state_words(self.container)
        line.gap(2).put(words, palette.wrong if bad else palette.muted)
        super().after_crumbs(line, palette)

    def headline(self, line: Line, palette: Palette) -> None:
        """What it does, and how many lines."""
        if not self.follows:
            line.put("paused", palette.muted).put(f", {self._fresh:,} new" if self._fresh else "", palette.muted)
        elif self.ended:
            line.put("end of log", palette.muted)
        else:
            line.put("follow", palette.accent)
        count = self.first + len(self.lines)
        line.gap(3).put(f"{count:,}", palette.bold).put(f" {plural(count, 'line')}", palette.faint)

    def filter_changed(self) -> None:
        """Only lines with the text."""
        self._stale = True
        self._show()

    def _show(self) -> None:
        if self.closing or not self._stale or not self.is_current:
            return
        self._stale = False
        rows, wanted = self.rows, self.filter_text.lower()
        follows = self.follows
        kept = enumerate(self.lines, self.first)
        rows.set_rows([str(number) for number, text in kept if not wanted or wanted in text.lower()])
        self._left_on = rows.key if follows else None
        if follows:
            self._fresh = 0
            self.call_after_refresh(self._to_the_end)  # the list is as long as it will be only then
        self.refresh_bars()

    def _to_the_end(self) -> None:
        """Show the last line, unless the cursor was moved meanwhile."""
        if not self.closing and self.rows.key == self._left_on:
            self.rows.action_last()
            self._left_on = self.rows.key

    def _text(self, key: str) -> str:
        at = int(key) - self.first
        return self.lines[at] if 0 <= at < len(self.lines) else ""

    def _paint(self, number: int, width: int, here: bool) -> Line:
        rows = self.rows.rows
        before = self._text(rows[number - 1].key) if number else ""
        text = safe(self._text(rows[number].key)[:SHOWN_BYTES]).expandtabs(8)
        painted = Text(text, style=self.palette.text)
        for start, end, kind in spans(text, before):
            painted.stylize(kind_style(self.palette, kind), start, end)
        line = Line().gap(1)
        for part in painted[self.left :].render(self.app.console) if self.left < len(text) else ():
            line.put(part.text, part.style or self.palette.text)
        return line

    # Keys.

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """The headline says whether it follows."""
        if self.rows.follows:
            self._fresh = 0
        self.refresh_bars()

    def action_follow(self) -> None:
        """To the end."""
        self.rows.action_last()

    def action_wrong(self) -> None:
        """The next error."""
        self._to_error(1)

    def action_wrong_before(self) -> None:
        """The error before."""
        self._to_error(-1)

    def _to_error(self, step: int) -> None:
        rows = self.rows
        at = rows.at + step
        while 0 <= at < len(rows.rows):
            text = self._text(rows.rows[at].key)[:SHOWN_BYTES]
            if severity(text) == "error" and any(kind == "error" for _, _, kind in spans(text)):
                rows.go(rows.rows[at].key)
                return
            at += step
        app_of(self).tell("no more errors in this direction")

    def action_copy_line(self) -> None:
        """The line under the cursor."""
        if self.rows.key:
            app_of(self).copy(self._text(self.rows.key))

    def action_side_right(self) -> None:
        """Further right, not beyond the longest line that is seen."""
        top, height = self.rows.scroll_offset.y, self.rows.size.height
        seen = (safe(self._text(row.key)[:SHOWN_BYTES]).expandtabs(8) for row in self.rows.rows[top : top + height])
        if any(len(text) > self.left + 8 for text in seen):
            self._side(8)

    def action_side_left(self) -> None:
        """Further left."""
        self._side(-8)

    def _side(self, step: int) -> None:
        self.left = max(0, self.left + step)
        self.rows.repaint()

    async def action_back(self) -> None:
        """Undo the filter, then go back."""
        if self.filter_text:
            self.filter_text = ""
            self.filter_changed()
        else:
            await self.app.run_action("back", default_namespace=self.app)
