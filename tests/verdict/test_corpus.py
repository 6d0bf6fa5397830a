"""Every ending in `cases/` judged: the right first rank, each rank's own end and relation, and no claim too much."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from distui.runs.lines.event_json import failure_json
from distui.runs.verdict.evidence import Evidence
from distui.runs.verdict.judge import judge
from distui.runs.verdict.outcome import RankEnd, Verdict
from distui.runs.verdict.success import LastWords, suspicions
from distui.runs.watch.track import TAIL_LINES
from verdict.load import evidence_of

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
WELL = ("succeeded", "before")
"""Ended with 0 by itself: before the failure or not is told by the times."""


def read(path: Path) -> Mapping[str, Any]:
    """A case."""
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found


def said(verdict: Verdict) -> list[str]:
    """All that is claimed in words, one line each: the failure, the notes, each rank's end."""
    failure = failure_json(verdict.failure)
    lines = [*verdict.notes, *verdict.odd]
    if verdict.failure is not None and failure is not None:
        lines += [f"{verdict.failure.who or verdict.failure.host} failed first: {failure['words']}"]
        lines += [failure["cause"], failure["hint"], failure["uncertain"]]
    return [*lines, *(f"rank {end.rank} {end.relation} {end.of} {end.words}" for end in verdict.ranks.values())]


def warned(case: Mapping[str, Any]) -> Iterator[str]:
    """What is found odd about the last lines of a run that ended well."""
    well = [task for task in evidence_of(case).tasks if task.end and not task.end.code]
    said = [(rank, task, task.lines.get(rank, ())) for task in well for rank in (*task.ranks, None)]
    yield from suspicions(
        [LastWords(rank, task.host, [line.text for line in lines][-TAIL_LINES:]) for rank, task, lines in said if lines]
    )


def wrong(case: Mapping[str, Any]) -> Iterator[str]:
    """What the verdict on a case says that is not true, and what it keeps quiet."""
    truth, verdict = case["truth"], judge(evidence_of(case))
    if verdict.outcome != truth["outcome"]:
        yield f"outcome {verdict.outcome}, truly {truth['outcome']}"
    yield from _first(verdict, truth)
    for rank, its in truth["ranks"].items():
        yield from _rank(verdict.ranks[int(rank)], its, truth)
    cause = verdict.failure.cause if verdict.failure is not None else ""
    if not re.search(truth["cause"] or "^$", cause):
        yield f"cause {cause!r}, truly {truth['cause'] or 'none that anybody knows'!r}"
    words = [*said(verdict), *(warned(case) if truth["outcome"] == "succeeded" else ())]
    yield from (f"says {found!r}" for p in truth["never"] for line in words if (found := line) and re.search(p, line))
    yield from (f"does not say {p!r}" for p in truth.get("says") or () if not any(re.search(p, w) for w in words))


@cache
def wrong_of(path: Path) -> tuple[str, ...]:
    """The same for a case's file, found once."""
    return tuple(wrong(read(path)))


def _first(verdict: Verdict, truth: Mapping[str, Any]) -> Iterator[str]:
    if not set(verdict.first[:1]) <= set(truth["first"]) or bool(verdict.first) != bool(truth["first"]):
        yield f"first {verdict.first}, truly {truth['first']}"
    elif len(truth["first"]) > 1 and len(verdict.first) < 2 and verdict.certainty == "certain":
        yield f"certain of rank {verdict.first}, truly one of {truth['first']}"
    elif not set(verdict.first) <= set(truth["first"]):
        yield f"{verdict.first} {verdict.certainty}, truly {truth['first']}"


def _rank(end: RankEnd, its: Mapping[str, Any], truth: Mapping[str, Any]) -> Iterator[str]:
    wanted, relation = its["relation"], end.relation
    alike = end.rank in truth["first"] and {wanted, relation} <= {"first", "alike"}
    if relation != wanted and not alike and not {wanted, relation} <= set(WELL):
        yield f"rank {end.rank} {relation}, truly {wanted}"
    if its["exit"] is not None and end.exit != its["exit"]:
        yield f"rank {end.rank} exit {end.exit}, truly {its['exit']}"
    if its["signal"] is not None and end.exit != 128 + its["signal"]:
        yield f"rank {end.rank} exit {end.exit}, truly signal {its['signal']}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_verdict_is_true(path: Path) -> None:
    """Outcome, first rank, each rank's own end, cause; and nothing that is not so."""
    assert wrong_of(path) == ()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_order_of_what_is_known_does_not_matter(path: Path) -> None:
    """Tasks, stops and silences shuffled give the same verdict."""
    known = evidence_of(read(path))
    verdict = judge(known)
    for seed in range(4):
        assert judge(shuffled(known, random.Random(seed))) == verdict


def shuffled(known: Evidence, by: random.Random) -> Evidence:
    """The same facts in another order."""
    tasks, stops, silences = list(known.tasks), list(known.stops), list(known.silences)
    for items in (tasks, stops, silences):
        by.shuffle(items)  # type: ignore[arg-type]
    return replace(known, tasks=tuple(tasks), stops=tuple(stops), silences=tuple(silences))


def test_the_accuracy_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """All cases count, and all are right."""
    bad = {path.stem: found for path in CASES if (found := wrong_of(path))}
    with capsys.disabled():
        print(f"\nverdict: {len(CASES) - len(bad)} of {len(CASES)} endings are judged right")
    assert not bad
