"""The row for typed commands: `:run NAME`, `:hosts /h100`, `:13`, with completion and a history.

A command is done by `command_WORD(argument)` of the focused widget, the screen, one of its parts or the app, else it is
an action's word. `complete_WORD()` of the same names what its argument may be.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.dom import DOMNode
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from distui.tui.frame import history
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import app_of, backend_of, view_of
from distui.tui.frame.keys import actions_here
from distui.tui.frame.parts import with_parts
from distui.whole import whole


def who_here(screen: Screen[Any]) -> tuple[object, ...]:
    """Who may know a command: the focused widget, what it lies in, the screen and its parts, the app."""
    start: DOMNode = view_of(screen).main_focus or screen
    return tuple(one for node in start.ancestors_with_self for one in with_parts(node))


def words_here(screen: Screen[Any]) -> tuple[str, ...]:
    """Every command word that works here."""
    found = {action.command for action in actions_here(screen) if action.command}
    for one in who_here(screen):
        found |= {name.removeprefix("command_") for name in dir(type(one)) if name.startswith("command_")}
    return tuple(sorted(found - {"number", "history", ""}))


def arguments_of(screen: Screen[Any], word: str) -> Iterable[str]:
    """What may follow a command word."""
    for one in who_here(screen):
        complete = getattr(one, f"complete_{word}", None)
        if complete is not None:
            return tuple(complete())
    return ()


def run_command(screen: Screen[Any], text: str) -> str:
    """Do a typed command on the screen. Returns what is wrong in words, or ""."""
    word, _, argument = text.strip().partition(" ")
    if not word:
        return ""
    for one in who_here(screen):
        if (number := whole(word)) is not None and hasattr(one, "command_number"):
            one.command_number(number)
            return ""
        method = getattr(one, f"command_{word}", None)
        if callable(method):
            method(argument.strip())
            return ""
    action = view_of(screen).find_action(word)
    if action is not None:
        view_of(screen).run_later(action.id)
        return ""
    near = difflib.get_close_matches(word, words_here(screen), n=1, cutoff=0.5)
    return f"there is no command {word}" + (f"; did you mean {near[0]}?" if near else "; ? shows what there is")


class Suggest(Suggester):
    """Completes a command word, then its argument."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._screen = screen

    async def get_suggestion(self, value: str) -> str | None:
        """See textual."""
        return next(self._found(value), None)

    def _found(self, value: str) -> Iterator[str]:
        word, space, argument = value.partition(" ")
        if not value.strip():
            return
        if not space:
            yield from (known for known in words_here(self._screen) if known.startswith(word) and known != word)
        for known in arguments_of(self._screen, word) if space else ():
            if known.startswith(argument) and known != argument:
                yield f"{word} {known}"


class CommandBar(Horizontal):
    """The row at the bottom in which a command is typed."""

    TYPES = True
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("run_typed", "do it", ("enter",), footer=True, help="Do the command; one that is wrong stays."),
        Action("complete", "complete", ("tab",), footer=True, help="Take what is suggested."),
        Action("older", "before", ("up",), footer=True, help="The command before, from the history."),
        Action("newer", "after", ("down",), help="The command after."),
        Action("dismiss", "close", ("escape",), footer=True, help="Nothing is done."),
    )

    DEFAULT_CSS = """
    CommandBar { height: 1; display: none; background: $surface; }
    CommandBar.-open { display: block; }
    CommandBar Static { width: auto; padding: 0 1; color: $accent; text-style: bold; }
    CommandBar Input { border: none; height: 1; padding: 0; background: $surface; width: 1fr; }
    CommandBar Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self._at = 0

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Static(":")
        yield Input(placeholder="command", compact=True, suggester=Suggest(self.screen), select_on_focus=False)

    @property
    def history(self) -> list[str]:
        """Commands typed in this session and those before, the newest last."""
        return app_of(self).command_history

    def open(self, text: str = "") -> None:
        """Show the row and put the cursor in it."""
        self._at = len(self.history)
        self.add_class("-open")
        field = self.query_one(Input)
        field.value = text
        field.focus()
        field.action_end()

    def close(self) -> None:
        """Hide the row; the screen has the keys again."""
        self.remove_class("-open")
        view_of(self).focus_back()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.action_run_typed()

    def action_run_typed(self) -> None:
        """Do it; what is wrong is said, and the row stays."""
        text = self.query_one(Input).value.strip()
        screen = self.screen
        self.close()
        if not text:
            return
        self.history[:] = history.added(self.history, text)
        history.save(backend_of(screen).history, text)
        wrong = run_command(screen, text)
        if wrong:
            app_of(self).tell(wrong, level="warning")
            self.open(text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Nobody else's business."""
        event.stop()

    def action_dismiss(self) -> None:
        """Nothing is done."""
        self.close()

    def action_complete(self) -> None:
        """Take what is suggested."""
        field = self.query_one(Input)
        field.action_cursor_right() if field.cursor_at_end else field.action_end()

    def action_older(self) -> None:
        """The command before."""
        self._show(self._at - 1)

    def action_newer(self) -> None:
        """The command after."""
        self._show(self._at + 1)

    def _show(self, at: int) -> None:
        if not self.history:
            return
        self._at = max(0, min(at, len(self.history)))
        field = self.query_one(Input)
        field.value = self.history[self._at] if self._at < len(self.history) else ""
        field.action_end()
