"""Who holds the others up where torch records no collectives: by the calls of main threads that did not run since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.insight.hang.by_calls import collective_of, explain_by_calls
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack, Thread
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Figures
from distui.runs.lines.explanation import Explanation

NOW = 1_000_000.0
C10D = "/opt/old/torch/distributed/distributed_c10d.py"
MAIN = Frame("/work/train.py", 12, "<module>")
IN_ALL_REDUCE = (Frame(C10D, 2293, "all_reduce"), Frame("/opt/old/torch/distributed/c10d_logger.py", 79, "wrapper"))
IN_LOAD = (Frame("/work/train.py", 8, "load"),)
SLEEPS = (Thread("python", "S", "hrtimer_nanosleep", 0.0),)
SAVES = (Frame("/opt/old/torch/serialization.py", 40, "save"),)


def rank(number: int, *frames: Frame, **process: Any) -> RankSeen:
    """A rank of torch 2.4 with these calls, innermost first; without any it does not tell them."""
    stacks = (Stack("0x1", True, (*frames, MAIN)),) if frames else ()
    base: dict[str, Any] = {"pid": 100 + number, "parent": 1, "name": "python", "state": "S", "cpu": 0.0}
    base |= {"rank": number, "torch": "2.4.1", "stacks": stacks, "unasked": ("collectives: no flight recorder",)}
    return RankSeen(number, f"h{number}", Process(**(base | process)), at=NOW)


def explained(*ranks: RankSeen, turns: dict[int, float | None] | None = None) -> Explanation:
    """What is said of ranks of which each was given a core so often in four seconds."""
    figures = {rank: Figures(4.0, {}, turns=count) for rank, count in (turns or {}).items()}
    return explain_by_calls(explain(ranks), ranks, figures)


def test_a_rank_outside_of_any_collective_is_named() -> None:
    """With where it is, while the other one stands in its collective; never as certain."""
    found = explained(rank(0, *IN_ALL_REDUCE), rank(1, *IN_LOAD, threads=SLEEPS), turns={0: 0, 1: 0})

    assert (found.kind, found.certainty, found.culprits, found.collective) == ("hang", "likely", (1,), "all_reduce")
    assert found.headline == (
        "rank 1 is in no collective, while rank 0 waits in all_reduce: it sleeps at /work/train.py:8 in load"
    )
    assert (found.advice, found.since) == ("look at /work/train.py:8", NOW - 4.0)
    assert [(place.rank, place.place) for place in found.ranks] == [(1, ""), (0, "all_reduce")]
    assert found.ranks[1].does == "waits in all_reduce at /work/train.py:12 in <module>"
    assert found.evidence == (
        "rank 0: in all_reduce, main thread did not run for 4 s",
        "ranks 0-1: collectives: no flight recorder",
    )


@pytest.mark.parametrize("turns", [{0: 3.0, 1: 0.0}, {0: None, 1: 0.0}, {}], ids=["it ran", "unknown", "not watched"])
def test_a_rank_that_may_have_left_its_collective_waits_for_nobody(turns: dict[int, float | None]) -> None:
    """A run that goes on has ranks in collectives and ranks in none at every moment."""
    found = explained(rank(0, *IN_ALL_REDUCE), rank(1, *IN_LOAD), turns=turns)
    assert (found.kind, found.culprits, found.since) == ("unseen", (), None)
    assert found.ranks[1].does.endswith("at /work/train.py:8 in load")


def test_ranks_that_are_all_in_a_collective_or_do_not_tell_blame_nobody() -> None:
    """Who is missing is not known then."""
    both = (rank(0, *IN_ALL_REDUCE), rank(1, *IN_ALL_REDUCE))
    assert explained(*both, turns={0: 0, 1: 0}).culprits == ()
    assert explained(both[0], rank(1), turns={0: 0, 1: 0}).culprits == ()


IN_BROADCAST = (Frame(C10D, 2100, "broadcast"), Frame("/work/train.py", 9, "share"))
IN_SEND = (Frame(C10D, 2100, "send"), Frame("/work/train.py", 9, "share"))


def test_ranks_that_all_wait_in_different_calls() -> None:
    """What fewer of them called is odd; likely, since nobody knows to which groups the calls belong."""
    ranks = rank(0, *IN_ALL_REDUCE), rank(1, *IN_BROADCAST), rank(2, *IN_ALL_REDUCE)
    found = explained(*ranks, turns=dict.fromkeys(range(3), 0.0))

    assert (found.kind, found.certainty, found.culprits, found.since) == ("mismatch", "likely", (1,), NOW - 4.0)
    assert found.headline == (
        "all ranks wait, in different calls: rank 1 in broadcast at /work/train.py:9 in share, "
        "ranks 0,2 in all_reduce at /work/train.py:12 in <module>"
    )
    assert "every rank must call the same collectives" in found.advice
    assert [place.rank for place in found.ranks] == [1, 0, 2]
    two = explained(*ranks[:2], turns=dict.fromkeys(range(2), 0.0))
    assert (two.kind, two.culprits) == ("mismatch", (0, 1))


@pytest.mark.parametrize(
    ("last", "turns"),
    [
        (rank(2, *IN_BROADCAST), 3.0),
        (rank(2, *IN_BROADCAST, cpu=0.6), 0.0),
        (rank(2, *IN_SEND), 0.0),
        (rank(2), 0.0),
        (rank(2, *IN_ALL_REDUCE), 0.0),
        (replace(rank(2), ended="exit 1", process=None), None),
    ],
    ids=["one runs", "one moves bytes", "two are enough for it", "one does not tell", "the same", "one has ended"],
)
def test_what_may_be_no_mismatch_is_none(last: RankSeen, turns: float | None) -> None:
    """Where one may go on, or is waited for."""
    ranks = rank(0, *IN_ALL_REDUCE), rank(1, *IN_ALL_REDUCE), last
    found = explained(*ranks, turns={0: 0.0, 1: 0.0, 2: turns})
    assert found.kind != "mismatch" and found.culprits == ()


def test_what_takes_long_now_and_then_is_no_hang() -> None:
    """A checkpoint."""
    found = explained(rank(0, *IN_ALL_REDUCE), rank(1, *SAVES), turns={0: 0})
    assert (found.kind, found.culprits) == ("stall", (1,)) and "raise `stall_after`" in found.advice


@pytest.mark.parametrize(
    ("functions", "named"),
    [
        (("all_gather_into_tensor", "wrapper"), "all_gather_into_tensor"),
        (("all_gather", "wrapper", "all_gather_object"), "all_gather_object"),
        (("monitored_barrier",), "monitored_barrier"),
        (("recv",), "recv"),
        (("_store_based_barrier", "init_process_group"), ""),
        (("new_group",), ""),
    ],
)
def test_the_collective_is_the_one_that_the_program_called(functions: tuple[str, ...], named: str) -> None:
    """Not what torch calls for it, and not what makes groups."""
    assert collective_of(rank(0, *(Frame(C10D, 1, function) for function in functions))) == named
    assert collective_of(rank(0, *(Frame("/work/distributed_c10d.py", 1, function) for function in functions))) == ""


PLACES = st.sampled_from([IN_ALL_REDUCE, IN_LOAD, SAVES, ()])
TURNS = st.one_of(st.none(), st.integers(0, 2))


@given(st.lists(st.tuples(PLACES, TURNS), min_size=1, max_size=8))
def test_nobody_is_blamed_without_one_that_waits(ranks: list[tuple[tuple[Frame, ...], int | None]]) -> None:
    """Every rank is there once, and a culprit is in no collective."""
    seen = [rank(number, *frames) for number, (frames, _) in enumerate(ranks)]
    found = explained(*seen, turns={number: turns for number, (_, turns) in enumerate(ranks)})
    assert sorted(place.rank for place in found.ranks) == list(range(len(ranks)))
    waits = any(frames == IN_ALL_REDUCE and turns == 0 for frames, turns in ranks)
    outside = {number for number, (frames, _) in enumerate(ranks) if frames in (IN_LOAD, SAVES)}
    assert set(found.culprits) == (outside if waits else set())


def counted(number: int, *frames: Frame, over: bool = True, ago: float = 20.0) -> RankSeen:
    """A rank of torch 2.13, which counts its collectives: it has begun 20."""
    last = Collective(20, "gloo:all_reduce", "1000", "Float", int((NOW - ago) * 1e9), over)
    groups = {"0": Group("0", "default_pg", (last,), 20)}
    return rank(number, *frames, torch="2.13.0", groups=groups, unasked=(), threads=SLEEPS)


IN_MONITORED = (
    Frame("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 5435, "monitored_barrier"),
)
"""As torch 2.13 over gloo answered while one rank slept before it."""


def test_a_barrier_that_torch_does_not_count() -> None:
    """All counted collectives are over, and yet somebody waits: by the calls, where those were asked for."""
    ranks = (counted(0, *IN_MONITORED), counted(1, *IN_LOAD))
    found = explained(*ranks, turns={0: 0, 1: 0})
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (1,))
    assert found.headline == (
        "rank 1 is in no collective, while rank 0 waits in monitored_barrier: it sleeps at /work/train.py:8 in load"
    )
    assert explained(*ranks, turns={0: 3, 1: 0}).kind == "moving"
    assert explained(counted(0), counted(1), turns={0: 0, 1: 0}).kind == "moving"


def test_what_torch_counts_is_not_judged_by_calls() -> None:
    """A rank is in an all_reduce that takes no longer than usual: the run goes on."""
    found = explained(counted(0, *IN_ALL_REDUCE, ago=3.0, over=False), counted(1, *IN_LOAD), turns={0: 0, 1: 0})
    assert (found.kind, found.culprits) == ("moving", ())
    assert [place.place for place in found.ranks] == ["all_reduce #20", "all_reduce #20"]


# the first collective of a group over NCCL


def over_nccl(number: int, *frames: Frame, ago: float = 3600.0, ended: float = 3599.0, **process: Any) -> RankSeen:
    """A rank that used the default group as the run began; what it is in now torch records once all are there."""
    last = Collective(12, "nccl:all_reduce", "1000", "Float", int((NOW - ago) * 1e9), True)
    group = Group("0:nccl", "default_pg", (last,), 12, (0, 1, 2, 3), ended_ns=int((NOW - ended) * 1e9))
    return rank(number, *frames, **({"torch": "2.13.0", "groups": {"0:nccl": group}, "unasked": ()} | process))


SPINS: dict[str, Any] = {"cpu": 1.0, "threads": (Thread("python", "R", "", 1.0),)}


@pytest.mark.parametrize(("does", "turns"), [({}, 0), (SPINS, 9)], ids=["waits for a store", "spins"])
def test_the_first_collective_of_a_group_over_nccl(does: dict[str, Any], turns: int) -> None:
    """Nothing stands still as far as torch records, and three ranks are in a call for long: by the calls, as likely."""
    waiting = [over_nccl(number, *IN_ALL_REDUCE, **does) for number in (0, 1, 3)]
    ranks = (waiting[0], waiting[1], over_nccl(2, *IN_LOAD, threads=SLEEPS), waiting[2])
    assert (explain(ranks).kind, explain(ranks).certainty) == ("moving", "likely")
    found = explained(*ranks, turns={0: turns, 1: turns, 2: 0, 3: turns})
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (2,))
    assert found.headline == (
        "rank 2 is in no collective, while ranks 0-1,3 wait in all_reduce: it sleeps at /work/train.py:8 in load"
    )
    assert found.evidence[0].startswith("ranks 0-1,3: in all_reduce, ") and found.since == NOW - 4.0


def test_who_goes_on_is_not_blamed_for_the_first_collective_of_another_group() -> None:
    """Ranks 0 and 1 train on in their own; of the other group nobody else is there."""
    apart = [over_nccl(number, *IN_LOAD, ago=0.5, ended=0.3, **SPINS) for number in (0, 1)]
    waiting = [over_nccl(number, *IN_ALL_REDUCE, **SPINS) for number in (2, 3)]
    found = explained(*apart, *waiting, turns=dict.fromkeys(range(4), 9))
    assert (found.kind, found.certainty, found.culprits) == ("moving", "likely", ())
    assert found.evidence[0].startswith("ranks 2-3: in all_reduce, which torch has not recorded")


@pytest.mark.parametrize(
    "times", [{"ago": 0.5}, {"ended": 3.0}, {"ago": 8.0, "ended": 7.9}], ids=["begun", "ended", "just before"]
)
def test_a_call_that_may_be_one_that_is_recorded_is_none(times: dict[str, float]) -> None:
    """The rank was in it as its calls were asked for, and has gone on since."""
    ranks = (over_nccl(0, *IN_ALL_REDUCE, **SPINS, **times), over_nccl(1, *IN_LOAD))
    assert explained(*ranks, turns={0: 9, 1: 0}).kind == "moving"


def test_who_lacks_may_be_in_the_first_collective_of_another_group() -> None:
    """Rank 1 has not entered #9 of group 1, since it waits for rank 2 in what torch does not record."""

    def in_pair(seen: RankSeen, newest: int) -> RankSeen:
        rows = (
            Collective(n, "nccl:all_reduce", "10", "Float", int((NOW - 60) * 1e9), n < 9) for n in range(1, newest + 1)
        )
        pair = Group("1:nccl", "undefined", tuple(rows), newest, (0, 1))
        assert seen.process is not None
        return replace(seen, process=replace(seen.process, groups={**seen.groups, "1:nccl": pair}))

    waits, lacks = in_pair(over_nccl(0, *IN_ALL_REDUCE), 9), in_pair(over_nccl(1, *IN_ALL_REDUCE), 8)
    found = explain([waits, lacks, over_nccl(2, *IN_LOAD, threads=SLEEPS)])
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (2,))
    assert found.headline == (
        "rank 1 has not entered all_reduce #9 of 10 Float in group 1, for which rank 0 waits: it is in all_reduce, "
        "which torch has not recorded, and rank 2 is in no collective: it sleeps at /work/train.py:8 in load"
    )
    found = explain([waits, lacks])
    assert (found.certainty, found.culprits) == ("likely", (1,))
    assert found.headline.endswith("it is in all_reduce, which torch has not recorded")


def test_ranks_whose_recorder_can_t_be_read_are_judged_by_their_calls() -> None:
    """Also where another one tells, of which all collectives are over: it is the one that sleeps."""
    ranks = (counted(0, *IN_LOAD), *(rank(number, *IN_ALL_REDUCE, torch="2.13.0") for number in (1, 2, 3)))
    found = explained(*ranks, turns=dict.fromkeys(range(4), 0))
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (0,))
    assert found.headline.startswith("rank 0 is in no collective, while ranks 1-3 wait in all_reduce: it sleeps")
    assert "of ranks 1-3 nothing is known: collectives: no flight recorder" in found.evidence
    goes_on = replace(ranks[0], process=counted(0, *IN_LOAD, ago=0.5).process)
    found = explained(goes_on, *ranks[1:], turns=dict.fromkeys(range(4), 0))
    assert (found.kind, found.certainty, found.culprits) == ("moving", "likely", ())


# what makes a group

IN_INIT = (
    Frame(C10D, 2169, "_new_process_group_helper"),
    Frame(C10D, 1899, "init_process_group"),
    Frame("/opt/old/torch/distributed/c10d_logger.py", 97, "wrapper"),
)
IN_NEW_GROUP = (Frame(C10D, 2169, "_new_process_group_helper"), Frame(C10D, 5863, "new_group"))
"""As torch 2.13 over gloo answered while one rank slept before it."""
POLLING = {"S hrtimer_nanosleep": 143, "R": 25, "S poll_schedule_timeout.constprop.0": 2, "S": 7}
"""How the kernel showed rank 0 of a run that waited in `init_process_group` for others to connect."""


def starting(number: int, *frames: Frame, **process: Any) -> RankSeen:
    """A rank of torch 2.13 that has made no group yet."""
    return rank(number, *frames, torch="2.13.0", groups={}, unasked=(), threads=SLEEPS, **process)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ([starting(0, *IN_INIT), starting(1, *IN_LOAD), starting(2, *IN_INIT)], "init_process_group"),
        ([counted(0, *IN_NEW_GROUP), counted(1, *IN_LOAD), counted(2, *IN_NEW_GROUP)], "new_group"),
    ],
)
def test_who_has_not_come_to_what_makes_a_group(ranks: list[RankSeen], name: str) -> None:
    """torch counts neither; who waits in it is given no core, and who is outside of it is named."""
    found = explained(*ranks, turns=dict.fromkeys(range(3), 0))
    assert (found.kind, found.certainty, found.culprits, found.collective) == ("hang", "likely", (1,), name)
    assert found.headline == (
        f"rank 1 is not in {name}, in which ranks 0,2 wait: it sleeps at /work/train.py:8 in load"
    )
    assert found.ranks[1].does == f"waits in {name} at /work/train.py:12 in <module>"
    assert explained(*ranks, turns={0: 3, 1: 0, 2: None}).culprits == ()


def test_who_is_at_work_before_the_start_may_prepare_for_it() -> None:
    """It downloads or reads; later, in new_group, a rank that spins may well hang."""
    busy = {"cpu": 1.0}
    found = explained(starting(0, *IN_INIT), starting(1, *IN_LOAD, **busy), turns={0: 0})
    assert (found.kind, found.certainty, found.culprits) == ("stall", "likely", (1,))
    found = explained(counted(0, *IN_NEW_GROUP), rank(1, *IN_LOAD, groups={}, **busy), turns={0: 0})
    assert (found.kind, found.culprits) == ("hang", (1,))


def polled(*ranks: RankSeen, states: dict[str, int], turns: float = 1188.0) -> Explanation:
    """The last of them is one that is given a core now and then and tells no calls; the others stand still."""
    figures = {seen.rank: Figures(4.0, {"S hrtimer_nanosleep": 198}, turns=0) for seen in ranks[:-1]}
    return explain_by_calls(explain(ranks), ranks, figures | {ranks[-1].rank: Figures(4.0, states, turns=turns)})


def test_a_rank_to_which_others_are_to_connect_waits_for_them() -> None:
    """Its torch is starting, so it is not asked for its calls: it sleeps again and again, as the kernel shows."""
    found = polled(starting(1, *IN_LOAD), starting(0), states=POLLING)
    assert (found.kind, found.culprits) == ("hang", (1,))
    assert found.headline.startswith("rank 1 is not in init_process_group, in which rank 0 waits: it sleeps")
    found = polled(starting(1, *IN_INIT), starting(2, *IN_LOAD), starting(0), states=POLLING)
    assert found.headline.startswith("rank 2 is not in init_process_group, in which ranks 0-1 wait: it sleeps")
    assert found.evidence[:2] == (
        "rank 0: in init_process_group, main thread only slept again and again",
        "rank 1: in init_process_group, main thread did not run for 4 s",
    )


def test_a_rank_that_has_come_to_the_start_is_not_waited_for_there() -> None:
    """Its default group is made: whatever it does now, the others' start does not lack it."""
    assert polled(starting(1, *IN_LOAD, torch_rank=1), starting(0), states=POLLING).culprits == ()


@pytest.mark.parametrize(
    ("last", "states"),
    [
        (starting(0), {"S hrtimer_nanosleep": 90, "R": 108}),
        (starting(0, cpu=0.3), {"S hrtimer_nanosleep": 120, "R": 78}),
        (starting(0), POLLING | {"S sk_wait_data": 300}),
        (starting(0), {}),
        (starting(0, torch_rank=0), POLLING),
        (rank(0, torch="", threads=SLEEPS), POLLING),
    ],
    ids=["at work", "at work now and then", "something else, too", "nothing known", "it has its group", "no torch"],
)
def test_a_rank_that_may_do_something_else_waits_for_nobody(last: RankSeen, states: dict[str, int]) -> None:
    """Then nobody is said to keep it waiting."""
    assert polled(starting(1, *IN_LOAD), last, states=states).culprits == ()


def test_ranks_that_do_nothing_outside_of_collectives_are_shown_where_they_are() -> None:
    """Such as in `store.wait`, which no call of torch's file of collectives shows: nobody is blamed."""
    at_wait = Frame("/work/train.py", 9, "wait")
    ranks = [counted(0, at_wait), counted(1, *IN_LOAD), counted(2, at_wait)]
    found = explained(*ranks, turns=dict.fromkeys(range(3), 0))
    assert (found.kind, found.culprits) == ("moving", ())
    assert found.headline == "no collective stands still, but no rank's main thread ran for 4 s"
    assert found.evidence == (
        "rank 1: sleeps at /work/train.py:8 in load; ranks 0,2: sleeps at /work/train.py:9 in wait",
    )
    assert explained(*ranks, turns={0: 0, 1: 5, 2: 0}).headline == "no collective stands still"
    jax = [rank(n, frame, torch="", uses="JAX", threads=SLEEPS) for n, frame in enumerate((at_wait, *IN_LOAD))]
    shown = explained(*jax, turns=dict.fromkeys(range(2), 0))
    assert shown.headline == "no rank tells where it is in its collectives, and no rank's main thread ran for 4 s"
    assert shown.evidence[-1].startswith("rank 0: sleeps at /work/train.py:9 in wait; rank 1: sleeps at")
    unseen = RankSeen(3, "h3", why_not="host h3 can't be asked")
    assert explained(*ranks, unseen, turns=dict.fromkeys(range(3), 0)).headline == "no collective stands still"
    assert explained(*ranks[:2], counted(2), turns=dict.fromkeys(range(3), 0)).headline == "no collective stands still"
