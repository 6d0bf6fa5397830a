"""What is recorded of a run stays true: a verdict never changes, whoever is killed, reads along or removes things."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.lab import Lab
from lab.program import Program
from lab.runs import assert_clean, read_until, until

Distui = Callable[..., Any]
Start = Callable[..., Program]

KILLS = 20


def row_of(distui: Distui, run: str) -> dict[str, Any]:
    """What `show -o json` says of a run."""
    told: dict[str, Any] = json.loads(distui("show", run, "-o", "json").stdout)
    return told


def detached(distui: Distui, home: Path, name: str, script: str, **keys: Any) -> None:
    """A run of two ranks that is started and left."""
    job = {"version": 1, "name": "smoke", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "3s"}
    (home / "job.yaml").write_text(json.dumps({**job, "command": ["sh", "-c", script], **keys}))
    done = distui("run", "job.yaml", "--headless", "-y", "-d", "--name", name)
    assert done.returncode == 0, done.stderr


def none_runs(lab: Lab) -> bool:
    """Whether no container of distui runs on any host."""
    return not any(host.out("docker", "ps", "-q", "--filter", "label=distui.run") for host in lab.hosts)


@pytest.mark.parametrize(("script", "state", "code"), [("exit 0", "succeeded", 0), ("exit $RANK", "failed", 1)])
def test_a_stop_does_not_change_how_a_run_had_ended(
    lab: Lab, home: Path, distui: Distui, script: str, state: str, code: int
) -> None:
    """It reads the logs and cleans up; the verdict is that of the ranks, which had ended by themselves."""
    detached(distui, home, "over", f"echo said; {script}")
    until(lambda: none_runs(lab))
    stopped = distui("stop", "over")
    assert stopped.returncode == 0, stopped.stderr
    row = row_of(distui, "over")
    assert (row["state"], row["exit"]) == (state, code), stopped.stderr
    assert (Path(row["log_dir"]) / "rank-00000.log").read_text() == "said\n"
    assert distui("stop", "over").returncode == 0
    assert (distui("wait", "over").returncode, row_of(distui, "over")["state"]) == (code, state)
    assert_clean(lab)


@pytest.mark.parametrize(("script", "state", "code"), [("exit 0", "succeeded", 0), ("exit $RANK", "failed", 1)])
def test_containers_that_were_kept_are_removed_by_a_stop_which_changes_no_verdict(
    lab: Lab, distui: Distui, start: Start, script: str, state: str, code: int
) -> None:
    """`run --keep` gave the verdict; one of the containers may even be gone by then."""
    program = start(f"echo said; {script}", "--keep", "--name", "kept", wait=False)
    program.finish()
    before = row_of(distui, "kept")
    assert (before["state"], before["exit"]) == (state, code)
    lab.hosts[0].out("docker", "container", "prune", "-f")
    stopped = distui("stop", "kept")
    assert stopped.returncode == 0, stopped.stderr
    after = row_of(distui, "kept")
    assert (after["state"], after["exit"], after["first_failure"]) == (state, code, before["first_failure"])
    assert_clean(lab)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_in_the_clean_up_changes_no_verdict_and_leaves_nothing(
    lab: Lab, distui: Distui, start: Start, seed: int
) -> None:
    """SIGKILL at some moment after "cleaning up" is said: what comes next finishes it and says the same."""
    chance = random.Random(seed)
    code = seed % 2
    program = start(f"echo said; exit $((RANK * {code}))", "-o", "ndjson", "--name", f"killed{seed}", wait=False)
    read_until(program, type="phase", phase="cleanup")
    time.sleep(chance.uniform(0.0, 0.4))  # the moment of the kill, not an order
    program.signal_group(signal.SIGKILL)
    program.wait(30)
    state = ("succeeded", "failed")[code]
    row = row_of(distui, f"killed{seed}")
    assert (row["state"], row["exit"]) == (state, code)
    verb = ("wait", "attach", "stop")[seed % 3]
    done = distui(verb, f"killed{seed}", *(["--headless"] if verb == "attach" else []))
    assert done.returncode == (code if verb != "stop" else 0), done.stderr
    row = row_of(distui, f"killed{seed}")
    assert (row["state"], row["exit"]) == (state, code), done.stderr
    if code:
        assert row["first_failure"]["rank"] == 1
    assert_clean(lab)
