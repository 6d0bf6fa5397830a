"""Two people with one run in the app, each from a home and a terminal of their own: what one does the other sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

JOB = """\
version: 1
name: steps
hosts: h[1-2]
image: lab/python:1
ranks: {per_host: 1}
command: [sh, -c, 'i=0; while :; do i=$((i+1)); echo "step $i loss 1.$i"; sleep 0.5; done']
progress: {regex: 'step (?P<step>\\d+) loss (?P<loss>[\\d.]+)'}
stop_grace: 1s
"""


@pytest.fixture
def other(lab: Any, home: Path, tmp_path: Path) -> Path:
    """The home of somebody else with the same hosts."""
    folder: Path = lab.ssh_home(tmp_path / "other")
    (folder / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    return folder


@pytest.fixture
def run(lab: Any, home: Path) -> Iterator[str]:
    """The run's name; it ends with the test."""
    (home / "job.yaml").write_text(JOB)
    yield "both"
    lab.distui("kill", "both", "-y", home=home)


def steps(home: Path, run: str, rank: int) -> list[str]:
    """What is recorded of a rank."""
    return (home / f".local/state/distui/runs/{run}/logs/rank-{rank:05d}.log").read_text().splitlines()


def newest(text: str) -> int:
    """The newest step on a screen."""
    return max(map(int, re.findall(r"step (\d+)", text)), default=0)


def test_two_people_watch_one_run(lab: Any, home: Path, other: Path, run: str) -> None:
    """One starts it; the other finds it in Runs, follows it, leaves, comes back, and stops it: both see it end, and
    have every line from the first one on.
    """
    with Terminal(lab, home, (120, 36)) as mine, Terminal(lab, other, (80, 24)) as yours:
        mine.enter(f"distui run job.yaml --name {run} -y")
        mine.wait("RUNNING", "2 of 2 ranks", re.compile(r"step [3-9]"))
        yours.enter("distui")
        yours.wait("h1", "h3", "1 run")
        yours.keys("3")
        yours.wait(run, "RUNNING", "nobody follows it here", re.compile(r"last .*step \d+ loss"))
        yours.keys("Enter")
        seen = newest(yours.wait(f"Runs › {run}", "RUNNING", re.compile(r"step \d+ loss")))
        for term in (mine, yours):
            term.wait(lambda text: newest(text) > seen + 2)

        yours.keys("C-q")
        yours.wait("Quit while 1 run is still running?", "Stay")
        yours.keys("Right", "Enter")
        assert f"{run} is still running" in " ".join(yours.wait_shell().split())
        left = newest(mine.wait("RUNNING"))
        mine.wait("RUNNING", lambda text: newest(text) > left + 2)

        yours.enter(f"clear; distui attach {run}")
        yours.wait(f"Runs › {run}", "RUNNING", lambda text: newest(text) > left + 2)
        yours.keys("S")
        yours.wait(f"Stop {run}?", "Cancel", "h1", "h2")
        yours.keys("Right", "Enter")
        for term in (mine, yours):
            term.wait("STOPPED")
            term.keys("C-q")
            term.wait_shell()
    for rank in (0, 1):
        lines = steps(home, run, rank)
        assert lines == [f"step {n} loss 1.{n}" for n in range(1, len(lines) + 1)]
        assert steps(other, run, rank) == lines
    assert not any(host.running() for host in lab.hosts)
