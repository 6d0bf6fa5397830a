"""Lets tests import what they share: `lab` (real hosts) and `fakes` (hosts in memory)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
