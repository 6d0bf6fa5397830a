"""What a run measured, of a real one on two hosts: asked while it goes on, and after it has ended."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from typing import Any

from lab.runs import until

Distui = Callable[..., subprocess.CompletedProcess[str]]

STEPS = """for i in $(seq 1 40); do
    echo step $i loss 0.$((99 - i)); sleep 0.2
    until [ $i != 30 -o -e /pytorch/measured ]; do sleep 0.1; done
done"""


def test_a_run_remembers_what_it_measured(lab: Any, start: Any, distui: Distui) -> None:
    """Its steps and its hosts' figures, as a table, as JSON and as CSV."""
    keys = {"progress": {"regex": r"step (?P<step>\d+) loss (?P<loss>[0-9.]+)"}, "volumes": ["/mnt/pytorch:/pytorch"]}
    going = start(STEPS, "--name", "steps", job=keys)

    def measured() -> bool:
        done = distui("metrics", "steps", "-o", "json")
        return done.returncode == 0 and "loss" in done.stdout and "cpu_load" in done.stdout

    until(measured)
    (lab.share / "measured").touch()
    assert going.finish().returncode == 0
    (lab.share / "measured").unlink()
    table = distui("metrics", "steps").stdout
    assert {"loss", "step_time", "cpu_load"} <= {row.split()[0] for row in table.splitlines() if row}, table
    rows = list(csv.DictReader(distui("metrics", "steps", "loss", "-o", "csv").stdout.splitlines()))
    assert (rows[-1]["step"], rows[-1]["low"]) == ("40", "0.59"), rows
