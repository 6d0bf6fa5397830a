"""Parts of a screen: objects that own one subject each, with its actions and typed commands, beside the widgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import isawaitable
from typing import ClassVar

from textual.dom import DOMNode

from distui.tui.frame.actions import Action


class Part:
    """One subject of a screen, given what it needs. `action_ID` does an action of it, `command_WORD` a `:` command.

    The screen has its parts in `parts`, and their `ACTIONS` among its own: keys are bound on the screen.
    """

    ACTIONS: ClassVar[tuple[Action, ...]] = ()


def with_parts(node: DOMNode) -> Iterator[object]:
    """Who may do what a key or a command of a node asks for: the node, then its parts."""
    yield node
    yield from getattr(node, "parts", ())


def can(node: DOMNode, name: str) -> bool:
    """Whether an action is done by a node or a part of it."""
    return any(hasattr(one, f"action_{name}") for one in with_parts(node))


async def act(node: DOMNode, name: str, params: Sequence[object]) -> bool:
    """Do an action of a node's parts. False when it is none of theirs."""
    for part in getattr(node, "parts", ()):
        method = getattr(part, f"action_{name}", None)
        if method is not None:
            done = method(*params)
            if isawaitable(done):
                await done
            return True
    return False
