"""A program that gets the terminal: the loop goes on meanwhile, and Ctrl-C is the program's alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.app import SuspendNotSupported

from distui.errors import UsageError
from distui.tui.terminal import shell


class Terminal:
    """As much of an app as is needed: notes what it is asked, in order."""

    is_web = False

    def __init__(self, *, lends: bool = True) -> None:
        self.asked: list[str] = []
        self.lends = lends

    @contextlib.contextmanager
    def batch_update(self) -> Iterator[None]:
        self.asked.append("quiet")
        yield
        self.asked.append("draws")

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        if not self.lends:
            raise SuspendNotSupported
        self.asked.append("lent")
        yield
        self.asked.append("back")

    def refresh(self, *, layout: bool) -> None:
        self.asked.append("refresh")


async def test_the_loop_goes_on_and_ctrl_c_ends_only_the_program(tmp_path: Path) -> None:
    """A SIGINT of the terminal's group does not reach the app; its own handling is there again afterwards."""
    app: Any = Terminal()
    before = signal.getsignal(signal.SIGINT)
    ready, ours = tmp_path / "ready", tmp_path / "ours"
    script = f"""
import pathlib, sys, time
limit = time.monotonic() + 60
while not pathlib.Path({str(ours)!r}).exists():
    if time.monotonic() > limit: sys.exit("the loop stands")
    time.sleep(0.01)
pathlib.Path({str(ready)!r}).touch()
time.sleep(60)
"""
    running = asyncio.ensure_future(shell.outside(app, (sys.executable, "-c", script)))
    async with asyncio.timeout(60):
        while not any(script in command for _, command in await children()):  # noqa: ASYNC110 - a process tells none
            await asyncio.sleep(0.01)
        ours.touch()  # for which the program waits: the loop goes on while it has the terminal
        while not ready.exists():  # noqa: ASYNC110 - the program has no other way to say so
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        child = next(p for p in await children() if script in p[1])
        os.kill(child[0], signal.SIGINT)
        assert await running in (-2, 1, 130)
    assert app.asked == ["quiet", "lent", "back", "draws", "refresh"]
    assert signal.getsignal(signal.SIGINT) is before


async def children() -> list[tuple[int, str]]:
    """Processes we started, with their commands."""
    found = []
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():  # noqa: ASYNC240
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")  # noqa: ASYNC240
        found.append((int(pid), command))
    return found


async def test_what_can_not_be_run_is_reported_and_the_app_draws_again() -> None:
    """A missing program, a terminal that can't be lent, ssh that does not get there."""
    app: Any = Terminal()
    with pytest.raises(UsageError, match="no-such-program can't be started"):
        await shell.outside(app, ("no-such-program",))
    assert app.asked == ["quiet", "lent", "back", "draws", "refresh"], "textual resumes only without an exception"
    refusing: Any = Terminal(lends=False)
    with pytest.raises(UsageError, match="can't be lent to sh"):
        await shell.outside(refusing, ("sh",))
    with pytest.raises(UsageError, match="could not connect") as caught:
        await shell.visit(app, ("sh", "-c", "exit 255"))
    assert caught.value.hint == "sh -c 'exit 255'"
    await shell.visit(app, ("sh", "-c", "exit 3"))
