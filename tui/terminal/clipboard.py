"""Copied text reaches the person's clipboard, or a file when it is too much for the way there.

OSC 52 asks the terminal and so works over ssh and in tmux, but many terminals take no more than 100,000 characters
of it (tmux and xterm cut what is longer, silently) and some refuse it. At the machine itself a program does better.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from distui.files import make_private, write_private, writing

MOST = 74_994
"""Bytes that OSC 52 carries at most: base64 makes 100,000 characters of them."""

_PATIENCE = 3.0
"""Seconds for a program that takes the text."""


def program(environ: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...] | None:
    """What puts its standard input into the clipboard of this machine's screen; None for a person elsewhere."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return None
    choices = (
        (True, ("pbcopy",)),
        (bool(environ.get("WAYLAND_DISPLAY")), ("wl-copy",)),
        (bool(environ.get("DISPLAY")), ("xclip", "-selection", "clipboard")),
    )
    return next((argv for here, argv in choices if here and which(argv[0])), None)


async def give(argv: tuple[str, ...], text: str) -> bool:
    """Whether the program took the text. Its output goes nowhere: xclip stays behind and would hold a pipe open."""
    nowhere = asyncio.subprocess.DEVNULL
    try:
        taker = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_PATIENCE):
            await taker.communicate(text.encode("utf-8", "replace"))
    except TimeoutError:
        taker.kill()
        await taker.wait()
    return taker.returncode == 0


def keep(folder: Path, text: str) -> Path:
    """The text as a private file, in place of what was kept before. Raises UsageError."""
    path = folder / "copied.txt"
    with writing(path):
        make_private(folder)
        write_private(path, text.encode("utf-8", "replace"))
    return path
