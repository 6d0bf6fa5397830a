"""Rows of a form: a label and a tinted strip. Text is edited in place after enter; a choice moves with the arrows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import Blur, Click, Focus
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from distui.spec.hosts.names import expand, split
from distui.spec.yaml.problems import Wrong
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.paint.paint import Line, cut
from distui.tui.widgets.painted import Painted

LABEL = 17
"""Cells of the label, with the margin before it."""

FIELD_MOVES = (
    Action("next_field", "next field", ("down", "j"), "Move"),
    Action("last_field", "field before", ("up", "k"), "Move"),
)


class Words(Suggester):
    """Completes what is typed by words that are known: hosts, images."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.known: tuple[str, ...] = ()

    async def get_suggestion(self, value: str) -> str | None:
        """See textual; after a comma the next one begins."""
        begun, comma, word = value.rpartition(",")
        start = word.lstrip()
        space = word[: len(word) - len(start)]
        there = _listed(begun) if comma else set()
        found = next(
            (word for word in self.known if start and word.startswith(start) and word != start and word not in there),
            None,
        )
        return None if found is None else f"{begun}{comma}{space}{found}"


def _listed(text: str) -> set[str]:
    """The names that stand there already, those of ranges too; as far as they can be read."""
    found = set()
    for piece in split(text):
        found.add(piece.strip())
        with contextlib.suppress(Wrong):
            found.update(expand(piece))
    return found


class TypingInput(Input):
    """The text of a field while it is typed."""

    TYPES = True
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("keep", "keep", ("enter",), footer=True, help="What is typed is in the text of the job, and stays."),
        Action("end_typing", "undo", ("escape",), footer=True, help="What was there before is back."),
        Action("on", "complete, next field", ("tab",), footer=True,
               help="Take the word that is suggested; without one keep what is typed, and go to the next field."),
        Action("save_typed", "save", ("ctrl+s",), footer=True, help="Keep it, and write the job file."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    @property
    def field(self) -> FormField:
        """The row it is in."""
        assert isinstance(self.parent, FormField)
        return self.parent

    def action_keep(self) -> None:
        """Enter: done."""
        self.field.stop_typing()

    def action_end_typing(self) -> None:
        """Escape undoes what was typed."""
        self.field.stop_typing(undo=True)

    def action_on(self) -> None:
        """The suggestion, else the next field."""
        if self._suggestion and self.cursor_at_end:
            self.action_cursor_right()
        else:
            self.field.stop_typing(focus=False)
            self.screen.set_focus(self.field)  # at once: the next one is that after the row
            self.field.action_next_field()

    def action_save_typed(self) -> None:
        """Keep it, and save."""
        self.field.stop_typing(save=True)


class FormField(Horizontal, can_focus=True):
    """One row. `note` is shown at its right end; `wrong` marks it."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *FIELD_MOVES,
        Action(
            "edit",
            "edit",
            ("enter",),
            "View",
            footer=True,
            help="Type in the field: each key is in the text at once. What a field can't say is typed in the YAML tab.",
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    FormField { height: 1; width: 1fr; }
    FormField .label { width: 17; }
    FormField .value { width: 1fr; background: $surface; }
    FormField:focus .value, FormField:focus-within .value { background: $cursor; }
    FormField Input { display: none; width: 1fr; height: 1; border: none; padding: 0 1; background: $cursor; }
    FormField Input:focus { border: none; }
    FormField Input.-textual-compact { padding: 0 1; }
    FormField.-typing Input { display: block; }
    FormField.-typing .value { display: none; }
    """

    class InText(Message):
        """It is to be edited in the text: the field can't say it."""

        def __init__(self, field: FormField) -> None:
            super().__init__()
            self.field = field

    class Changed(Message):
        """The value is another now; `done` when typing has ended, `undone` when it is what it was before; with `save`
        the file is to be written, too."""

        def __init__(
            self, field: FormField, value: str, *, done: bool, undone: bool = False, save: bool = False
        ) -> None:
            super().__init__()
            self.save = save
            self.field = field
            self.value = value
            self.done = done
            self.undone = undone

        @property
        def control(self) -> FormField:
            """The field, for `@on` with a selector."""
            return self.field

    def __init__(self, name: str, label: str, help: str = "") -> None:
        super().__init__(id=f"field-{name}")
        self.key = name
        self.label = label
        self.help_text = help
        self.value = ""
        self.before = ""
        """The value when typing began."""
        self.note = ""
        self.empty = ""
        """What holds while the field is empty."""
        self.wrong = False
        self.only_in_text = False
        """Whether the text says more than the field can: it is not edited here."""
        self.words = Words()
        """What may be completed here."""

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Painted(self._label, classes="label")
        yield Painted(self._value, classes="value")
        yield TypingInput(compact=True, placeholder=self.help_text, select_on_focus=False, suggester=self.words)

    def show(
        self, value: str, note: str = "", *, wrong: bool = False, empty: str = "", only_in_text: bool = False
    ) -> None:
        """What the job says now; the text being typed stays as it is."""
        self.value, self.note, self.wrong, self.empty = value, note, wrong, empty
        self.only_in_text = only_in_text
        if only_in_text:
            self.note = f"{note} YAML".lstrip()
        self.repaint()

    def repaint(self) -> None:
        """Paint label and value again."""
        for part in self.query(Painted):
            part.repaint()

    @property
    def typing(self) -> bool:
        """Whether text is being typed here."""
        return self.has_class("-typing")

    # Painting.

    def _label(self, width: int, height: int) -> list[Line]:
        palette = palette_of(self)
        here = self.has_focus_within
        line = Line().gap(2).put(cut(self.label, width - 4), palette.bold if here else palette.muted)
        if here:
            line.gap(width - 1 - line.width).put(glyphs_of(self).cursor, palette.accent)
        return [line]

    def _value(self, width: int, height: int) -> list[Line]:
        palette = palette_of(self)
        style = palette.watch if self.wrong else palette.muted if self.only_in_text else palette.text
        line = Line().gap(1)
        room = width - 2 - (len(self.note) + 1 if self.note else 0)
        if self.value:
            line.put(cut(self.value, room), style)
        else:
            line.put(cut(self.empty or self.help_text or "-", room), palette.faint)
        if self.note:
            line.gap(width - 1 - len(self.note) - line.width).put(self.note, palette.accent)
        return [line]

    def on_focus(self, event: Focus) -> None:
        """The label of the focused row is bold."""
        self.repaint()

    def on_blur(self, event: Blur) -> None:
        """It no longer is."""
        self.repaint()

    # Typing.

    def on_click(self, event: Click) -> None:
        """See `clicked`; textual would call the handlers of both classes."""
        self.clicked(event)

    def clicked(self, event: Click) -> None:
        """A click edits."""
        if not self.typing:
            self.action_edit()

    def action_edit(self) -> None:
        """Type in place, or in the text."""
        if self.only_in_text:
            self.post_message(self.InText(self))
            return
        self.before = self.value
        field = self.query_one(Input)
        with field.prevent(Input.Changed):
            field.value = self.value
        self.add_class("-typing")
        field.focus()
        field.action_end()
        self.repaint()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Every key counts."""
        event.stop()
        if self.typing:
            self.value = event.value
            self.post_message(self.Changed(self, event.value, done=False))

    def on_input_blurred(self, event: Input.Blurred) -> None:
        """Leaving the field is done, too; not so leaving the terminal's window: who is back there goes on typing."""
        if self.app.app_focus and self.screen.focused is not event.input:
            self.stop_typing(focus=False)

    def stop_typing(self, *, focus: bool = True, undo: bool = False, save: bool = False) -> None:
        """Back to the row; with `undo` to the value it had, with `save` into the file. What is as it was before is
        undone, too: the text stays as somebody wrote it."""
        if not self.typing:
            return
        undo = undo or self.value == self.before
        self.value = self.before if undo else self.value
        self.remove_class("-typing")
        if focus:
            self.focus()
        self.repaint()
        self.post_message(self.Changed(self, self.value, done=True, undone=undo, save=save))

    def action_next_field(self) -> None:
        """The row below."""
        self.screen.focus_next(FormField)

    def action_last_field(self) -> None:
        """The row above."""
        self.screen.focus_previous(FormField)


class ChoiceField(FormField):
    """One of a few words: all are shown, the arrows move the choice."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *FIELD_MOVES,
        Action("edit", "next choice", ("enter", "space", "right", "l"), "View", footer=True),
        Action("choice_before", "choice before", ("left", "h"), "View"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    ChoiceField .value { background: $background; }
    """

    def __init__(self, name: str, label: str, choices: Sequence[str]) -> None:
        super().__init__(name, label)
        self.choices = tuple(choices)

    def _value(self, width: int, height: int) -> list[Line]:
        palette, glyphs = palette_of(self), glyphs_of(self)
        line = Line().gap(1).put(self._unknown, palette.wrong)
        for i, choice in enumerate(self.choices):
            here = choice == self.value
            line.gap(2 if i else 0).put(
                glyphs.chosen if here else glyphs.other, palette.accent if here else palette.faint
            )
            line.gap(1).put(choice, palette.text if here else palette.muted)
        return [line.cut(width)]

    @property
    def _unknown(self) -> str:
        """What the text says where that is none of the choices."""
        return f"{cut(self.value, 14)}  " if self.value and self.value not in self.choices else ""

    def clicked(self, event: Click) -> None:
        """A click on a word chooses it."""
        at = LABEL + 1 + cell_len(self._unknown)
        for choice in self.choices:
            size = len(glyphs_of(self).chosen) + 1 + len(choice)
            if at <= event.x < at + size:
                self._choose(choice)
                return
            at += size + 2

    def action_edit(self) -> None:
        """The next choice."""
        self._turn(1)

    def action_choice_before(self) -> None:
        """The choice before."""
        self._turn(-1)

    def _turn(self, step: int) -> None:
        at = self.choices.index(self.value) if self.value in self.choices else -step
        self._choose(self.choices[(at + step) % len(self.choices)])

    def _choose(self, choice: str) -> None:
        self.value = choice
        self.repaint()
        self.post_message(self.Changed(self, choice, done=True))
