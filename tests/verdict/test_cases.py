"""Every case is whole and agrees with itself: what is true can be told from its name, its ranks and its ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

CASES = sorted(Path(__file__).parent.glob("cases/*.json"))
RELATIONS = {"first", "alike", "followed", "before", "stopped", "succeeded", "unknown"}
OUTCOMES = {"failed", "stopped", "succeeded", "unknown"}
REASONS = {"failure", "user", "timeout", "limit", "done", "elsewhere"}
STATES = {"exited", "lost", "never_started", "removed"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_agrees_with_itself(path: Path) -> None:
    """Ranks, ends and words are of the known kinds, and who is first is so in the ranks too."""
    case = json.loads(path.read_text())
    truth, tasks = case["truth"], case["tasks"]
    ranks = [rank for task in tasks for rank in task["ranks"]]

    assert case["source"].startswith(("recorded:", "written after: "))
    assert truth["outcome"] in OUTCOMES
    assert sorted(map(int, truth["ranks"])) == sorted(ranks)
    assert {rank["relation"] for rank in truth["ranks"].values()} <= RELATIONS
    assert {stop["reason"] for stop in case["stops"]} <= REASONS
    assert {task["end"]["state"] for task in tasks if task["end"]} <= STATES
    assert all(task["host"] in case["hosts"] for task in tasks)
    blamed = [int(r) for r, rank in truth["ranks"].items() if rank["relation"] in ("first", "alike")]
    assert sorted(truth["first"]) == sorted(blamed)
    assert truth["alike"] == (len(truth["first"]) > 1)
    for pattern in (truth["cause"], *truth["never"], *truth.get("says", ())):
        re.compile(pattern)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_small_and_says_nothing_of_who_recorded_it(path: Path) -> None:
    """At most 200 lines of each rank, in the order of their times, and no path of the machine it is from."""
    text = path.read_text()
    case = json.loads(text)

    assert re.findall(r"/work/|/root/|/var/tmp/|distui-lab", text) == []
    for task in case["tasks"]:
        stamps = [line[0] for line in task["lines"] if line[0] is not None]
        assert stamps == sorted(stamps)
        for rank in (*task["ranks"], None):
            assert sum(line[1] == rank for line in task["lines"]) <= 200


def test_there_are_endings_of_every_kind() -> None:
    """All launchers, both engines, one to sixteen ranks, every outcome, recorded and written ones."""
    cases: list[dict[str, Any]] = [json.loads(path.read_text()) for path in CASES]

    assert {case["engine"] for case in cases} == {"docker", "process"}
    assert {case["launcher"] for case in cases} == {"env", "torchrun", "tf", "command"}
    assert {1, 2, 3, 4, 5, 8, 16} <= {len(case["truth"]["ranks"]) for case in cases}
    assert {case["truth"]["outcome"] for case in cases} == OUTCOMES
    assert len(cases) >= 80
    assert sum(case["source"].startswith("recorded:") for case in cases) > 150
