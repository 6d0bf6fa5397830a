"""Runs in a row while faults strike at random: nothing lost, nothing repeated, no wrong verdict, nothing left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

REPO = Path(__file__).parents[2]
SEED = 22186
"""Draws killed ranks and distuis, two viewers, one that sleeps over the end, an emptied log, a cut link, a killed
clean-up, prunes and a late stop."""


@pytest.mark.long
def test_a_short_soak_loses_and_leaves_nothing(lab: Any) -> None:
    """Every numbered line of every rank once, one true verdict for all, nothing of distui on any host."""
    argv = (sys.executable, "-m", "bench.soak", "--runs", "4", "--seed", str(SEED), "--lab", lab.name)
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=900)

    last = done.stdout.splitlines()[-1]
    assert re.search(r"\b0 lost, 0 logs with a wrong line, 0 wrong verdicts, 0 left over, 0 bad runs$", last), (
        done.stdout + done.stderr
    )
    assert done.returncode == 0, done.stdout + done.stderr
