"""Copies of text: into clipboards, or a file where it is too long for them."""

from __future__ import annotations

import os

from distui.errors import DistuiError
from distui.runs.lines.text import safe_lines
from distui.tui.frame.context import work
from distui.tui.places import Places
from distui.tui.terminal import clipboard


def copy_text(app: Places, text: str) -> None:
    """Into the clipboard of the terminal (OSC 52) and of this machine's screen; what is too long, into a file.

    As it is shown: what is pasted steers no terminal either, whoever said it.
    """
    text = safe_lines(text)
    if (taker := clipboard.program(os.environ)) is None:
        _copied(app, text, taken=False)
    else:
        work(app, _give(app, taker, text), name="copy")


async def _give(app: Places, taker: tuple[str, ...], text: str) -> None:
    _copied(app, text, taken=await clipboard.give(taker, text))


def _copied(app: Places, text: str, *, taken: bool) -> None:
    """Into the terminal's clipboard where it fits, and what became of it in words."""
    count = text.removesuffix("\n").count("\n") + 1
    message = "copied" if count < 2 else f"copied {count} lines"
    if len(text.encode("utf-8", "replace")) <= clipboard.MOST:
        app.copy_to_clipboard(text)
    elif not taken and app.backend.history is not None:
        try:
            kept = clipboard.keep(app.backend.history.parent, text)
            message = f"too long for the terminal's clipboard: saved to {kept}"
        except DistuiError as error:
            app.tell_error(error)
            return
    app.tell(message)
