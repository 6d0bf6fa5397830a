"""A closer look at a run that goes on: who is watched again, what must hold twice, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from distui.cli.actions.why_figures import figures_json
from distui.runs.insight.asking import closer
from distui.runs.insight.asking.look import Asked, Look
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.ras.communicators import Counted
from distui.runs.insight.hang.ras.report import Communicator
from distui.runs.insight.seen.answers import Collective, Frame, Group, HostAnswer, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks
from distui.runs.insight.seen.watched import Figures, Watched
from distui.runs.lines.explanation import Explanation, Kind, RankPlace
from distui.runs.report.why_words import FIGURES, cells

TASKS = [TaskRanks(number, f"h{number // 2 + 1}", (number,)) for number in range(4)]
Sampled = list[Mapping[str, Sequence[int]] | None]


def process(number: int, late: float) -> Process:
    """One rank's, with thirty steps of 0.3 s behind it."""
    begun = [1_795_000_000.0 + 0.3 * step + late for step in range(30)]
    recent = [Collective(50 + n, "gloo:all_reduce", "1000", "Float", int(at * 1e9), True) for n, at in enumerate(begun)]
    group = Group("0", "default_pg", tuple(recent), 79)
    return Process(
        100 + number, 1, "python", "S", 0.25, 4000, None, rank=number, torch="2.13.0", groups={"0": group}
    )  # fmt: skip


def hosts(late: Mapping[int, float]) -> dict[str, Watched]:
    """What two hosts tell of two ranks each; the last rank's kernel tells nothing."""
    found = {}
    for host, numbers in (("h1", (0, 1)), ("h2", (2, 3))):
        tasks = {number: (process(number, late.get(number, 0.0)),) for number in numbers}
        figures = {100 + n: Figures(4.0, {"S": 9}, 0.2) for n in numbers if n != 3}
        answer = HostAnswer(host, tasks, {"cpu": 45.0}, at=1_795_000_010.0, doubt=0.001)
        found[host] = Watched(answer, 4.0, figures)
    return found


async def looked(monkeypatch: pytest.MonkeyPatch, *answers: Mapping[int, float]) -> tuple[Any, Sampled]:
    """The look at a run whose ranks are late by so much each time they are watched, and whose stacks were taken."""
    asked: Sampled = []
    left = [hosts(late) for late in answers]

    async def watch(
        _hosts: Any, _ids: Any, sampled: Mapping[str, Sequence[int]] | None = None, **_: Any
    ) -> dict[str, Watched]:
        asked.append(sampled)
        return left.pop(0)

    monkeypatch.setattr(closer, "watch_hosts", watch)
    return await closer.look_closer(Asked([], TASKS)), asked


async def test_a_healthy_run_is_watched_once_and_sent_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said but that it goes on."""
    found, asked = await looked(monkeypatch, {})
    assert found.explanation.kind == "moving" and asked == [None]


async def test_a_late_rank_is_looked_at_again_with_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of it and of two that are not late, on the hosts where they are."""
    found, asked = await looked(monkeypatch, {2: 0.2}, {2: 0.2})
    assert (found.explanation.kind, found.explanation.culprits) == ("straggler", (2,))
    assert asked[0] is None and asked[1] == {"h1": [100, 101], "h2": [102]}


async def test_what_holds_only_once_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank is late the second time."""
    found, asked = await looked(monkeypatch, {2: 0.2}, {1: 0.2})
    assert (found.explanation.kind, found.explanation.culprits) == ("moving", ()) and len(asked) == 2


@pytest.mark.parametrize("stand", [False, True])
async def test_what_stands_still_only_while_it_is_watched_is_asked_for_its_stacks(
    monkeypatch: pytest.MonkeyPatch, stand: bool
) -> None:
    """A hang that begins between the looks: told as one that was there from the beginning."""
    looks, watches = ["moving", *["moving"] * stand, "hang"], [*["moving"] * stand, "hang"]
    asked: list[bool] = []

    def reported(kind: str) -> Look:
        return Look((), Explanation(cast(Kind, kind), kind, "certain", ()))

    async def one_look(*_: Any, stacks: bool, **_more: Any) -> Look:
        asked.append(stacks)
        return reported(looks.pop(0))

    async def watch(*_: Any) -> Look:
        return reported(watches.pop(0))

    monkeypatch.setattr(closer, "look", one_look)
    monkeypatch.setattr(closer, "look_closer", watch)
    monkeypatch.setattr(closer, "_to_ask", lambda *_: frozenset({0} if stand else ()))
    found = await closer.look_and_watch(Asked([], []), stacks=False)
    assert (found.explanation.kind, looks, watches, asked) == ("hang", [], [], [False, *[True] * stand, False])


@pytest.mark.parametrize(
    ("turns", "groups", "asked"),
    [
        pytest.param((0, 7), (True, True), [False, {0, 1}], id="one-stands-still"),
        pytest.param((0, 0), (False, False), [False, {0, 1}], id="all-wait-in-their-start"),
        pytest.param((3, 7), (True, True), [False], id="all-run"),
        pytest.param((0, 7), (True, False), [False, {0}], id="one-is-starting"),
        pytest.param((None, None), (True, True), [False], id="nobody-knows"),
    ],
)
async def test_ranks_that_run_are_sent_no_signal_unless_one_stands_still(
    monkeypatch: pytest.MonkeyPatch, turns: tuple[int | None, ...], groups: tuple[bool, ...], asked: list[object]
) -> None:
    """Nor one in which torch starts, which a signal has ended; whoever wants stacks gets them at once, of all."""
    found: list[object] = []

    def process(number: int) -> Process:
        torch_rank = number if groups[number] else None
        return Process(100 + number, 1, "python", "S", 0.0, rank=number, torch="2.4.1", torch_rank=torch_rank)

    async def one_look(*_: Any, stacks: bool, only: frozenset[int] | None = None, **_more: Any) -> Look:
        found.append(stacks if only is None else set(only))
        ranks = tuple(RankSeen(number, "h1", process(number)) for number in range(2))
        return Look(ranks, explain(ranks))

    async def watch(*_: Any, **__: Any) -> dict[str, Watched]:
        figures = {100 + number: Figures(4.0, {}, turns=each) for number, each in enumerate(turns)}
        return {"h1": Watched(HostAnswer("h1", {number: (process(number),) for number in range(2)}), 4.0, figures)}

    monkeypatch.setattr(closer, "look", one_look)
    monkeypatch.setattr(closer, "watch_hosts", watch)
    tasks = [TaskRanks(number, "h1", (number,)) for number in range(2)]
    await closer.look_and_watch(Asked([], tasks), stacks=False)
    assert found == asked

    found.clear()
    await closer.look_and_watch(Asked([], tasks), stacks=True)
    assert found == [True]


async def test_ranks_that_do_not_tell_are_judged_by_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those from before they were watched, of the same processes."""
    frames = {0: Frame("/opt/torch/distributed/distributed_c10d.py", 9, "barrier"), 1: Frame("/work/a.py", 8, "load")}

    def process(number: int, **more: Any) -> Process:
        return Process(100 + number, 1, "python", "S", 0.0, rank=number, torch="2.4.1", torch_rank=number, **more)

    async def one_look(*_: Any, stacks: bool, **_more: Any) -> Look:
        reported = {n: (Stack("0x1", True, (frame,)),) if stacks else () for n, frame in frames.items()}
        ranks = tuple(RankSeen(n, "h1", process(n, stacks=one)) for n, one in reported.items())
        return Look(ranks, explain(ranks))

    async def watch(*_: Any, **__: Any) -> dict[str, Watched]:
        answer = HostAnswer("h1", {n: (process(n),) for n in frames})
        return {"h1": Watched(answer, 4.0, {100: Figures(4.0, {}, turns=0), 101: Figures(4.0, {}, turns=7)})}

    monkeypatch.setattr(closer, "look", one_look)
    monkeypatch.setattr(closer, "watch_hosts", watch)
    tasks = [TaskRanks(number, "h1", (number,)) for number in frames]
    found = (await closer.look_and_watch(Asked([], tasks), stacks=False)).explanation
    assert (found.kind, found.culprits, found.collective) == ("hang", (1,), "barrier")
    assert "at /work/a.py:8 in load" in found.headline


async def test_what_only_seems_to_stand_is_looked_at_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL's counts tell no moments: whether they grow is known after five seconds."""
    uneven = Communicator("5f", "", 2, {"AllReduce": {0: 31, 1: 30}}, {}, {}, {})
    first = Counted(uneven, "2.29.2", {0: 0, 1: 1}, since=99.0, at=100.0, goes_on=False)
    slept: list[float] = []
    befores: list[Any] = []

    async def one_look(*_: Any, before: Any = (), **_more: Any) -> Look:
        befores.append(before)
        kind: Kind = "hang" if before else "unseen"
        return Look((), Explanation(kind, kind, "certain", ()), ras=(first,))

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(closer, "look", one_look)
    monkeypatch.setattr(closer.asyncio, "sleep", sleep)
    found = await closer.look_and_watch(Asked([], []), stacks=False)
    assert (found.explanation.kind, slept, befores) == ("hang", [4.0], [(), (first,)])


async def test_what_is_shown_of_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cells: how late, and what the kernel counted; what nobody knows is a question mark, never nothing."""
    found, _ = await looked(monkeypatch, {2: 0.2}, {2: 0.2})
    rows = [cells(place, FIGURES, found.slow) for place in found.explanation.ranks]
    shown = {row[0]: dict(zip(FIGURES, row, strict=True)) for row in rows}
    late, last = shown[">2"], shown[" 3"]
    assert (late["LATE"], late["CPU"], late["NO CORE"], late["READ"]) == ("200 ms", "0.2", "5%", "1.0 kB/s")
    assert (late["WRITTEN"], late["AT"]) == ("?", "all_reduce #79")
    assert (last["LATE"], last["NO CORE"], last["READ"]) == ("-", "?", "?")
    assert cells(RankPlace(9, "h9", "can't be seen"), FIGURES, found.slow)[2:7] == ("?",) * 5


async def test_the_figures_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that was seen, as programs read it."""
    found, _ = await looked(monkeypatch, {2: 0.2}, {2: 0.2})
    value = json.loads(json.dumps(figures_json(found.slow), allow_nan=False))
    (late,) = value["lateness"]["late"]
    assert (late["rank"], round(late["seconds"], 3), late["steps"]) == (2, 0.2, 28)
    assert value["hosts"]["h1"]["pressure"] == {"cpu": 45.0} and value["kernel"]["2"]["delayed"] == 0.2
    assert set(value["kernel"]) == {"0", "1", "2"} and value["links"] == []
