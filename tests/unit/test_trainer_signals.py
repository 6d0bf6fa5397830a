"""How a trainer ends when it is told to, without torch."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distui.trainers import signals

BLOCKED = """
import os, signals
reading, _ = os.pipe()
signals.end_at_once("rank 1/2")
print("ready", flush=True)
os.read(reading, 1)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_rank_that_is_blocked(number: signal.Signals, code: int) -> None:
    """A rank that waits in a call which handlers don't interrupt ends at once, and says by what."""
    folder = Path(signals.__file__).parent
    argv = [sys.executable, "-c", BLOCKED]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
        rank.send_signal(number)
        assert rank.stdout.read() == f"rank 1/2 stopped by {number.name}\n"
    assert rank.returncode == code
