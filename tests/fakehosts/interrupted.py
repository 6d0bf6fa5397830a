"""A command that is interrupted at any moment, as one on a host whose call is given up."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

LIMIT_S = 60.0


def moments(tries: int, within: float) -> Iterator[tuple[float, ...]]:
    """For each try how long to wait before each signal: one of them, then two in a row, and so on."""
    some = random.Random(1)
    for number in range(tries):
        yield tuple(some.random() * within for _ in range(1 + number % 2))


def interrupt(argv: Sequence[str], waits: Sequence[float], input: bytes | None = None, **more: Any) -> None:
    """Run a command, and end its process group after each of `waits`. It is over once no process of it lives.

    With `input` its stdin stays open as long as the command lives.
    """
    alive, held = os.pipe()
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    more |= {"stdin": stdin, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "pass_fds": (held,)}
    try:
        with subprocess.Popen(argv, start_new_session=True, **more) as process:
            os.close(held)
            if process.stdin is not None:
                process.stdin.write(input or b"")
                process.stdin.flush()
            for seconds in waits:
                time.sleep(seconds)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        assert select.select([alive], [], [], LIMIT_S)[0], "a process of it lives on"
    finally:
        os.close(alive)
