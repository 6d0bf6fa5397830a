"""A person's own programs, with the app out of the way: an ssh shell, an editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from distui.errors import UsageError

LENT: set[str] = set()
"""The program that has the terminal now: there is one terminal, and what was typed ahead is for nobody behind it."""


def editor_argv(path: Path, line: int = 0) -> tuple[str, ...]:
    """`$VISUAL` or `$EDITOR` on a file, at a line where the editor takes `+N`. Raises UsageError without one."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    if not words:
        raise UsageError("no editor is set", hint="set $EDITOR")
    at = [f"+{line}"] if line and Path(words[0]).name in ("vi", "vim", "nvim", "nano", "emacs", "micro") else []
    return (*words, *at, str(path))


async def outside(app: App[Any], argv: tuple[str, ...]) -> int:
    """Run a program on the terminal while the app is suspended; its exit status. Raises UsageError when it can't.

    The loop goes on: runs are followed and connections answer for as long as the program takes. Ctrl-C is the
    program's alone. Call it from a worker, since timers of a screen that waits would pile up.
    """
    if app.is_web:
        raise UsageError(
            f"a browser has no terminal for {Path(argv[0]).name}", hint=f"in a terminal: {shlex.join(argv)}"
        )
    if LENT:
        raise UsageError(f"{argv[0]} can't be started: {' '.join(LENT)} has the terminal")
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    LENT.add(argv[0])
    failed: OSError | None = None
    status = 0
    try:
        with app.batch_update(), app.suspend():
            try:
                status = await (await asyncio.create_subprocess_exec(*argv)).wait()
            except OSError as error:  # raised through `suspend` it would leave the app suspended
                failed = error
    except SuspendNotSupported:
        raise UsageError(f"this terminal can't be lent to {argv[0]}") from None
    finally:
        LENT.clear()
        signal.signal(signal.SIGINT, before)
        app.refresh(layout=True)
    if failed is not None:
        raise UsageError(f"{argv[0]} can't be started: {failed.strerror or failed}")
    return status


async def visit(app: App[Any], argv: tuple[str, ...]) -> None:
    """A shell on a host. Raises UsageError when ssh could not get there (its exit status 255)."""
    if await outside(app, argv) == 255:
        words = shlex.join(argv)
        raise UsageError("ssh ended with status 255: it could not connect, or the connection broke", hint=words)
