"""Attempts, limits and restarts on real hosts: what is tried again, what is kept of it, and what is left (nothing)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: again
hosts: h[1-2]
image: lab/python:1
command: %s
stop_grace: 3s
"""


@pytest.fixture
def distui(lab: Any, home: Path) -> Distui:
    """distui run from the home folder, where hosts.yaml is."""

    def call(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return lab.distui(*args, home=home, **options)

    return call


def job(home: Path, *script: str, extra: str = "", name: str = "job.yaml") -> str:
    """A job that runs a shell script on each rank."""
    path = home / name
    path.write_text(JOB % json.dumps(["sh", "-c", "\n".join(script)]) + extra)
    return str(path)


def events_of(done: subprocess.CompletedProcess[str], kind: str) -> list[dict[str, Any]]:
    """All NDJSON events of one type."""
    values = [json.loads(line) for line in done.stdout.splitlines()]
    return [v for v in values if v["type"] == kind]


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def test_the_second_attempt_succeeds(lab: Any, home: Path, distui: Distui) -> None:
    """Exit 0; every attempt has a fresh port and a log of its own in which each line stands once."""
    text = job(
        home,
        'seq -f "attempt $DISTUI_ATTEMPT rank $RANK line %g" 2000',
        'echo "port $MASTER_PORT"',
        '[ "$DISTUI_ATTEMPT$RANK" = 11 ] && { echo boom >&2; exit 3; }',
        '[ "$DISTUI_ATTEMPT" = 2 ] || sleep 60',
        extra="retries: 2\n",
    )
    done = distui("run", text, "--headless", "-y", "-o", "ndjson", "--name", "again-1")

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    (result,) = events_of(done, "result")
    assert (result["state"], result["attempt"], result["attempts"]) == ("succeeded", 2, 3)
    (failed,) = events_of(done, "attempt")
    first = failed["first_failure"]
    assert (first["rank"], first["host"], first["exit"]) == (1, "h2", 3)
    ports = set()
    for number, folder in ((1, Path(failed["log_dir"])), (2, Path(result["log_dir"]))):
        for rank in (0, 1):
            *lines, port = [
                line for line in (folder / f"rank-0000{rank}.log").read_text().splitlines() if line != "boom"
            ]
            assert lines == [f"attempt {number} rank {rank} line {n}" for n in range(1, 2001)]
            ports.add((number, port))
    assert len(ports) == 2
    assert len({port for _, port in ports}) == 2
    shown = distui("logs", "again-1", "--attempt", "1", "--rank", "1", "-n", "1", "--no-prefix")
    assert shown.stdout.splitlines()[-1] in ("boom", sorted(ports)[0][1])
    assert_clean(lab)


def test_attempts_used_up(lab: Any, home: Path, distui: Distui) -> None:
    """Exit 1 with the last attempt's failure; people read which attempt it was."""
    text = job(home, '[ "$RANK" = 0 ] && exit $((10 + DISTUI_ATTEMPT))', "sleep 60", extra="retries: 1\n")
    done = distui("run", text, "--headless", "-y", "--name", "again-2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "attempt 1 of 2 failed: rank 0 on h1: exit 11" in done.stderr
    assert "attempt 2 of 2" in done.stderr
    assert "first  rank 0 on h1: exit 12" in done.stderr
    told = json.loads(distui("show", "again-2", "-o", "json").stdout)
    assert (told["state"], told["attempt"], told["attempts"], told["first_failure"]["exit"]) == ("failed", 2, 2, 12)
    assert_clean(lab)


def test_an_attempt_is_seen_from_another_machine(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """Labels tell the attempt: `ps` and `attach` elsewhere say it; who leaves is told what is not done then."""
    text = job(home, "sleep 4", 'exit "$RANK"', extra="retries: 2\n")
    left = distui("run", text, "-d", "-y", "--name", "again-3")
    assert left.returncode == 0, left.stderr
    assert "no further attempt is begun" in left.stderr

    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    (row,) = json.loads(lab.distui("ps", "-o", "json", home=other).stdout)["runs"]
    assert (row["run"], row["attempt"], row["attempts"]) == ("again-3", 1, 3)
    done = lab.distui("attach", "again-3", "--headless", home=other)
    assert done.returncode == 1, done.stderr
    assert "following again-3, attempt 1 of 3" in done.stderr
    assert "only the distui that started the run begins the next attempt" in done.stderr
    assert_clean(lab)
