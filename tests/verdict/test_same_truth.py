"""What changes nothing of what is true changes nothing of the verdict: a clock known to be wrong, older lines, another
time, other hosts' names, repeated lines, and what launchers and loggers put before a line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distui.runs.verdict.judge import judge
from verdict.load import evidence_of

CASES = sorted(Path(__file__).parent.glob("cases/*.json"))
AHEAD = 7.25
"""Seconds."""
KEPT = 120
"""Lines of each rank."""
LATER = 12345.678
"""Seconds."""
TIMES = ("at", "since", "finished_at", "started_at", "seen_at", "lost_at", "away_at", "engine_lost_at", "measured_at")
PREFIXES = (
    ("2026-11-22 20:18:55.123 ", ""),
    ("[2026-11-22T20:18:55.123456Z] ", ""),
    ("[2026-11-22 20:18:55,123] ", ""),
    ("[default0]:", ""),
    ("[1,0]<stderr>:", ""),
    ("Nov 22 20:18:55 h1 train[41]: ", ""),
    ("(TrainWorker pid=5, ip=10.0.0.1) ", ""),
    ("\x1b[31m", "\x1b[0m"),
    ("\rEpoch 3:  46%|####5     | 451/1000 [00:30<00:36, 14.9it/s]\r", ""),
)
"""What launchers, loggers and terminals put around a line."""


def copied(case: dict[str, Any]) -> dict[str, Any]:
    """The same case as values of its own: `copy.deepcopy` takes ten times as long."""
    made: dict[str, Any] = json.loads(json.dumps(case))
    return made


def believed(case: dict[str, Any]) -> tuple[object, ...]:
    """What is claimed: the outcome, who was first, how each rank ended."""
    verdict = judge(evidence_of(case))
    ends = {rank: (end.relation, end.exit) for rank, end in verdict.ranks.items()}
    cause = verdict.failure.cause if verdict.failure is not None else ""
    return verdict.outcome, verdict.certainty, sorted(verdict.first), verdict.first[:1], cause, ends


def with_clock_ahead(case: dict[str, Any], host: str) -> dict[str, Any]:
    """The same ending on a host whose clock is ahead, which was measured."""
    moved = copied(case)
    clock = moved["hosts"][host]
    clock["offset_ms"] = (clock["offset_ms"] or 0.0) + AHEAD * 1000
    for reading in clock.get("clock", ()):
        reading[1] = later(reading[1])
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
    short = copied(case)
    for task in short["tasks"]:
        kept = {rank: [line for line in task["lines"] if line[1] == rank][-KEPT:] for rank in (None, *task["ranks"])}
        task["lines"] = [line for line in task["lines"] if any(line is one for one in kept[line[1]])]
    return short


def at_another_time(case: dict[str, Any]) -> dict[str, Any]:
    """All of it some hours later."""
    moved = copied(case)
    timed = [*moved["hosts"].values(), *moved["stops"], *moved.get("silences", ())]
    for one in [*timed, *(task["end"] for task in moved["tasks"] if task["end"] is not None)]:
        one |= {key: one[key] + LATER for key in TIMES if one.get(key) is not None}
    for host in moved["hosts"].values():
        host |= {key: [[at + LATER for at in one] for one in host[key]] for key in ("clock", "away") if key in host}
    for line in (line for task in moved["tasks"] for line in task["lines"] if line[0] is not None):
        line[0] += LATER
    return moved


def with_other_names(case: dict[str, Any]) -> dict[str, Any]:
    """Hosts whose names sort the other way round."""
    moved = copied(case)
    names = {host: f"node-{99 - number}" for number, host in enumerate(sorted(case["hosts"]))}
    moved["hosts"] = {names[host]: known for host, known in case["hosts"].items()}
    for task in moved["tasks"]:
        task["host"] = names[task["host"]]
    return moved


def with_lines_of_work_twice(case: dict[str, Any]) -> dict[str, Any]:
    """Lines of work and warnings are said twice."""
    moved = copied(case)
    for task in moved["tasks"]:
        noise = [("step" in line[2] or "Warning" in line[2]) for line in task["lines"]]
        task["lines"] = [line for line, twice in zip(task["lines"], noise, strict=True) for _ in range(1 + twice)]
    return moved


CHANGES = (with_last_host_ahead, with_fewer_lines, at_another_time, with_other_names, with_lines_of_work_twice)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_verdict_stays(path: Path) -> None:
    """The same is believed as before."""
    case = json.loads(path.read_text())
    before = believed(case)
    wrong = {change.__name__: now for change in CHANGES if (now := believed(change(case))) != before}
    assert not wrong, f"without a change: {before}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_stands_before_each_line_changes_nothing(path: Path) -> None:
    """Times, ranks, colours, a progress bar that the line overwrote."""
    case = json.loads(path.read_text())
    without = believed(case)
    wrong = {before: now for before, after in PREFIXES if (now := believed(between(case, before, after))) != without}
    assert not wrong, f"without any: {without}"


def between(case: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    """The same ending with each line that says something between these."""
    moved = copied(case)
    for line in (line for task in moved["tasks"] for line in task["lines"] if line[2].strip()):
        line[2] = before + line[2] + after
    return moved
