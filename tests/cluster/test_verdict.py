"""The verdict on real hosts under torchrun: who failed first, who failed alike, and each rank's own exit status."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

RAISES = """
import os, pathlib, sys, time
rank, here = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
(here / f"met-{rank}").touch()
while len(list(here.glob("met-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.005)
(DO)
"""
SAME = 'time.sleep(0.5 + 0.1 * rank); raise RuntimeError("loss is nan at step 5")'
EACH = """
if rank == 0:
    time.sleep(0.5)
    raise ValueError("bad batch 17")
time.sleep(600)
"""


def run(lab: Any, home: Path, distui: Any, do: str, per_host: int, hosts: str) -> dict[str, Any]:
    """Runs ranks that meet and then do this; its result, with the last event of each rank under `ranks`."""
    meet = Path(tempfile.mkdtemp(prefix="meet-", dir=lab.share))
    (lab.share / "raises.py").write_text(RAISES.replace("(DO)", do))
    job = {"version": 1, "name": "ends", "hosts": hosts, "image": "lab/pytorch:1", "launcher": "torchrun"}
    job |= {"ranks": {"per_host": per_host}, "backend": "gloo", "stop_grace": "3s"}
    job |= {"volumes": ["/mnt/pytorch:/pytorch"], "command": ["/pytorch/raises.py", f"/pytorch/{meet.name}"]}
    (home / "job.yaml").write_text(json.dumps(job))
    done = distui("run", "job.yaml", "--headless", "-y", "-o", "ndjson")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ranks = {event["rank"]: event for event in events if event["type"] == "rank"}
    return {**events[-1], "ranks": ranks}


def test_two_torchruns_that_raise_the_same_failed_alike(lab: Any, home: Path, distui: Any) -> None:
    """One rank a host, 0.1 s apart; the containers end seconds later, one of them after our stop."""
    result = run(lab, home, distui, SAME, 1, "h[1-2]")
    assert (result["state"], result["exit"]) == ("failed", 1)
    first = result["first_failure"]
    assert {first["rank"], *first["alike"]} == {0, 1}
    assert first["within_s"] < 5
    assert {end["relation"] for end in result["ranks"].values()} == {"first", "alike"}
    assert [end["exit"] for end in result["ranks"].values()] == [1, 1]
    assert not any("stopped by distui" in end["words"] for end in result["ranks"].values())


def test_ranks_of_a_torchrun_have_their_own_exit_status(lab: Any, home: Path, distui: Any) -> None:
    """Rank 0 raises, torchrun ends the other with SIGTERM: neither has the container's status."""
    result = run(lab, home, distui, EACH, 2, "h1")
    ends = {rank: (end["relation"], end["exit"], end["of"]) for rank, end in result["ranks"].items()}
    assert ends == {0: ("first", 1, ""), 1: ("followed", 143, "rank 0")}
    assert result["first_failure"]["excerpt"][-1] == "ValueError: bad batch 17"
