"""The app on a terminal of its own (a pty) that does not read."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fakes import FakeBackend, history
from distui.tui.app import DistuiApp
from distui.tui.run_app import run_app

folder = Path(sys.argv[2])

async def main():
    backend = FakeBackend(folder)
    backend.rows = history(backend)
    for name in sys.argv[3:]:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), getattr(signal, name))
    return await run_app(DistuiApp(backend))

sys.exit(asyncio.run(main()))
"""


class Screen:
    """The app in a process on a pty; it is read only when a test asks for it."""

    def __init__(self, folder: Path, *signals: str) -> None:
        """It gets these signals as it begins."""
        self.terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        env = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(
            (sys.executable, "-c", PROGRAM, str(HERE), str(folder), *signals),
            stdin=inner, stdout=inner, stderr=inner, env=env, cwd=HERE.parents[1], start_new_session=True,
        )  # fmt: skip
        os.close(inner)

    def read(self, until: Callable[[bytes], bool], seconds: float = 60) -> bytes:
        """What it paints, until that shows what is wanted."""
        found, deadline = b"", time.monotonic() + seconds
        while not until(found):
            assert time.monotonic() < deadline, found[-3000:]
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    found += os.read(self.terminal, 65536)
                except OSError:  # it has let go of the terminal
                    break
        return found

    def flood(self, screens: int = 40) -> None:
        """Walk the views until nothing more fits into the terminal, and then some."""
        for number in range(screens):
            os.write(self.terminal, b"1234"[number % 4 :][:1])
            time.sleep(0.06)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    """Starts the app."""
    made: list[Screen] = []

    def start(*signals: str) -> Screen:
        made.append(Screen(tmp_path, *signals))
        return made[0]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()
        os.close(one.terminal)


@pytest.fixture
def screen(begin: Callable[..., Screen]) -> Screen:
    """The app with its first view painted."""
    made = begin()
    made.read(lambda found: b"node04" in found)
    return made


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_an_app_that_just_begins(begin: Callable[..., Screen], name: str) -> None:
    """It was a crash with a report."""
    made = begin(name)
    said = made.read(lambda found: made.process.poll() is not None)
    assert (made.process.wait(60), b"Error" in said) == (143, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_though_the_terminal_does_not_read(screen: Screen, number: signal.Signals) -> None:
    """It ends with 143, and leaves the other screen, the mouse and the cursor as they were."""
    screen.flood()
    screen.process.send_signal(number)
    assert screen.process.wait(60) == 143
    left = screen.read(lambda found: b"\x1b[?1049l" in found)
    assert b"\x1b[?1000l" in left
    assert b"\x1b[?25h" in left
