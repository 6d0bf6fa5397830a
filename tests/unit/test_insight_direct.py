"""Who waits in sends and receives that do not end: over NCCL by what torch records, over gloo by calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distui.runs.insight.hang.by_calls import explain_by_calls
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack, Thread
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Figures
from distui.runs.lines.explanation import Explanation

NOW = 1_000_000.0
MAIN = Frame("/work/train.py", 7, "<module>")
SLEEPS = {"threads": (Thread("python", "S", "hrtimer_nanosleep", 0.0),), "stacks": (Stack("0x1", True, (MAIN,)),)}
COMPUTES = {"cpu": 1.0, "threads": (Thread("python", "R", "", 1.0),), "stacks": (Stack("0x1", True, (MAIN,)),)}


def one(number: int, name: str, ago: float, *, over: bool = True, sizes: str = "8x8") -> Collective:
    """As `agent/ranks/recorded.py` tells it of torch 2.13's `nccl:recv 0<-1` (ProcessGroupNCCL.cpp)."""
    return Collective(number, f"nccl:{name}", sizes, "Float" if sizes else "", int((NOW - ago) * 1e9), over)


def stage(
    number: int, *pending: str, ago: float = 20.0, done: int = 12, every: float = 0.1, name: str = "0", **process: Any
) -> RankSeen:
    """A rank of a pipeline that has done some steps, and begun these since."""
    direct = [one(n, f"send {number}->{number + 1}", ago + every * (done - n)) for n in range(done)]
    direct += [one(done + n, what, ago, over=False) for n, what in enumerate(pending)]
    meets = (one(1, "all_reduce", ago + every * done, sizes="1000"),)
    group = Group(f"{name}:nccl", "default_pg" if name == "0" else "undefined", meets, 1, (0, 1, 2), tuple(direct))
    base: dict[str, Any] = {"pid": 100 + number, "parent": 1, "name": "python", "state": "S", "cpu": 0.0}
    base |= {"rank": number, "torch": "2.13.0", "groups": {group.name: group}, "torch_rank": number}
    return RankSeen(number, f"h{number}", Process(**(base | process)), at=NOW)


def verdict(found: Explanation) -> tuple[str, str, tuple[int, ...]]:
    """What is claimed, how surely, of whom."""
    return found.kind, found.certainty, found.culprits


# over NCCL


def test_who_takes_one_by_one_what_another_began_ahead_of_its_gpu_is_no_hang() -> None:
    """Rank 0 began its sends long ago; rank 1 is between two of its receives, and took the last a moment ago."""
    ahead = stage(0, "send 0->1", ago=7.0)
    own = [one(n, "recv 1<-0", 0.1 + 0.3 * (12 - n)) for n in range(13)]
    group = replace(ahead.groups["0:nccl"], direct=tuple(own))
    process = replace(stage(1, **SLEEPS).process, groups={group.name: group})  # type: ignore[type-var]
    between = replace(stage(1), process=process)
    assert explain([ahead, between, stage(2)]).kind == "moving"


def test_a_receive_that_does_not_end_names_its_other_end() -> None:
    """As likely: nothing that both ranks count alike says that it has not sent."""
    found = explain([stage(0, "recv 0<-1"), stage(1, **SLEEPS), stage(2, "recv 2<-1", ago=15.0)])
    assert verdict(found) == ("hang", "likely", (1,))
    assert found.headline == (
        "rank 0 waits in recv 0<-1 of 8x8 Float in the default group for rank 1: "
        "it sleeps at /work/train.py:7 in <module>"
    )
    assert found.since == pytest.approx(NOW - 20) and found.advice == "look at /work/train.py:7"
    assert found.evidence == (
        "recv 0<-1 of 8x8 Float in the default group: rank 0 has begun it",
        "recv 2<-1 of 8x8 Float in the default group: rank 2 has begun it",
    )
    assert [place.rank for place in found.ranks] == [1, 0, 2]
    assert found.ranks[1].does == "waits in recv 0<-1 of 8x8 Float in the default group"


def test_a_chain_names_its_end() -> None:
    """Rank 1 waits itself."""
    found = explain([stage(0, "recv 0<-1"), stage(1, "recv 1<-2"), stage(2, **SLEEPS)])
    assert verdict(found) == ("hang", "likely", (2,)) and found.headline.startswith("rank 1 waits in recv 1<-2")


def test_who_is_at_work_may_come_to_it() -> None:
    """A long step of one stage; others wait for it in every step."""
    found = explain([stage(0, "recv 0<-1"), stage(1, **COMPUTES), stage(2)])
    assert verdict(found) == ("stall", "likely", (1,)) and found.advice == "look at /work/train.py:7"


def test_of_a_batch_who_has_gone_on_is_not_waited_for() -> None:
    """Rank 2 has begun more since."""
    ahead = stage(2)
    own = ahead.groups["0:nccl"]
    gone = replace(own, direct=(*own.direct, one(40, "send 2->3", 1.0)))
    ahead = replace(ahead, process=replace(ahead.process, groups={"0:nccl": gone}))
    found = explain([stage(0, "send 0->1, recv 0<-2"), stage(1, **SLEEPS), ahead])
    assert verdict(found)[::2] == ("hang", (1,))


def test_both_ends_are_there() -> None:
    """Nobody is blamed: both receive, or nothing gets through."""
    found = explain([stage(0, "recv 0<-1"), stage(1, "recv 1<-0"), stage(2)])
    assert verdict(found) == ("hang", "likely", ())
    assert found.headline.startswith("ranks 0-1 wait for each other in sends and receives: rank 0 in recv 0<-1 of 8x8")
    assert "every send needs its receive" in found.advice and "distui doctor" in found.advice


def test_whoever_lacks_in_a_collective_and_waits_for_another_is_not_the_one() -> None:
    """Rank 0 has not entered all_reduce #2, since rank 1 does not send."""

    def enters(seen: RankSeen) -> RankSeen:
        own = seen.groups["0:nccl"]
        begun = replace(own, recent=(*own.recent, one(2, "all_reduce", 19.0, over=False, sizes="1000")), enqueued=2)
        return replace(seen, process=replace(seen.process, groups={"0:nccl": begun}))

    found = explain([stage(0, "recv 0<-1"), stage(1, **SLEEPS), enters(stage(2))])
    assert verdict(found) == ("hang", "certain", (1,))
    found = explain([stage(0, "recv 0<-1"), enters(stage(1)), enters(stage(2))])
    assert verdict(found) == ("hang", "likely", (1,))
    assert found.headline.endswith("for rank 1: it waits in all_reduce #2 in the default group")
    assert "every send needs its receive" in found.advice and len(found.evidence) == 2


@pytest.mark.parametrize(
    "ranks",
    [
        [stage(0, "recv 0<-1", ago=2.0), stage(1, **SLEEPS)],
        [stage(0, "recv 0<-1", every=10.0), stage(1, **SLEEPS)],
        [stage(0, "recv 0<-1"), stage(1, "send 1->0", ago=1.0)],
        [stage(0, "recv 0<-1", torch_rank=1), stage(1, torch_rank=0, **SLEEPS)],
        [stage(0, "recv 0<-7"), stage(1, **SLEEPS)],
    ],
    ids=["just begun", "slow steps", "its other end came a moment ago", "ranks counted otherwise", "no such rank"],
)
def test_nothing_is_claimed_otherwise(ranks: list[RankSeen]) -> None:
    """Though where one has waited for long, that nothing stands still is not certain."""
    found = explain(ranks)
    assert (found.kind, found.culprits) == ("moving", ())
    long = any(not row.over and row.began_ns < (NOW - 5) * 1e9 for row in ranks[0].groups["0:nccl"].direct)
    assert found.certainty == ("likely" if long else "certain")


def test_a_receive_that_is_begun_early_is_none_that_is_waited_for() -> None:
    """Its rank goes on."""
    early = stage(0, "recv 0<-1")
    own = early.groups["0:nccl"]
    on = replace(own, direct=(*own.direct, *(one(20 + n, "send 0->1", 19.0 - n) for n in range(19))))
    found = explain([replace(early, process=replace(early.process, groups={"0:nccl": on})), stage(1, **SLEEPS)])
    assert verdict(found) == ("moving", "likely", ())


# over gloo

C10D = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
IN_RECV = {"stacks": (Stack("0x1", True, (Frame(C10D, 2721, "recv"), MAIN)),)}
"""As torch 2.13 over gloo: its `recv` waits in its own file."""


def over_gloo(number: int, **process: Any) -> RankSeen:
    """A rank whose collectives are all over: torch does not record gloo's sends and receives."""
    last = Collective(20, "gloo:all_reduce", "1000", "Float", int((NOW - 20.0) * 1e9), True)
    seen = stage(number, **process)
    return replace(seen, process=replace(seen.process, groups={"0": Group("0", "default_pg", (last,), 20)}))


def by_calls(*ranks: RankSeen, turns: dict[int, int]) -> Explanation:
    """What is said of ranks of which each was given a core so often in four seconds."""
    figures = {rank: Figures(4.0, {"S hrtimer_nanosleep": 198}, turns=count) for rank, count in turns.items()}
    return explain_by_calls(explain(ranks), ranks, figures)


def test_a_receive_over_gloo_while_nobody_else_does_anything() -> None:
    """It is likely that they are waited for."""
    found = by_calls(over_gloo(0, **IN_RECV), over_gloo(1, **SLEEPS), turns={0: 0, 1: 0})
    assert verdict(found) == ("hang", "likely", (1,))
    assert found.headline.startswith("rank 1 is in no collective, while rank 0 waits in recv: it sleeps")


@pytest.mark.parametrize("turns", [{0: 0, 1: 0, 2: 9}, {0: 0, 1: 0}], ids=["it runs", "not known"])
def test_a_receive_over_gloo_while_another_rank_may_come_to_it(turns: dict[int, int]) -> None:
    """That a stage computes for four seconds is no hang; nor is it certain that there is none."""
    found = by_calls(over_gloo(0, **IN_RECV), over_gloo(1, **SLEEPS), over_gloo(2, **COMPUTES), turns=turns)
    assert verdict(found) == ("moving", "likely", ())
