"""When a look at a run's ranks asks for their stacks."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cli.actions.why_figures import hosts_json
from distui.runs.insight.asking import look as looks
from distui.runs.insight.seen.answers import Collective, Frame, Group, HostAnswer, Process, Stack, host_answer
from distui.runs.insight.seen.ranks import TaskRanks, main_of

NOW = 1000.0
STACKS = (Stack("0x1", True, (Frame("/work/train.py", 7, "<module>"),)),)


def process(groups: dict[str, Group]) -> Process:
    """One rank's."""
    return Process(1, 0, "python", "S", 0.0, rank=0, torch="2.13.0", groups=groups)


def group(waited: float) -> dict[str, Group]:
    """The default group, in whose first collective a rank has been so long."""
    one = Collective(1, "gloo:all_reduce", "10", "Float", int((NOW - waited) * 1e9), False)
    return {"0": Group("0", "default_pg", (one,), 1)}


@pytest.mark.parametrize(
    ("groups", "kind", "asked"),
    [
        ({}, "unseen", [False]),
        (group(0.1), "moving", [False]),
        (group(60), "hang", [False, True]),
    ],
)
async def test_only_what_stands_is_asked_for_stacks(
    monkeypatch: pytest.MonkeyPatch, groups: dict[str, Group], kind: str, asked: list[bool]
) -> None:
    """Who follows a run asks again and again: a run that uses no collectives is never sent a signal by that."""
    calls: list[bool] = []

    async def answer(
        hosts: Any, ids: Any, *, stacks: bool = False, ras: float = 0, gpus: float = 0
    ) -> dict[str, HostAnswer]:
        calls.append(stacks)
        return {"h1": HostAnswer("h1", {0: (process(groups),)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert (found.explanation.kind, calls) == (kind, asked)


@pytest.mark.parametrize("later", [(), (Process(2, 0, "python", "S", 0.0, rank=0, torch="2.13.0", stacks=STACKS),)])
async def test_stacks_are_of_the_process_that_was_seen(
    monkeypatch: pytest.MonkeyPatch, later: tuple[Process, ...]
) -> None:
    """One that has ended meanwhile, or was started again, leaves the rank as it was seen at first."""
    before = process(group(60))
    answers = iter([(before,), later])

    async def answer(
        hosts: Any, ids: Any, *, stacks: bool = False, ras: float = 0, gpus: float = 0
    ) -> dict[str, HostAnswer]:
        return {"h1": HostAnswer("h1", {0: next(answers)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert [seen.process for seen in found.ranks] == [before]


async def test_stacks_are_added_to_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a rank was stays as it was before it was asked."""
    before, after = process(group(60)), replace(process({}), stacks=STACKS)
    answers = iter([(before,), (after,)])

    async def answer(
        hosts: Any, ids: Any, *, stacks: bool = False, ras: float = 0, gpus: float = 0
    ) -> dict[str, HostAnswer]:
        return {"h1": HostAnswer("h1", {0: next(answers)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert [seen.process for seen in found.ranks] == [replace(before, stacks=STACKS)]


@pytest.mark.parametrize("later", [HostAnswer("h1", why_not="timed out", late=True), HostAnswer("h1", at=NOW)])
async def test_ranks_that_a_rank_of_the_run_has_started_stay_as_they_were_seen(
    monkeypatch: pytest.MonkeyPatch, later: HostAnswer
) -> None:
    """Who does not answer the second time tells no longer that there are several."""
    several = tuple(replace(process(group(60)), pid=1 + n, torch_rank=n, world=2) for n in range(2))
    answers = iter([HostAnswer("h1", {0: several}, at=NOW), later])

    async def answer(*_: object, **__: object) -> dict[str, HostAnswer]:
        return {"h1": next(answers)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert [seen.process for seen in found.ranks] == [*several]
    assert [seen.late for seen in found.ranks] == [later.late] * 2


@pytest.mark.parametrize(
    ("states", "kind"),
    [("tt", "hang"), ("tS", "moving"), ("tR", "moving"), ("S", "moving"), ("t+", "moving")],
)
async def test_a_traced_rank_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch, states: str, kind: str) -> None:
    """strace and py-spy stop a program for moments; a debugger for long. `+`: another process by then."""
    answers = [
        replace(process(group(0.1)), state="t" if state == "+" else state, pid=2 if state == "+" else 1)
        for state in states
    ]
    slept: list[float] = []
    asked = iter([*answers, answers[-1]])

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def answer(*_: object, **__: object) -> dict[str, HostAnswer]:
        return {"h1": HostAnswer("h1", {0: (next(asked),)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    monkeypatch.setattr(looks.asyncio, "sleep", sleep)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert (found.explanation.kind, slept) == (kind, [looks.TRACED_S] * (len(states) - 1))
    assert ("is being traced" in found.explanation.headline) == (kind == "hang")


async def test_a_host_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ranks have no stacks to tell; the others have."""
    calls: list[list[str]] = []
    silent = HostAnswer("h2", why_not="host h2 can't be asked: timed out")

    async def answer(
        hosts: Any, ids: Any, *, stacks: bool = False, ras: float = 0, gpus: float = 0
    ) -> dict[str, HostAnswer]:
        calls.append([one.host for one in hosts])
        there = {"h1": HostAnswer("h1", {0: (replace(process(group(60)), stacks=STACKS),)}, at=NOW), "h2": silent}
        return {name: there[name] for name in calls[-1]}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    hosts: Any = [SimpleNamespace(host="h1"), SimpleNamespace(host="h2")]
    tasks = [TaskRanks(0, "h1", (0,)), TaskRanks(1, "h2", (1,))]
    found = await looks.look(looks.Asked(hosts, tasks, {0: "x", 1: "y"}))
    assert calls == [["h1", "h2"], ["h1"]]
    assert (found.explanation.kind, found.explanation.culprits) == ("hang", (1,))
    assert [seen.why_not for seen in found.ranks] == ["", silent.why_not]
    assert found.ranks[0].main_stack == STACKS[0]


@pytest.mark.parametrize("late", [True, False])
async def test_stacks_that_do_not_come_in_time_may_come_later(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """Where a process tells none in time, and where its host does not answer at all any more."""

    async def answer(*_: Any, stacks: bool = False, **__: Any) -> dict[str, HostAnswer]:
        one = process(group(60))
        again = {
            "h1": HostAnswer("h1", {0: (replace(one, late=late),)}),
            "h2": HostAnswer("h2", why_not="x", late=late),
        }
        return again if stacks else {"h1": HostAnswer("h1", {0: (one,)}), "h2": HostAnswer("h2", {1: (one,)})}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    hosts: Any = [SimpleNamespace(host="h1"), SimpleNamespace(host="h2")]
    tasks = [TaskRanks(0, "h1", (0,)), TaskRanks(1, "h2", (1,))]
    found = await looks.look(looks.Asked(hosts, tasks, {0: "x", 1: "y"}), stacks=True)
    assert [seen.late for seen in found.ranks] == [late, late]
    assert all(seen.process is not None for seen in found.ranks)


@pytest.mark.parametrize(("waited", "asked"), [(60, {0: "x", 1: "y"}), (0.1, {1: "y"})])
async def test_what_stands_is_asked_for_stacks_whoever_was_meant(
    monkeypatch: pytest.MonkeyPatch, waited: float, asked: dict[int, str]
) -> None:
    """`only` spares ranks that go on. What has begun to stand still meanwhile has its place."""
    calls: list[tuple[bool, dict[int, str]]] = []

    async def answer(_: Any, ids: Any, *, stacks: bool = False, **__: Any) -> dict[str, HostAnswer]:
        calls.append((stacks, ids))
        return {"h1": HostAnswer("h1", {0: (process(group(waited)),), 1: (process({}),)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    hosts: Any = [SimpleNamespace(host="h1")]
    tasks = [TaskRanks(0, "h1", (0,)), TaskRanks(1, "h1", (1,))]
    await looks.look(looks.Asked(hosts, tasks, {0: "x", 1: "y"}), stacks=True, only={1})
    assert calls == [(False, {0: "x", 1: "y"}), (True, asked)]


async def test_what_stands_is_reported_with_what_hosts_say_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in connections comes with the stacks; that work waits for CPU is known from the first answer."""
    row = [1, "10.0.0.1:500", "10.0.0.2:600", 64000, 64000, 0, 6, False, None, None]

    async def answer(
        hosts: Any, ids: Any, *, stacks: bool = False, ras: float = 0, gpus: float = 0
    ) -> dict[str, HostAnswer]:
        said = host_answer("h1", {"pressure": {"cpu": 90.0}, "connections": [row] if stacks else []})
        return {"h1": replace(said, tasks={0: (process(group(60)),)}, at=NOW)}

    monkeypatch.setattr(looks, "ask_hosts", answer)
    found = await looks.look(looks.Asked([], [TaskRanks(0, "h1", (0,))], {0: "x"}))
    assert found.explanation.evidence[1:] == (
        "rank 0 on h1: 64 kB for 10.0.0.2:600 wait to be sent, sent again 6 times without an answer",
        "h1: work waited for cpu 90 % of the last 10 s",
    )
    value = json.loads(json.dumps(hosts_json(found.hosts)))["hosts"]["h1"]
    assert (value["pressure"], value["gpus"]) == ({"cpu": 90.0}, [])
    assert [(one["queued"], one["tries"]) for one in value["connections"]] == [(64000, 6)]
    assert found.hosts["h1"].tasks == {}


@pytest.mark.parametrize("outermost", ["<module>", "_run_module_as_main"])
def test_the_main_thread_is_found_behind_threads_of_compiled_code(outermost: str) -> None:
    """autograd's runs hooks that Python wrote, without `threading`'s own calls below them, and is written first."""
    hook = Stack("0x2", False, (Frame("/x/torch/distributed/fsdp/_runtime_utils.py", 900, "_post_backward_hook"),))
    main = Stack("0x1", False, (Frame("/work/train.py", 12, "step"), Frame("<frozen runpy>", 198, outermost)))
    assert main_of((hook, main)) == main
