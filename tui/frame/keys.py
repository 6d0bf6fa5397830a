"""Key names as people know them, and which actions are at hand on a screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from distui.tui.frame.actions import Action

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen

_WORDS = {
    "question_mark": "?", "colon": ":", "slash": "/", "escape": "esc", "ampersand": "&", "left_square_bracket": "[",
    "right_square_bracket": "]", "plus": "+", "minus": "-", "underscore": "_", "full_stop": ".", "comma": ",",
    "pageup": "pgup", "pagedown": "pgdn", "less_than_sign": "<", "greater_than_sign": ">", "asterisk": "*",
    "number_sign": "#", "equals_sign": "=", "delete": "del",
}  # fmt: skip


def key_word(key: str) -> str:
    """`question_mark` -> `?`, `ctrl+d` -> `ctrl+d`."""
    return _WORDS.get(key, key)


def keys_of(action: Action, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action as shown, with the keymap of the config file applied."""
    keys = tuple(keymap[action.id].split(",")) if action.id in keymap else action.keys
    return tuple(key_word(key.strip()) for key in keys)


def actions_of(node: DOMNode) -> tuple[Action, ...]:
    """The actions that a class and those it is made from declare, its own first, each id once."""
    found: dict[str, Action] = {}
    for kind in type(node).__mro__:
        for action in kind.__dict__.get("ACTIONS", ()):
            found.setdefault(action.id, action)
    return tuple(found.values())


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
    return tuple(found.values())
