"""A program under test, started on the lab's login node and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lab.paths import SUDO_PATH

LIMIT = 600.0
"""Seconds after which a program counts as one that hangs, however busy the machine is."""


class Program(subprocess.Popen[str]):
    """A Popen with text pipes, in a session of its own, that is killed with all its children.

    As a context manager it kills whatever is still running at the end.
    """

    def __init__(self, argv: tuple[str, ...], *, home: Path, env: Mapping[str, str], cwd: Path) -> None:
        base = {"PATH": SUDO_PATH, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONUNBUFFERED": "1"}
        pipe = subprocess.PIPE
        super().__init__(
            argv,
            env=base | dict(env),
            cwd=cwd,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def signal_group(self, number: int) -> None:
        """Send a signal to the program and its children; fine when they are gone."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def finish(self, input: str = "", timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """Wait for the end and return what was printed; after `timeout` kill the group and raise TimeoutExpired
        with what was printed until then."""
        try:
            out, err = self.communicate(input or None, timeout)
        except subprocess.TimeoutExpired:
            self.signal_group(signal.SIGKILL)
            out, err = self.communicate()
            raise subprocess.TimeoutExpired(self.args, timeout, out, err) from None
        return subprocess.CompletedProcess(self.args, self.returncode, out, err)

    def __exit__(self, *details: object) -> None:
        self.signal_group(signal.SIGKILL)
        super().__exit__(*details)  # type: ignore[arg-type]
