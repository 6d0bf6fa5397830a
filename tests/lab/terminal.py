"""A terminal on the lab's login node, as a person has it: tmux with a shell in it, driven by keys.

with Terminal(lab, home, (80, 24)) as term:
    term.enter("distui")
    term.wait("3 hosts")
    term.keys("?")
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lab.paths import REPO, SUDO_PATH
from lab.program import LIMIT

if TYPE_CHECKING:
    from lab.lab import Lab

Wanted = str | re.Pattern[str] | Callable[[str], bool]
"""What a screen must show: words, a pattern, or anything one can ask of its text."""

POLL_S = 0.1
PROMPT = "ready$ "
MODES = ("alternate_on", "mouse_any_flag", "mouse_sgr_flag", "cursor_flag", "keypad_flag")
"""What a full-screen program switches on, as tmux names it."""


class Terminal:
    """One window of `size` columns and rows. `distui` in its shell is this checkout's.

    The tmux server is its own, with its socket in a folder of its own, and ends with the `with` block.
    """

    def __init__(
        self, lab: Lab, home: Path, size: tuple[int, int] = (120, 40), env: Mapping[str, str] | None = None
    ) -> None:
        self.lab = lab
        self.home = home
        self.size = size
        self.env = dict(env or {})
        self._folder = tempfile.TemporaryDirectory(prefix="distui-term-")  # short: a socket's path is limited
        self.socket = Path(self._folder.name) / "tmux"

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._folder.cleanup()

    def _open(self) -> None:
        (self.home / "bin").mkdir(exist_ok=True)
        program = self.home / "bin/distui"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} -m distui.cli.main "$@"\n')
        program.chmod(0o755)
        setup = Path(self._folder.name) / "shrc"
        setup.write_text(f"PS1={shlex.quote(PROMPT)}\n")
        env = {
            "PATH": f"{program.parent}:{SUDO_PATH}", "HOME": str(self.home), "LANG": "C.UTF-8",
            "COLORTERM": "truecolor", "SHELL": "/bin/sh", "ENV": str(setup),
        } | self.env  # fmt: skip
        config = Path(self._folder.name) / "tmux.conf"
        config.write_text("set -g status off\nset -s escape-time 0\nset -g default-terminal tmux-256color\n")
        given = [f"{name}={value}" for name, value in env.items()]
        shape = ("-x", str(self.size[0]), "-y", str(self.size[1]))
        server = ("env", "-i", *given, "tmux", "-S", str(self.socket), "-f", str(config))
        argv = self.lab.command(*server, "new-session", "-d", *shape, "-c", str(self.home), "/bin/sh")
        subprocess.run(argv, check=True, capture_output=True, timeout=LIMIT)
        self.wait(PROMPT.strip())

    def tmux(self, *argv: str) -> str:
        """A command of this tmux server; returns what it prints."""
        done = subprocess.run(("tmux", "-S", str(self.socket), *argv), capture_output=True, text=True, timeout=LIMIT)
        if done.returncode != 0:
            raise AssertionError(f"tmux {shlex.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    # What a person does.

    def keys(self, *names: str) -> None:
        """Press keys, as tmux names them: `Enter`, `Escape`, `C-p`, `?`."""
        self.tmux("send-keys", "--", *names)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self.tmux("send-keys", "-l", "--", text)

    def enter(self, text: str) -> None:
        """Type a line."""
        self.type(text)
        self.keys("Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Another size, as when the window is dragged."""
        self.size = (columns, rows)
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def hang_up(self) -> None:
        """Close the terminal under whatever runs in it."""
        subprocess.run(("tmux", "-S", str(self.socket), "kill-server"), capture_output=True, timeout=LIMIT)

    # What a person sees.

    def screen(self) -> str:
        """The text on the screen."""
        return self.tmux("capture-pane", "-p")

    def painted(self) -> str:
        """The text on the screen with its escape sequences for colours and weights."""
        return self.tmux("capture-pane", "-p", "-e")

    def history(self) -> str:
        """All that scrolled by in the shell, too."""
        return self.tmux("capture-pane", "-p", "-S", "-")

    def modes(self) -> dict[str, str]:
        """What a full-screen program has switched on in the terminal, and its line discipline."""
        values = self.tmux("display-message", "-p", " ".join(f"#{{{name}}}" for name in MODES)).split()
        tty = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        line = subprocess.run(("stty", "-g", "-F", tty), capture_output=True, text=True, check=True).stdout
        return dict(zip(MODES, values, strict=True)) | {"stty": line.strip()}

    def wait(self, *wanted: Wanted, seconds: float = LIMIT, without: str = "") -> str:
        """Until the screen shows all that is wanted, and not `without`; returns its text.

        AssertionError with the last screen after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            text = self.screen()
            missing = [one for one in wanted if not _shows(text, one)]
            if not missing and not (without and without in text):
                return text
            if time.monotonic() > deadline:
                what = ", ".join(_words(one) for one in missing) or f"still {without!r}"
                columns, rows = self.size
                raise AssertionError(f"after {seconds:.0f} s not on the screen ({columns}x{rows}): {what}\n{text}")
            time.sleep(POLL_S)

    def wait_shell(self, seconds: float = LIMIT) -> str:
        """Until the shell has the terminal again; returns the text."""
        return self.wait(lambda text: text.rstrip().endswith(PROMPT.strip()), seconds=seconds)

    def program(self) -> int:
        """The process id of the distui that runs in the foreground."""
        tty = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        listed = subprocess.run(("ps", "-t", tty, "-o", "pid=,args="), capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, _, args = line.strip().partition(" ")
            if "distui.cli.main" in args:
                return int(pid)
        raise AssertionError(f"no distui runs in the terminal\n{self.screen()}")


def _shows(text: str, wanted: Wanted) -> bool:
    if isinstance(wanted, str):
        return wanted in text
    if isinstance(wanted, re.Pattern):
        return wanted.search(text) is not None
    return wanted(text)


def _words(wanted: Wanted) -> str:
    if isinstance(wanted, re.Pattern):
        return f"/{wanted.pattern}/"
    return repr(wanted) if isinstance(wanted, str) else (wanted.__doc__ or wanted.__name__)
