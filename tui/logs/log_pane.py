"""One rank's log: a window on its file, with search, filter, wrap, times and marks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from rich.ansi import AnsiDecoder
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from distui.amounts import clock, plural, size_words
from distui.runs.lines.text import safe
from distui.runs.lines.traceback import Fold
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.highlight import Kind, spans
from distui.tui.logs.pane import Pane
from distui.tui.logs.search import LogView, Pattern
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

CACHED = 1500
"""Strips kept of each pane."""

SINCE_S = (0, 60, 300, 900, 1800, 3600, 6 * 3600)
"""What a pane shows: all, then the last 1, 5, 15, 30 minutes, 1 and 6 hours."""


def clock_words(at: float | None) -> str:
    """`14:03:22` in local time; blank when nobody knows."""
    return clock(at) if at is not None and at > 0 else " " * 8


def places(pattern: Pattern | None, text: str) -> Iterator[tuple[int, int]]:
    """Where a text matches, by its characters; within the time that the pattern has, as in the file."""
    raw = text.encode() if pattern is not None else b""
    for match in pattern.finditer(raw) if pattern is not None else ():
        begin, end = (len(raw[:at].decode("utf-8", "replace")) for at in match.span())
        yield begin, end


class LogPane(Pane):
    """Shows the log of one rank at a time; pointing it at another one mounts nothing."""

    def __init__(self, number: int, *, id: str | None = None) -> None:
        super().__init__(number, id=id)
        self.view: LogView | None = None
        self.names = ("", "")
        """The rank's number and where it runs, as the title says them."""
        self.hue = 0
        self.live = True
        self.wrap = False
        self.times = True
        self.pattern: Pattern | None = None
        self.marks: set[int] = set()
        self.blamed: int | None = None
        """The line that says why the rank failed."""
        self.place = ""
        """`rank 1 of 16`, where there is one pane only."""
        self.note = ""
        """What there is to know of the rank where its run stands still, or it is behind."""
        self.loud = False
        self._strips: OrderedDict[int, Strip] = OrderedDict()
        self._look: tuple[object, ...] = ()
        self._cuts = self._renewals = 0
        self._open = -1
        """The line that was fetched before its end was written."""
        self._parts: list[tuple[int, int]] = []

    def show(self, buffer: LogBuffer, names: tuple[str, str], hue: int) -> None:
        """Point the pane at a log, from its end."""
        if self.view is not None and self.view.buffer is buffer:
            return
        self.view = LogView(buffer)
        self.names, self.hue, self.blamed = names, hue, None
        self.follow, self.cursor, self.top, self.left = True, None, 0, 0
        self.since, self.only = 0, ""
        self.marks.clear()
        self._renewals = buffer.renewals
        self.forget()

    def now_is(self, *, live: bool, place: str, note: str = "", loud: bool = False) -> None:
        """What the title says of the rank, and where it is among the others."""
        if (live, place, note, loud) != (self.live, self.place, self.note, self.loud):
            self.live, self.place, self.note, self.loud = live, place, note, loud
            self.repaint()

    def forget(self) -> None:
        """Rows look different from now on."""
        self._strips.clear()
        self.dirty = True
        self.repaint()

    @property
    def rank(self) -> int | None:
        """Whose log it is."""
        return self.view.buffer.rank if self.view is not None else None

    # Rows.

    @property
    def rows(self) -> int:
        """See Pane."""
        return self.view.rows if self.view is not None else 0

    @property
    def content(self) -> object:
        """See Pane; the line at the end may grow before it ends."""
        return self.rows, self.view.buffer.size if self.view is not None else 0

    def grow(self, budget: float) -> bool:
        """See Pane."""
        if self.view is None:
            return False
        more = self.view.grow(budget)
        if self.view.buffer.cuts != self._cuts:
            self._cuts = self.view.buffer.cuts
            self.forget()
        if self.view.buffer.renewals != self._renewals:
            self._renewals = self.view.buffer.renewals
            self._begin_again()
        return more

    def _begin_again(self) -> None:
        """Another attempt writes its own log: nothing of the one before is marked, to blame or read on."""
        self.blamed, self.since = None, 0
        self.marks.clear()
        self.set_follow(True)

    def prepare(self) -> None:
        """Fetch the visible lines that have no strip yet, side by side ones with one read."""
        if self.view is None:
            return
        state = (palette_of(self), self.times, self.pattern)
        if state != self._look:
            self._look = state
            self._strips.clear()
        self._strips.pop(self._open, None)  # it may have grown since
        first, last = self.top, min(self.top + self.height, self.rows)
        wanted = [n for n in map(self.view.line, range(first, last)) if n not in self._strips]
        begin = 0
        for i in range(1, len(wanted) + 1):
            if i == len(wanted) or wanted[i] != wanted[i - 1] + 1:
                self._fetch(wanted[begin], i - begin)
                begin = i
        while len(self._strips) > CACHED:
            self._strips.popitem(last=False)
        self._lay_out()

    def _fetch(self, first: int, count: int) -> None:
        assert self.view is not None
        buffer = self.view.buffer
        ahead = first > 0
        if first + count > buffer.ended:
            self._open = buffer.ended
        texts = buffer.text(first - ahead, count + ahead)
        moments = buffer.times(first, count) if self.times else [None] * count
        before = texts.pop(0) if ahead and texts else ""
        for i, (text, at) in enumerate(zip(texts, moments, strict=False)):
            line = first + i
            fold = self.view.mark(line)
            self._strips[line] = self._make(line, text, at, before) if fold is None else self._fold(fold, at)
            before = text

    def row_strip(self, row: int) -> Strip:
        """See Pane."""
        if self.view is None:
            return Strip([])
        line = self.view.line(row)
        if line not in self._strips:
            self._fetch(line, 1)
        return self._strips.get(line, Strip([]))

    def row_text(self, row: int) -> str:
        """The line as the rank wrote it, made safe, without the time; all lines of a fold."""
        if self.view is None:
            return ""
        line = self.view.line(row)
        fold = self.view.mark(line)
        return "\n".join(map(safe, self.view.buffer.text(line, 1 + (fold.hidden if fold is not None else 0))))

    def _make(self, number: int, text: str, at: float | None, before: str) -> Strip:
        palette = palette_of(self)
        shown = safe(text, colour=True) if "\x1b" in text else safe(text)
        shown = shown.expandtabs(8)
        segments = [Segment(clock_words(at) + "  ", palette.faint)] if self.times else []
        coloured = "\x1b" in shown
        found = [] if coloured else spans(shown, before, self._own)
        if self.blamed is not None and number != self.blamed:  # the line to blame is the only red one
            found = [(start, end, "strong" if kind == "error" else kind) for start, end, kind in found]
        if not coloured and not found and self.pattern is None:
            return Strip([*segments, Segment(shown, palette.text)])
        painted = AnsiDecoder().decode_line(shown) if coloured else Text(shown, style=palette.text)
        for start, end, kind in found:
            painted.stylize(kind_style(palette, kind), start, end)
        for start, end in places(self.pattern, painted.plain):
            painted.stylize(palette.accent + Style(reverse=True), start, end)
        return Strip([*segments, *(s for s in painted.render(self.app.console) if s.text != "\n")])

    @property
    def _own(self) -> frozenset[str]:
        return self.view.own if self.view is not None else frozenset()

    def _fold(self, fold: Fold, at: float | None) -> Strip:
        """What stands for folded lines."""
        palette, glyphs = palette_of(self), glyphs_of(self)
        segments = [Segment(clock_words(at) + "  ", palette.faint)] if self.times else []
        return Strip([*segments, Segment(f"  {glyphs.folded} ", palette.accent), Segment(fold.words, palette.muted)])

    def blame(self, line: int) -> None:
        """Mark the line that says why the rank failed, fold what nobody reads around it, and go there."""
        assert self.view is not None
        self.view.fold_near(line)
        self.view.folds.reveal(line)
        self.blamed = line
        self.forget()
        self.go(self.view.row_of(line), centre=True)

    def go_to_line(self, line: int) -> None:
        """Show a line, out of its fold when it is in one."""
        assert self.view is not None
        if self.view.folds.reveal(line):
            self.forget()
        self.go(self.view.row_of(line), centre=True)

    def toggle_fold(self) -> bool:
        """Unfold the line of the cursor, fold it again, or fold the traceback it is in. Whether there was anything."""
        view = self.view
        if view is None or view.filter is not None or not self.rows:
            return False
        line, before = view.line(self.at), self.rows
        fold = view.folds.toggle(line)
        if fold is None and not (view.fold_near(line) or view.toggle_near(line)):
            return False
        self.set_follow(False)
        self.seen += self.rows - before
        self.forget()
        row = view.row_of(fold.start if fold is not None else line)
        if fold is not None and self.rows > before:  # what was unfolded is seen, as far as it has room
            self.go(row + fold.hidden)
        self.go(row)
        return True

    @property
    def text_from(self) -> int:
        """See Pane."""
        return self._indent

    def sign(self, row: int) -> tuple[str, Style]:
        """A mark, or the line that is to blame."""
        palette, glyphs = palette_of(self), glyphs_of(self)
        line = self.view.line(row) if self.view is not None else -1
        if line == self.blamed:
            return glyphs.block, palette.wrong
        return (glyphs.mark, palette.accent) if line in self.marks else (" ", Style())

    def row_fill(self, row: int) -> Style | None:
        """The line that is to blame is the one filled block."""
        blamed = self.view is not None and self.blamed is not None and self.view.line(row) == self.blamed
        return palette_of(self).danger_fill if blamed else None

    # Wrapping: only what is visible is wrapped; scrolling goes by whole lines.

    @property
    def shown(self) -> int:
        """See Pane; those that have all room, wrapped as they are."""
        if not self.wrap:
            return super().shown
        row, room = self.top, self.height
        while row < self.rows and (room := room - self._height_of(row)) >= 0:
            row += 1
        return max(1, row - self.top)

    def top_for(self, row: int) -> int:
        """See Pane; wrapped lines take several rows."""
        if not self.wrap:
            return super().top_for(row)
        top, room = row, self.height
        while top >= 0 and (room := room - self._height_of(top)) >= 0:
            top -= 1
        return min(row, top + 1)

    def _lay_out(self) -> None:
        if not self.wrap:
            self._parts = []
            return
        if self.follow:
            parts: list[tuple[int, int]] = []
            row = self.rows - 1
            while row >= 0 and len(parts) < self.height:
                parts = [(row, part) for part in range(self._height_of(row))] + parts
                row -= 1
            self._parts = parts[-self.height :] if self.height else []
            return
        self._parts = []
        row = self.top
        while row < self.rows and len(self._parts) < self.height:
            self._parts += [(row, part) for part in range(self._height_of(row))]
            row += 1
        self._parts = self._parts[: self.height]

    @property
    def _indent(self) -> int:
        return 10 if self.times else 0

    @property
    def _room(self) -> int:
        """Cells of a wrapped line's row."""
        return max(1, self.size.width - 1 - self._indent)

    def _height_of(self, row: int) -> int:
        return max(1, -(-(self.row_strip(row).cell_length - self._indent) // self._room))

    def painted_row(self, y: int) -> Strip:
        """See Pane; wrapped lines take several rows."""
        if not self.wrap or y == 0:
            return super().painted_row(y)
        width, base = self.size.width, self.rich_style
        if y > len(self._parts):
            return Strip.blank(width, base)
        row, part = self._parts[y - 1]
        room, indent = max(1, width - 1 - self._indent), self._indent
        body = self._selected(row, self.row_strip(row))
        sign, style = self.sign(row)
        palette = palette_of(self)
        fill = self.row_fill(row) or (palette.cursor_row if row == self.cursor else None)
        base = base + fill if fill is not None else base
        head = body.crop(0, indent) if part == 0 else Strip.blank(indent)
        text = body.crop(indent + part * room, indent + (part + 1) * room)
        if row == self.cursor and sign == " ":
            sign, style = glyphs_of(self).cursor, palette.accent
        gutter = Line().put(sign, style).strip(1, base)
        return Strip.join([gutter, head.apply_style(base), text.apply_style(base)]).adjust_cell_length(width, base)

    def on_click(self, event: object) -> None:
        """See Pane; a wrapped line is clicked on any of its rows."""
        y = getattr(event, "y", 0)
        if not self.wrap:
            super().on_click(event)  # type: ignore[arg-type]
        elif 0 < y <= len(self._parts) and not self.text_selection:
            self.go(self._parts[y - 1][0])

    # The title.

    def title(self, width: int) -> Line:
        """Rank and place, rule, number of the pane and what it does."""
        palette, glyphs = palette_of(self), glyphs_of(self)
        name, where = self.names
        line = Line().put(glyphs.hue, palette.hues[self.hue % len(palette.hues)])
        line.put(name or "no rank", palette.key if self.active else palette.bold).gap(2).put(where, palette.muted)
        line.gap(2 if self.note else 0).put(self.note, palette.watch if self.loud else palette.muted)
        end = self._state(palette)
        room = width - end.width - 1
        if line.width > room:
            line.cut(max(0, room - 1))
        line.rule(room - 1, palette.accent if self.active else palette.rule, glyphs.rule)
        return line.ends_with(end, width, gap=1)

    def _state(self, palette: Palette) -> Line:
        end = Line()
        if self.place:
            end.put("[ ]", palette.key).put(f" {self.place}", palette.muted).gap(2)
        elif self.number:
            end.put(self.number, palette.key).gap(1)
        view = self.view
        if view is not None and view.filter is not None:
            end.put("filtered", palette.accent).gap(1)
        if view is not None and view.buffer.behind > 1 << 20:
            done = view.buffer.size / max(1, view.buffer.size + view.buffer.behind)
            return end.put(f"reading {done:.0%} of {size_words(view.buffer.size + view.buffer.behind)}", palette.muted)
        if self.live and not self.follow:
            end.put("paused", palette.muted)
            return end.put(f", {self.new_rows:,} new", palette.muted) if self.new_rows else end
        if self.live:
            return end.put("follow", palette.accent if self.active else palette.muted)
        count = view.buffer.count if view is not None else 0
        if not self.follow and view is not None and count:
            end.put("line ", palette.muted).put(f"{view.line(self.at) + 1:,}", palette.text)
            return end.put(f" of {count:,}", palette.muted)
        end.put("end of log", palette.muted).gap(2).put(f"{count:,}", palette.text)
        return end.put(f" {plural(count, 'line')}", palette.muted)


def kind_style(palette: Palette, kind: Kind) -> Style:
    """The style of what deserves a colour in a line."""
    return {
        "error": palette.wrong,
        "warn": palette.watch + Style(bold=False),
        "strong": Style(bold=True),
        "path": palette.accent,
        "muted": palette.muted,
        "faint": palette.faint,
    }[kind]
