"""The job file as text: an editor whose problems are listed by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import DescendantBlur, DescendantFocus
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from distui.errors import Problem
from distui.spec.completion import Completion, complete
from distui.tui.frame.actions import Action
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.launch.form.yaml_colours import coloured
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette
from distui.tui.widgets.painted import Painted

MOST_LINES = 1000
"""Above this an editor of one's own is faster: a key would take 160 ms here (UX 5.3)."""
LISTED = 5
"""Problems listed below the text."""
OFFERED = 4
"""Options listed below the text."""


class JobText(TextArea):
    """The text with colours and the wrong lines marked; escape leaves it."""

    TYPES = True
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("complete", "complete", ("tab",), footer=True,
               help="What the schema knows at the cursor: the best, pressed again the next; else spaces."),
        Action("save", "save", ("ctrl+s",), footer=True, help="Write the job file."),
        Action("undo", "undo", ("ctrl+z",), footer=True, help="Take back what was typed."),
        Action("redo", "redo", ("ctrl+y",), help="Type again what was taken back."),
        Action("next_problem", "next problem", ("f8", "ctrl+n"), footer=True, help="To the next line that is wrong."),
        Action("next_tab", "tab", ("f2",), help="Form, plan, YAML."),
        Action("leave_text", "form", ("escape",), footer=True, help="Back to the form, which says the same."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), action.id, action.title, show=False, priority=True, id=action.id)
        for action in ACTIONS
    ]

    def __init__(self) -> None:
        super().__init__("", show_line_numbers=True, soft_wrap=False, tab_behavior="indent", compact=True)
        self.highlight_cursor_line = False  # it would paint over the colours of the line
        self.wrong: dict[int, int] = {}
        """Lines with a problem (from 0), and the column where it begins."""
        self.known: dict[str, tuple[str, ...]] = {}
        """Words for keys that no schema knows: hosts, images."""
        self._cycle: tuple[str, tuple[int, int], tuple[int, int], Completion, int] | None = None
        """Text and place after a completion, where it began, what there was to choose from, which was taken."""
        self._look: Palette | None = None

    @property
    def pane(self) -> YamlPane:
        """What it lies in."""
        assert isinstance(self.parent, YamlPane)
        return self.parent

    # Painting.

    def get_line(self, line_index: int) -> Text:
        """See textual: with colours; from where a line is wrong it is underlined."""
        line, palette = super().get_line(line_index), palette_of(self)
        for start, end, style in coloured(line.plain, palette):
            line.stylize(style, start, end)
        if line_index in self.wrong:
            line.stylize(palette.danger_fill)
            line.stylize(palette.wrong + Style(underline=True), min(self.wrong[line_index], max(0, len(line) - 1)))
        return line

    def render_line(self, y: int) -> Strip:
        """See textual: the number of a wrong line is red, too, since the line may be empty."""
        if palette_of(self) is not self._look:
            self._look = palette_of(self)
            self.repaint()
        strip = super().render_line(y)
        if y + self.scroll_offset.y not in self.wrong or not strip:
            return strip
        number, *rest = strip
        return Strip([Segment(number.text, (number.style or Style()) + palette_of(self).wrong), *rest])

    def repaint(self) -> None:
        """Lines look different from now on."""
        self._line_cache.clear()
        self.refresh()

    def mark(self, problems: Sequence[Problem]) -> None:
        """Mark the lines that are wrong."""
        wrong = {p.line - 1: max(0, p.column - 1) for p in reversed(problems) if p.line}
        if wrong != self.wrong:
            self.wrong = wrong
            self.repaint()

    def put(self, text: str) -> None:
        """Another text; the cursor stays where it was, as far as there is such a place."""
        row, column = self.cursor_location
        self.load_text(text)
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document.get_line(row)))))

    # Keys.

    def completion(self) -> Completion:
        """What may stand at the cursor."""
        row, column = self.cursor_location
        return complete(self.text, row, column, self.known)

    def action_complete(self) -> None:
        """The best option, or the one after the one that was just taken; spaces where there is none."""
        if self.read_only:
            return
        cycle = self._cycle
        if cycle is not None and cycle[0] == self.text and cycle[2] == self.cursor_location:
            _, begin, end, found, at = cycle
            at = (at + 1) % len(found.options)
        else:
            found, at, end = self.completion(), 0, self.cursor_location
            begin = (end[0], found.start)
        if not found.options:
            self.insert(" " * (self.indent_width - self.cursor_location[1] % self.indent_width))
            return
        self.replace(found.options[at].word, begin, end, maintain_selection_offset=False)
        self._cycle = (self.text, begin, self.cursor_location, found, at)

    def action_save(self) -> None:
        """The text as it is, then the file."""
        self.pane.tell(self.text, save=True)

    def action_next_problem(self) -> None:
        """To the next problem."""
        self.pane.next_problem()

    async def action_next_tab(self) -> None:
        """The tab after this one."""
        await self.screen.run_action("next_tab")

    async def action_leave_text(self) -> None:
        """Back to the form."""
        await self.screen.run_action("leave_text")


class YamlPane(Vertical):
    """Text and problems. Too long a text is only shown."""

    DEFAULT_CSS = """
    YamlPane JobText { height: 1fr; border: none; padding: 0; background: $background; scrollbar-size-horizontal: 0; }
    YamlPane JobText:focus { border: none; }
    YamlPane #problems { height: auto; max-height: 7; }
    YamlPane #options { height: 1; display: none; background: $surface; }
    """

    class Edited(Message):
        """The text is another now; with `save` it is to be written, too."""

        def __init__(self, text: str, *, save: bool = False) -> None:
            super().__init__()
            self.text = text
            self.save = save

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.problems: tuple[Problem, ...] = ()
        self.found = Completion(0)
        """What may stand at the cursor."""
        self._known = ""
        """The text that is shown, or was reported last."""
        self._on_its_way = 0
        """How many reported texts nobody has taken yet."""

    def compose(self) -> ComposeResult:
        """See textual."""
        yield JobText()
        yield Painted(self._options, id="options")
        yield Painted(self._problems, id="problems")

    @property
    def area(self) -> JobText:
        """The editor."""
        return self.query_one(JobText)

    def load(self, text: str) -> None:
        """Show another text, unless it is what was shown or reported last, or older than what is typed meanwhile."""
        area = self.area
        if self._known != text and not self._on_its_way:
            self._known = text
            with area.prevent(TextArea.Changed):
                area.put(text)
        area.read_only = text.count("\n") > MOST_LINES
        self._measure()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """List them."""
        self.problems = tuple(problems)
        self.area.mark(self.problems)
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
        self.tell(self._known)
        self._suggest()

    def tell(self, text: str, *, save: bool = False) -> None:
        """Hand a text on; who takes it says so by `taken`."""
        self._on_its_way += 1
        self.post_message(self.Edited(text, save=save))

    def taken(self) -> None:
        """A text that was reported is known to whoever makes something of it."""
        self._on_its_way -= 1

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        """The problem of the cursor's line is bright, and what may stand at the cursor is listed."""
        event.stop()
        self.query_one("#problems", Painted).repaint()
        self._suggest()

    def _suggest(self) -> None:
        """What may stand at the cursor, as far as there is room."""
        area, listed = self.area, self.query_one("#options", Painted)
        self.found = Completion(0) if area.read_only or not area.has_focus else area.completion()
        room = OFFERED if self.size.height >= 16 else 1
        rows = min(len(self.found.options), room) or bool(self.found.about)
        listed.display, listed.styles.height = rows > 0, max(1, rows)
        listed.repaint()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """What may stand at the cursor."""
        self._suggest()

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """Nothing is typed any more."""
        self._suggest()

    def _options(self, width: int, height: int) -> list[Line]:
        palette, found = palette_of(self), self.found
        if not found.options:
            return [Line().gap(1).put(cut(found.about, width - 2), palette.muted)]
        lines, rest = [], len(found.options) - height
        for number, option in enumerate(found.options[:height]):
            line = Line().gap(1).put("tab" if not number else "", palette.key, width=3).gap(1)
            line.put(option.word.rstrip(": "), palette.text, width=14).gap(1)
            more = f"  and {rest} more" if number == height - 1 and rest > 0 else ""
            line.put(cut(option.about or found.about, max(4, width - line.width - len(more) - 1)), palette.muted)
            lines.append(line.put(more, palette.faint))
        return lines

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
