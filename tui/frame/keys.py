"""Key names as people know them, and which actions are at hand on a screen."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.keys import Keys

from distui.tui.frame.actions import Action

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.widget import Widget

_WORDS = {
    "question_mark": "?", "exclamation_mark": "!", "colon": ":", "slash": "/", "escape": "esc", "ampersand": "&",
    "left_square_bracket": "[", "right_square_bracket": "]", "plus": "+", "minus": "-", "underscore": "_",
    "full_stop": ".", "comma": ",", "pageup": "pgup", "pagedown": "pgdn", "less_than_sign": "<",
    "greater_than_sign": ">", "asterisk": "*", "number_sign": "#", "equals_sign": "=", "delete": "del",
}  # fmt: skip


def key_word(key: str) -> str:
    """`question_mark` -> `?`, `ctrl+d` -> `ctrl+d`."""
    return _WORDS.get(key, key)


_NAMES = {word: name for name, word in _WORDS.items()}
_MODIFIERS = ("ctrl+", "shift+", "alt+", "meta+", "super+", "hyper+")


def key_name(word: str) -> str:
    """`?` -> `question_mark`, `esc` -> `escape`: as Textual names a key that a person wrote."""
    return _NAMES.get(word, word)


def is_key(name: str) -> bool:
    """Whether a terminal can send a key of that name: a character, one by its name, `f5`, `ctrl+up`."""
    if len(name) == 1 or name in _WORDS or name in {key.value for key in Keys}:
        return True
    modifier = next((m for m in _MODIFIERS if name.startswith(m)), "")
    if modifier:
        return is_key(name[len(modifier) :])
    try:
        return bool(unicodedata.lookup(name.replace("_", " ")))
    except KeyError:
        return False


def keys_of(action: Action, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action as shown, with the keymap of the config file applied."""
    keys = tuple(keymap[action.id].split(",")) if action.id in keymap else action.keys
    return tuple(key_word(key.strip()) for key in keys)


NAMED = 5
"""Complaints about the keys that are shown when the app opens; more of them would cover it."""


def in_one_notice(complaints: Sequence[str]) -> str:
    """What is wrong with the keys of the config file, as one notice."""
    shown = list(complaints[:NAMED])
    if more := len(complaints) - len(shown):
        shown.append(f"and {more} more: `distui config validate` names them")
    return "\n".join(shown)


def actions_of(node: DOMNode) -> tuple[Action, ...]:
    """The actions that a class and those it is made from declare, its own first, each id once."""
    found: dict[str, Action] = {}
    for kind in type(node).__mro__:
        for action in kind.__dict__.get("ACTIONS", ()):
            found.setdefault(action.id, action)
    return tuple(found.values())


def typing_here(screen: Screen[Any]) -> tuple[Action, ...]:
    """What works while something is typed: the actions of what is typed in alone. Empty when nothing is typed.

    A widget in whose inside letters are text says so by `TYPES = True`.
    """
    return typing_in(screen.focused)


def typing_in(widget: Widget | None) -> tuple[Action, ...]:
    """The same where this widget has the focus."""
    nodes = widget.ancestors_with_self if widget is not None else ()
    typed = next((node for node in nodes if getattr(node, "TYPES", False)), None)
    return () if typed is None else actions_of(typed)


def actions_here(screen: Screen[Any]) -> tuple[Action, ...]:
    """What can be done now: by the focused widget, by what it lies in, by the screen, everywhere."""
    start: DOMNode = screen.focused or screen
    nodes: Iterable[DOMNode] = start.ancestors_with_self
    if screen.is_modal:
        nodes = [node for node in nodes if node is not screen.app]
    found: dict[str, Action] = {}
    for node in nodes:
        for action in actions_of(node):
            found.setdefault(action.id, action)
    in_browser = screen.app.is_web
    return tuple(action for action in found.values() if not (in_browser and action.terminal))
