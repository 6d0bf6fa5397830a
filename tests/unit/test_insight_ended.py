"""Who did another collective than the others, from what ranks left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from distui.runs.ending import ask_ended
from distui.runs.insight.hang.ended import crashed_at, explain_difference, explain_time_out
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.events import Failure
from distui.runs.store.why_records import kept
from distui.runs.verdict.lines.rules.cause import TIMED_OUT
from fakehosts.runs import Cluster

LOADS, STEPS = Frame("/work/train.py", 7, "load"), Frame("/work/train.py", 11, "<module>")
TORCH = Frame("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce")


def rank(
    number: int, frame: Frame | None = STEPS, sizes: str | None = "1000", what: str = "gloo:all_reduce"
) -> RankSeen:
    """One that was in its 21st collective when it ended; `sizes` None: its recorder was lost with it."""
    one = Collective(21, what, sizes or "", "Float", 10**18, True)
    groups = {"0": Group("0", "default_pg", (one,), 21)} if sizes is not None else None
    module = Frame("/work/train.py", 30, "<module>")
    stacks = (Stack("main", True, (TORCH, frame, module)),) if frame is not None else ()
    process = Process(7, 0, "", "X", 0.0, rank=number, torch="2.13.0", groups=groups, stacks=stacks)
    return RankSeen(number, "h1", process, ended="exit 1")


GONE = RankSeen(0, "h1", ended="exit 143")
"""One that was stopped: it left nothing."""


def test_another_size_by_what_torch_recorded() -> None:
    """Certain, with the place of each."""
    found = explain_difference([GONE, rank(1), rank(2, LOADS, "100000"), rank(3)])
    assert found is not None
    assert (found.kind, found.culprits, found.certainty) == ("mismatch", (2,), "certain")
    assert found.headline == (
        "ranks called different collectives as #21 of the default group: "
        "rank 2 called all_reduce of 100000 Float at /work/train.py:7 in load, "
        "ranks 1,3 called all_reduce of 1000 Float at /work/train.py:11 in <module>"
    )


def test_another_operation() -> None:
    """The one that fewest called is the odd one."""
    found = explain_difference([rank(0), rank(1, LOADS, what="gloo:broadcast"), rank(2)])
    assert found is not None and found.culprits == (1,)
    assert "rank 1 called broadcast of 1000 Float at /work/train.py:7 in load" in found.headline


def test_one_that_crashed_by_its_place_alone() -> None:
    """Its recorder is gone with it: likely, no more."""
    found = explain_difference([GONE, rank(1), rank(2, LOADS, None), rank(3)])
    assert found is not None
    assert (found.culprits, found.certainty) == ((2,), "likely")
    assert found.headline == (
        "the collectives of the ranks do not fit each other: rank 2 was in all_reduce at /work/train.py:7 in load, "
        "ranks 1,3 called all_reduce #21 of 1000 Float in the default group at /work/train.py:11 in <module>"
    )


SAID = (
    "step 19",
    "  what():  [enforce fail at third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. "
    "2000 vs 1000. Received data size doesn't match expected size.",
)
"""Last words of a rank that gloo 2.13 ended, as they were recorded."""


def test_another_type_in_a_group_of_two() -> None:
    """The one that gloo ended has lost its record; the others' are told with their own groups, not with one for all."""
    pair = Collective(6, "gloo:all_reduce", "1000", "Double", 10**18 + 1, True)
    mine = rank(0, LOADS)
    assert mine.process is not None and mine.process.groups is not None
    groups = {**mine.process.groups, "1": Group("1", "undefined", (pair,), 6)}
    odd = replace(mine, process=replace(mine.process, groups=groups))
    found = explain_difference([odd, rank(1, Frame("/work/train.py", 9, "usual"), None), rank(2), rank(3)], SAID)
    assert found is not None and (found.certainty, found.culprits) == ("likely", (0, 1))
    assert found.headline == (
        "the collectives of the ranks do not fit each other: "
        "rank 0 called all_reduce #6 of 1000 Double in group 1 at /work/train.py:7 in load, "
        "rank 1 was in all_reduce at /work/train.py:9 in usual (2000 bytes came where it expected 1000), "
        "ranks 2-3 called all_reduce #21 of 1000 Float in the default group at /work/train.py:11 in <module>"
    )


@pytest.mark.parametrize("frame", [STEPS, LOADS], ids=["on the same line", "on another one"])
def test_one_against_one(frame: Frame) -> None:
    """What is known of both; none of them is called the odd one."""
    found = explain_difference([rank(0, frame, None), rank(1)], SAID)
    assert found is not None and (found.certainty, found.culprits) == ("likely", (0, 1))
    assert found.headline == (
        "the collectives of the ranks do not fit each other: "
        f"rank 0 was in all_reduce at {frame} (2000 bytes came where it expected 1000), "
        "rank 1 called all_reduce #21 of 1000 Float in the default group at /work/train.py:11 in <module>"
    )


def test_bytes_are_of_one_that_left_no_record() -> None:
    """Where several did, nobody knows which; a rank that was in no collective is not said to have called one."""
    found = explain_difference([rank(0, LOADS, None), rank(1, LOADS, None), rank(2)], SAID)
    assert found is not None and "bytes" not in found.headline
    idle = rank(1)
    assert idle.process is not None
    idle = replace(idle, process=replace(idle.process, stacks=(Stack("main", True, (LOADS,)),)))
    found = explain_difference([rank(0), idle, rank(2)])
    assert found is not None and "rank 1 was at /work/train.py:7 in load, ranks 0,2 called" in found.headline


@pytest.mark.parametrize(
    "ranks",
    [[], [GONE], [rank(1), rank(2)], [GONE, rank(1)], [rank(1, None), rank(2, None)]],
    ids=["nobody", "nobody told", "no difference", "one told", "no places"],
)
def test_nothing_is_claimed_otherwise(ranks: Sequence[RankSeen]) -> None:
    """Where it does not show who was the odd one."""
    assert explain_difference(ranks) is None


def test_where_ranks_crashed() -> None:
    """In the program's own files."""
    assert crashed_at([GONE, rank(2, LOADS)]) == {2: LOADS}


def traced(number: int, newest: int, sizes: str = "1000") -> RankSeen:
    """One that NCCL's watchdog ended, with what torch wrote of it: in its newest collective it waited."""
    recent = [
        Collective(n, "nccl:all_reduce", sizes, "Float", 10**18 + n * 10**9, newest < 31 or n < newest)
        for n in range(20, newest + 1)
    ]
    groups = {"0:nccl": Group("0:nccl", "default_pg", tuple(recent), newest, (0, 1, 2, 3))}
    process = Process(7, 0, "", "X", 0.0, rank=number, torch="2.13.0", groups=groups)
    return RankSeen(number, "h1", process, ended="exit 134", at=10**9 + 700)


@pytest.mark.parametrize(
    ("last", "certainty"), [(traced(3, 31), "certain"), (replace(GONE, rank=3), "likely")], ids=["all", "one is lost"]
)
def test_who_had_not_entered_what_timed_out(last: RankSeen, certainty: str) -> None:
    """By what torch wrote as its watchdog ended all of them; who left nothing is not blamed."""
    found = explain_time_out([traced(0, 31), traced(1, 31), traced(2, 30), last])
    assert found is not None
    assert (found.kind, found.culprits, found.certainty) == ("hang", (2,), certainty)
    waited = "ranks 0-1,3" if certainty == "certain" else "ranks 0-1"
    assert found.headline == (
        f"rank 2 had not entered all_reduce #31 of 1000 Float in the default group, in which {waited} waited in vain"
    )


def test_what_timed_out_since_ranks_called_something_else() -> None:
    """Then nobody has entered nothing."""
    found = explain_time_out([traced(0, 31), traced(1, 31), traced(2, 31, "7"), traced(3, 31)])
    assert found is not None and (found.kind, found.culprits) == ("mismatch", (2,))


@pytest.mark.parametrize("ranks", [(), (GONE,), (traced(0, 31), traced(1, 31)), (traced(0, 30), traced(1, 29))])
def test_a_time_out_of_which_nothing_tells(ranks: Sequence[RankSeen]) -> None:
    """Nobody is blamed where all have entered, or none waits."""
    assert explain_time_out(ranks) is None


async def test_a_time_out_is_reported_with_who_had_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every rank had ended before it could be asked; it is kept, too."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan())
    ranks = (traced(0, 31), traced(1, 30))

    async def left(*_: object) -> tuple[RankSeen, ...]:
        return ranks

    async def emit(event: object) -> None:
        said.append(event)

    said: list[object] = []
    monkeypatch.setattr(ask_ended, "_left", left)
    monkeypatch.setattr(run.attempt, "emit", emit)
    failure = Failure(0, "h1", 134, "exit 134", cause=TIMED_OUT.text, hint=TIMED_OUT.hint)
    reported = await ask_ended.with_places(run.attempt, failure)
    ranks = ()
    assert await ask_ended.with_places(run.attempt, failure) == failure
    await run.attempt.close()
    assert reported is not None and reported.hint == TIMED_OUT.hint
    assert reported.cause == (
        "a collective timed out: another rank is late, stuck or gone; rank 1 had not entered all_reduce #31 of 1000 "
        "Float in the default group, in which rank 0 waited in vain"
    )
    assert [one.found.culprits for one in kept(run.stored)] == [(1,)] and len(said) == 1
