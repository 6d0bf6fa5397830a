"""Lets tests import what they share: `lab` (real hosts) and `fakehosts` (hosts in memory)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

# A shell's `&` starts programs with SIGINT ignored, and distui leaves signals alone that its caller ignores.
signal.signal(signal.SIGINT, signal.default_int_handler)
