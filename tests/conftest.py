"""Lets tests import what they share: `lab` (real hosts) and `fakehosts` (hosts in memory)."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

os.umask(0o022)  # folders that a test makes are not for others to write to, whoever calls it
sys.path.insert(0, str(Path(__file__).resolve().parent))

# A shell's `&` starts programs with SIGINT ignored and nohup with SIGHUP, and distui leaves signals alone that its
# caller ignores.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job that is cancelled leaves nothing either

# How long an example takes is no promise: a machine may be busy.
settings.register_profile("distui", deadline=None)
settings.load_profile("distui")


# While tests are collected nearly all that is made stays: looking for garbage in it took three quarters of that time.
gc.disable()


def pytest_collection_finish() -> None:
    """Tests, and modules they import, stay: who collects garbage need not look through half a million objects again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what a test that failed has left running: ranks on its own hosts, whose homes are in this worker's folder."""
    factory = getattr(config, "_tmp_path_factory", None)
    if (folder := getattr(factory, "_basetemp", None)) is not None:
        for pid in _at_home_in(folder):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _at_home_in(folder: Path) -> list[int]:
    home = b"HOME=" + os.fsencode(folder) + b"/"
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            variables = place.read_bytes().split(b"\0")
            if any(one.startswith(home) for one in variables) and int(place.parent.name) != os.getpid():
                found.append(int(place.parent.name))
    return found
