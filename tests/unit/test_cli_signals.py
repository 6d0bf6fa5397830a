"""Signals that end a call: as Ctrl-C does, also where a shell has Ctrl-C ignored."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, time
from distui.cli.signals import Terminated, signals_end
try:
    with signals_end(signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
except Terminated:
    sys.exit(7)
"""


@pytest.mark.parametrize("ctrl_c", ["signal.default_int_handler", "signal.SIG_IGN"], ids=["foreground", "in a script"])
def test_sigterm_ends_a_call(ctrl_c: str) -> None:
    """A shell without job control starts what ends with `&` with SIGINT ignored: SIGTERM is all that is left."""
    program = f"import signal; signal.signal(signal.SIGINT, {ctrl_c})\n{PROGRAM}"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7
