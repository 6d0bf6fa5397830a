"""What changes nothing of what is true changes nothing of the verdict: a clock known to be wrong, older lines."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.run.verdict.judge import judge
from verdict.load import evidence_of

CASES = sorted(Path(__file__).parent.glob("cases/*.json"))
AHEAD = 7.25
"""Seconds."""
KEPT = 120
"""Lines of each rank."""


def believed(case: dict[str, Any]) -> tuple[object, ...]:
    """What is claimed: the outcome, who was first, how each rank ended."""
    verdict = judge(evidence_of(case))
    ends = {rank: (end.relation, end.exit) for rank, end in verdict.ranks.items()}
    return verdict.outcome, verdict.certainty, sorted(verdict.first), verdict.first[:1], ends


def with_clock_ahead(case: dict[str, Any], host: str) -> dict[str, Any]:
    """The same ending on a host whose clock is ahead, which was measured."""
    moved = copy.deepcopy(case)
    clock = moved["hosts"][host]
    clock["offset_ms"] = (clock["offset_ms"] or 0.0) + AHEAD * 1000
    for task in (task for task in moved["tasks"] if task["host"] == host):
        for line in task["lines"]:
            line[0] = later(line[0])
        if task["end"] is not None:
            task["end"] |= {key: later(task["end"][key]) for key in ("finished_at", "started_at")}
    return moved


def later(at: float | None) -> float | None:
    """A time by the clock that is ahead."""
    return None if at is None else at + AHEAD


def with_last_host_ahead(case: dict[str, Any]) -> dict[str, Any]:
    """The last host's clock is ahead."""
    return with_clock_ahead(case, max(case["hosts"]))


def with_fewer_lines(case: dict[str, Any]) -> dict[str, Any]:
    """Only the last lines of each rank are kept."""
    short = copy.deepcopy(case)
    for task in short["tasks"]:
        kept = {rank: [line for line in task["lines"] if line[1] == rank][-KEPT:] for rank in (None, *task["ranks"])}
        task["lines"] = [line for line in task["lines"] if any(line is one for one in kept[line[1]])]
    return short


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("change", [with_last_host_ahead, with_fewer_lines])
def test_the_verdict_stays(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The same is believed as before."""
    case = json.loads(path.read_text())
    assert believed(change(case)) == believed(case)
