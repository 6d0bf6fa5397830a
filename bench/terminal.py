"""A program under a pseudo-terminal that is read as fast as it goes, slowly, or not at all for a while."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import resource
import select
import shlex
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import REPO, Failed, Spent

COLUMNS, ROWS = 240, 64
KEY_EVERY_S = 0.1
FIRST_S = 60.0
"""How long a first picture is waited for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the terminal reads: `rate` bytes a second (0: all there is), nothing between `stall` and `stall_end`.

    Seconds count from the first paint.
    """

    rate: float = 0.0
    stall: float = 0.0
    stall_end: float = 0.0

    def allowed(self, since: float, took: int) -> int:
        """How many bytes may be read now, so long after the first paint, after so many bytes."""
        if self.stall <= since < self.stall_end:
            return 0
        if not self.rate:
            return 1 << 16
        return max(0, min(4096, int(self.rate * since) - took))


@dataclass(slots=True)
class Shown:
    """What was seen of the program: times are of the monotonic clock."""

    first: float = 0.0
    """When it first painted something."""
    output: int = 0
    keys: list[float] = field(default_factory=list)
    """When keys were pressed."""
    tail: bytes = b""
    """The last output."""


def first_paint(argv: Sequence[str], env: Mapping[str, str], painted: bytes, *, cwd: Path) -> Spent:
    """What a program spends until it has painted a word, after which it is killed. Raises Failed when it does not."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    shown = run(argv, env, FIRST_S, painted=painted, cwd=cwd, to_first=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not shown.first:
        raise Failed(f"{shlex.join(argv)[:120]} did not paint {painted!r}: ... {shown.tail[-200:]!r}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(shown.first - began, cpu)


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    seconds: float,
    *,
    painted: bytes,
    key: bytes = b"",
    reading: Reading = Reading(),
    begun: Callable[[int], None] = lambda pid: None,
    cwd: Path = REPO,
    to_first: bool = False,
) -> Shown:
    """Run `argv` for at most `seconds`; press `key` ten times a second from 3 s after `painted` was seen.

    `begun` is told its process; `to_first` ends it as soon as that was seen.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=follower, cwd=cwd, env=env, start_new_session=True
    )
    os.close(follower)
    shown = Shown()
    begun(program.pid)
    try:
        _watch(program, leader, shown, time.monotonic() + seconds, painted, key, reading, to_first=to_first)
    finally:
        os.close(leader)
        if program.poll() is None:
            program.send_signal(signal.SIGKILL)
        program.wait()
    return shown


def _watch(
    program: subprocess.Popen[bytes],
    leader: int,
    shown: Shown,
    until: float,
    painted: bytes,
    key: bytes,
    reading: Reading,
    *,
    to_first: bool,
) -> None:
    next_key, slow = float("inf"), 0
    while program.poll() is None and (now := time.monotonic()) < until:
        size = reading.allowed(now - shown.first, slow) if shown.first else 1 << 16
        if not size:
            time.sleep(0.01)
        elif select.select([leader], [], [], 0.02)[0]:
            data = b""
            with contextlib.suppress(OSError):
                data = os.read(leader, size)
            if not data:
                return
            shown.output += len(data)
            shown.tail = (shown.tail + data)[-400_000:]
            slow += len(data) if shown.first else 0
            if not shown.first and painted in shown.tail:
                shown.first = time.monotonic()
                if to_first:
                    return
                next_key = shown.first + 3.0 if key else next_key
        if time.monotonic() >= next_key:
            shown.keys.append(time.monotonic())
            os.write(leader, key)
            next_key += KEY_EVERY_S
