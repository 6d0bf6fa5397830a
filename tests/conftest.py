"""Lets tests import what they share: `lab` (real hosts) and `fakehosts` (hosts in memory)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

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
