"""Tasks of TensorFlow and of other launchers have their names in what is said of why a run does not go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distui.plan.model import RunPlan
from distui.runs.insight.asking import look as looks
from distui.runs.insight.asking.task_names import task_names, with_names
from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.insight.seen.ranks import TaskRanks
from distui.runs.lines.explanation import Calls, Explanation, RankPlace
from distui.runs.report import why_words
from distui.runs.store.why_records import WhyRecord
from fakehosts.runs import plan_for

NAMES = {0: "worker/0", 1: "worker/1", 2: "ps/0"}
FOUND = Explanation(
    "hang",
    "rank 1 is stopped, for which ranks 0,2 wait",
    "likely",
    (RankPlace(1, "h2", "is stopped", culprit=True), RankPlace(0, "h1", "waits for rank 1"), RankPlace(2, "h1", "")),
    (
        "ranks 0-1: TensorFlow does not tell its collectives",
        "of rank 7 nothing is known",
        "no rank tells more",
        "`rank 5-3`, rank 12345678901",
    ),
    "look at rank 1",
)


def test_names_stand_for_numbers_in_all_words() -> None:
    """A number that has no name stays."""
    named = with_names(FOUND, NAMES)
    assert named.headline == "worker/1 is stopped, for which worker/0,ps/0 wait"
    assert named.evidence[0] == "worker/[0-1]: TensorFlow does not tell its collectives"
    assert named.evidence[1:] == FOUND.evidence[1:]
    assert named.advice == "look at worker/1"
    assert [(place.name, place.does) for place in named.ranks][:2] == [
        ("worker/1", "is stopped"),
        ("worker/0", "waits for worker/1"),
    ]
    assert with_names(named, NAMES) == named
    assert with_names(FOUND, {}) is FOUND


def test_a_number_of_torch_is_no_task() -> None:
    """A rank that a task has started itself is counted otherwise; which task that was is said by its name."""
    place = RankPlace(1, "h2", "waits", within=0)
    said = ("rank 1 sleeps", "ranks as torch counts them: 0-1 in rank 0, 2-3 in rank 1 of this run")
    found = with_names(replace(FOUND, ranks=(place,), evidence=said), {0: "node0", 1: "node1"})
    assert (found.ranks, found.headline) == ((place,), FOUND.headline)
    assert found.evidence == (said[0], "ranks as torch counts them: 0-1 in node0, 2-3 in node1 of this run")


def test_why_calls_them_by_their_names() -> None:
    """In its table and above the calls."""
    record = WhyRecord(1.0, "user", with_names(FOUND, NAMES), (Calls((0, 1), ("f",)), Calls((2,), ())))
    said = list(why_words.text(record, None, stacks=True))
    assert any(line.startswith(">worker/1 ") for line in said) and any(line.startswith(" ps/0 ") for line in said)
    assert "worker/[0-1]:" in said and "ps/0:" in said
    assert "ranks 0-1:" in list(why_words.stacks_text(replace(record, found=FOUND)))


async def test_a_look_has_the_names_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan whose tasks have some."""

    async def answer(hosts: Any, ids: Any, **asked: Any) -> dict[str, HostAnswer]:
        return {"h1": HostAnswer("h1", why_not="host h1 can't be asked: gone")}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    asked = looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}, names=NAMES)
    found = (await looks.look(asked)).explanation
    assert [place.name for place in found.ranks] == ["worker/0"]
    assert not any("rank 0" in line for line in (found.headline, *found.evidence))
    plan: RunPlan = plan_for("h1", "h2")
    assert task_names(plan) == {}
    labelled = tuple(
        replace(task, name=f"worker/{task.index}", labels={**task.labels, "distui.name": "x"}) for task in plan.tasks
    )
    assert task_names(replace(plan, launcher="tf", tasks=labelled)) == {0: "worker/0", 1: "worker/1"}
