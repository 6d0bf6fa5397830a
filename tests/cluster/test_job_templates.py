"""What `job new` and the app begin with runs as it is on real hosts: each template, written, started, ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.jobs.job_templates import TEMPLATES
from lab.runs import assert_clean

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("trainers")]

LAST = {
    "torch": "step 20 of 20: sum of all ranks 2",
    "torchrun": "step 20 of 20: sum of all ranks 2",
    "tf": "step 20 of 20: sum of all workers 2",
    "tf-ps": "step 20 of 20: counted by workers 20",
    "command": "step 10 of 10: node 1 of 2",
}


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_a_new_job_runs_as_it_is(
    lab: Any, home: Path, distui: Callable[..., subprocess.CompletedProcess[str]], template: str
) -> None:
    """Only the image is another one here, and there are no GPUs."""
    written = distui("job", "new", "j.yaml", "--template", template)
    assert written.returncode == 0, written.stderr
    image = f"image=lab/{'tensorflow' if template.startswith('tf') else 'pytorch'}:1"
    done = distui("run", "j.yaml", "--set", image, "--set", "backend=gloo", "--headless", "-y", "-o", "ndjson")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    said = [event["line"] for event in events if event["type"] == "log"]
    assert done.returncode == 0, (done.stderr, said[-20:])
    assert any(line.startswith(LAST[template]) for line in said), said[-20:]
    assert_clean(lab)
