"""Who did another collective than the others, from what ranks left behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distui.runs.insight.hang.ended import crashed_at, explain_difference
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen

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
        "ranks were in different collectives: rank 2 at /work/train.py:7 in load, "
        "ranks 1,3 at /work/train.py:11 in <module>, in all_reduce #21 of 1000 Float in the default group"
    )


@pytest.mark.parametrize(
    "ranks",
    [[], [GONE], [rank(1), rank(2)], [rank(1), rank(2, LOADS, None)], [rank(1, None), rank(2, None)]],
    ids=["nobody", "nobody told", "no difference", "one against one", "no places"],
)
def test_nothing_is_claimed_otherwise(ranks: Sequence[RankSeen]) -> None:
    """Where it does not show who was the odd one."""
    assert explain_difference(ranks) is None


def test_where_ranks_crashed() -> None:
    """In the program's own files."""
    assert crashed_at([GONE, rank(2, LOADS)]) == {2: LOADS}
