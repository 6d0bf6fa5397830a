"""The demo's jobs: what their programs print is read as steps of how many, loss and checkpoints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from distui.cli.demo import demo_ui
from distui.cli.demo.demo_job import digits
from distui.spec.schema import schema


def figures(job: dict[str, object], *lines: str) -> dict[str, str]:
    """What these lines say, the last one of each."""
    progress = job["progress"]
    assert isinstance(progress, dict)
    found: dict[str, str] = {}
    for line in lines:
        if (match := re.search(progress["regex"], line)) is not None:
            found |= {name: text for name, text in match.groupdict().items() if text}
    return found


def test_counting_says_its_last_step_and_its_checkpoints(tmp_path: Path) -> None:
    program = demo_ui.COUNTING.replace("time.sleep(0.2)", "")
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "x"}
    done = subprocess.run([sys.executable, "-c", program, "60"], env=env, capture_output=True, text=True, check=True)
    found = figures(demo_ui._counting(tmp_path, "60"), *done.stdout.splitlines())
    assert (found["step"], found["total"], found["checkpoint"]) == ("60", "60", "50")
    assert float(found["loss"]) < 1


def test_digits_says_its_last_step() -> None:
    """As the trainer prints it."""
    text = Path(digits(epochs=1, image=None)["command"][1]).read_text()
    assert "steps in all" in text
    found = figures(digits(epochs=1, image=None), "rank 0/2 epoch 1 step 20 loss 0.5123, 171 steps in all")
    assert found == {"step": "20", "loss": "0.5123", "total": "171"}


def test_the_schema_names_the_groups_that_mean_something() -> None:
    regex = schema("job")["properties"]["progress"]["properties"]["regex"]
    for name in ("step", "total", "epoch", "loss", "checkpoint", "tokens_per_s", "samples_per_s", "step_time"):
        assert f"`{name}`" in regex["description"], name
