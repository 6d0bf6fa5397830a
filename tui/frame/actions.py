"""The one registry of what can be done: keys, `:` commands, palette, footer and help all come from it.

Whatever touches a host or a run is an uppercase letter plus a question (`changes`); lowercase letters, Ctrl,
Backspace and Delete never do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from textual.binding import Binding, BindingType

from distui.frozen import frozen

Group = Literal["Move", "View", "Logs", "Layout", "Change", "Global"]


@frozen
class Action:
    """One thing a person can do on a screen (or everywhere). `id` is also the name of its method `action_ID`."""

    id: str
    title: str
    """What the footer and the help say: one to three words."""
    keys: tuple[str, ...]
    """Textual key names; the first is shown."""
    group: Group = "View"
    command: str = ""
    """The word after `:`; empty when there is none."""
    changes: bool = False
    """Whether it touches a host or a run: shown as a chip, always asks first, refused with --readonly."""
    terminal: bool = False
    """Whether it lends the terminal to another program: a page of `distui serve` has none."""
    footer: bool = False
    help: str = ""
    """One sentence for the help and the palette; the title when empty."""
    also: str = ""
    """Words that people look for it by in the help, beside those that stand there."""

    def __post_init__(self) -> None:
        """A letter that changes something is uppercase, and no other key changes anything."""
        letters = [key for key in self.keys if len(key) == 1 and key.isalpha()]
        if self.changes and (len(letters) != len(self.keys) or not all(key.isupper() for key in letters)):
            raise ValueError(f"{self.id}: what changes a host or a run is an uppercase letter, not {self.keys}")


def bindings(actions: Iterable[Action]) -> list[BindingType]:
    """The actions as Textual bindings; ids let a keymap in the config file move the keys."""
    return [
        Binding(",".join(action.keys), action.id, action.title, show=False, id=action.id)
        for action in actions
        if action.keys
    ]
