"""Why a run does not go on, from what all ranks answered: every kind of standstill, no false word of a healthy run."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.insight.hang.collectives import may_stand_from, standing
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.places import unplaced
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack, Thread
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation

NOW = 1_000_000.0
"""When all are looked at, on our clock."""

MAIN = Frame("/work/train.py", 7, "<module>")

OVER_S = 500.0
"""How long ago a rank began its newest collective that is over: before any that others wait in."""


def group(
    newest: int, pending: float | None = None, *, every: float = 0.1, name: str = "0", ahead: float = 0.0, **more: Any
) -> Group:
    """A rank's place in a group: `newest` is its newest collective, over, or begun `pending` seconds ago."""
    last = NOW + ahead - (pending if pending is not None else more.get("over", OVER_S))
    what, sizes = more.get("what", "gloo:all_reduce"), more.get("sizes", "1000")
    row = [
        Collective(n, what, sizes, "Float", int((last - every * (newest - n)) * 1e9), n < newest or pending is None)
        for n in range(max(1, newest - 20), newest + 1)
    ]
    return Group(name, "default_pg" if name == "0" else "undefined", tuple(row), newest, more.get("ranks", ()))


def rank(number: int, *groups: Group, at: float = NOW, ahead: float = 0.0, **process: Any) -> RankSeen:
    """A rank whose process tells these places."""
    base: dict[str, Any] = {"pid": 100 + number, "parent": 1, "name": "python", "state": "S", "cpu": 0.0}
    base |= {"rank": number, "torch": "2.13.0", "groups": {one.name: one for one in groups}}
    return RankSeen(number, f"h{number // 2}", Process(**(base | process)), at=at, ahead=ahead)


def calls(*frames: Frame) -> tuple[Stack, ...]:
    """The main thread's stack, innermost first."""
    return (Stack("0x1", True, (*frames, MAIN)),)


def waiting(count: int, *, without: tuple[int, ...] = (), pending: float = 20.0) -> list[RankSeen]:
    """Ranks that wait in #31 of the default group."""
    return [rank(n, group(31, pending)) for n in range(count) if n not in without]


def verdict(found: Explanation) -> tuple[str, str, tuple[int, ...]]:
    """What is claimed, how surely, of whom."""
    return found.kind, found.certainty, found.culprits


# somebody holds the others up


def test_one_rank_has_not_entered() -> None:
    """Named with the collective, those that wait, and what it does."""
    sleeps = {"threads": (Thread("python", "S", "hrtimer_nanosleep", 0.0),), "stacks": calls()}
    found = explain([*waiting(4, without=(2,)), rank(2, group(30), **sleeps)])
    assert verdict(found) == ("hang", "certain", (2,))
    assert found.headline == (
        "rank 2 has not entered all_reduce #31 of 1000 Float in the default group, for which ranks 0-1,3 wait: "
        "it sleeps at /work/train.py:7 in <module>"
    )
    assert found.evidence == ("all_reduce #31 of 1000 Float in the default group: ranks 0-1,3 entered, rank 2 did not",)
    assert found.advice == "look at /work/train.py:7" and found.since == pytest.approx(NOW - 20)
    first = found.ranks[0]
    assert (first.rank, first.culprit, first.behind, first.place) == (2, True, 1, "all_reduce #30")
    assert [place.rank for place in found.ranks] == [2, 0, 1, 3]
    assert found.ranks[1].does == "waits in all_reduce #31"


def test_why_a_rank_does_not_tell_its_collectives_is_said() -> None:
    """Beside who holds the others up, each reason once; of a rank that is stopped that is said anyway."""
    long = {"groups": None, "unasked": ("collectives: no whole answer within 5 s", "stacks: no answer within 5 s")}
    ranks = [*waiting(4, without=(2,)), rank(2, group(30)), *(rank(n, **long) for n in (4, 5))]
    assert explain(ranks).evidence[-1] == "ranks 4-5 do not tell their collectives: no whole answer within 5 s"
    found = explain([*waiting(4), rank(4, **long)])
    assert (found.culprits, found.certainty) == ((4,), "likely")
    assert found.evidence[-1] == "rank 4 does not tell its collectives: no whole answer within 5 s"
    stopped = rank(4, **long, state="T")
    assert not any("collectives: " in line for line in explain([*waiting(4), stopped]).evidence)
    moving = explain([*(rank(n, group(31)) for n in range(4)), rank(4, **long)])
    assert len([line for line in moving.evidence if "no whole answer" in line]) == 1


def over_nccl(newest: int, done: int) -> Group:
    """A rank whose GPU has done some of what its program began; beside it one barrier over gloo."""
    rows = (
        Collective(n, "nccl:all_reduce", "1000", "Float", int((NOW - 20 + n / 100) * 1e9), n <= done)
        for n in range(20, newest + 1)
    )
    return Group("0:nccl", "default_pg", tuple(rows), newest)


def test_programs_run_ahead_of_their_gpus() -> None:
    """Over NCCL ranks begin more than their GPUs have done: the first one that does not end is it."""
    ranks = [rank(n, group(1), over_nccl(45, done=30)) for n in (0, 1, 3)]
    found = explain([*ranks, rank(2, group(1), over_nccl(30, done=30))])
    assert verdict(found) == ("hang", "certain", (2,))
    assert "rank 2 has not entered all_reduce #31 of 1000 Float in the default group" in found.headline


def begun(newest: int, *, ago: float, every: float, done: int, ended: float = 0.0) -> Group:
    """Collectives of NCCL that a rank began one after the other; so many are over, the last one since `ended`."""
    rows = (
        Collective(n, "nccl:all_reduce", "1000", "Float", int((NOW - ago - every * (newest - n)) * 1e9), n <= done)
        for n in range(60, newest + 1)
    )
    ended_ns = int((NOW - ended) * 1e9) if ended else 0
    return Group("0:nccl", "default_pg", tuple(rows), newest, ended_ns=ended_ns)


def test_a_rank_that_has_run_ahead_waits_for_nobody_who_goes_on() -> None:
    """As two ranks on an H200 answered: one began #86 to #101 seven seconds ago, since it does not wait for its GPU;
    the other enters one every 0.22 s. It hangs once it has entered none for long, from then on.
    """
    far = rank(0, begun(101, ago=6.7, every=0.02, done=85))
    assert verdict(explain([far, rank(1, begun(85, ago=0.1, every=0.22, done=85))]))[0] == "moving"
    found = explain([far, rank(1, begun(85, ago=6.0, every=0.22, done=85))])
    assert verdict(found) == ("hang", "certain", (1,))
    assert found.since == pytest.approx(NOW - 6.0)


def test_another_group_of_the_same_name_goes_on() -> None:
    """An old torch's `split_group` calls both halves "1": what the other one does tells nothing of those that wait."""
    waits, missing = (replace(one, ranks=(0, 1)) for one in (group(31, 300.0, name="1"), group(30, name="1")))
    other = replace(begun(900, ago=0.05, every=0.1, done=900, ended=0.05), name="1", ranks=(2, 3))
    found = explain([rank(0, waits), rank(1, missing), rank(2, other), rank(3, other)])
    assert found.kind == "hang" and found.since == pytest.approx(NOW - 300.0)


def test_a_clock_that_was_set_back_hides_no_hang() -> None:
    """What the missing rank began lies an hour ahead of what its host's clock says now."""
    ahead = rank(1, begun(85, ago=-3600.0, every=0.22, done=85))
    assert verdict(explain([rank(0, begun(101, ago=60.0, every=0.02, done=85)), ahead])) == ("hang", "certain", (1,))


@pytest.mark.parametrize(("ended", "kind"), [(0.4, "moving"), (30.0, "hang")])
def test_all_have_run_ahead_of_their_gpus(ended: float, kind: str) -> None:
    """Each began 40 s ago what its GPU has not come to: whether that stands still is told by the last one's end."""
    found = explain([rank(n, begun(101, ago=40.0, every=0.02, done=85, ended=ended)) for n in range(2)])
    assert found.kind == kind


def test_two_ranks_have_not_entered() -> None:
    """Both, and neither's doings in the headline."""
    found = explain([*waiting(4, without=(1, 2)), rank(1, group(30)), rank(2, group(29))])
    assert verdict(found) == ("hang", "certain", (1, 2))
    assert found.headline == (
        "ranks 1-2 have not entered all_reduce #31 of 1000 Float in the default group, for which ranks 0,3 wait"
    )


def test_a_rank_that_has_begun_nothing_at_all() -> None:
    """It tells, and is in no group yet."""
    assert verdict(explain([*waiting(3, without=(1,)), rank(1)])) == ("hang", "certain", (1,))


@pytest.mark.parametrize("reported", [(0, 1, 2), ()], ids=["NCCL", "gloo"])
def test_a_rank_outside_of_the_default_group_is_not_waited_for(reported: tuple[int, ...]) -> None:
    """A logger that has imported torch: NCCL's recorder lists the members (`pg_config` of torch 2.13), gloo's does not,
    and the hook tells who has a number among how many.
    """
    inside = [rank(n, group(31, 20, ranks=reported), torch_rank=n, world=3) for n in (0, 2)]
    found = explain([*inside, rank(1, group(30, ranks=reported), torch_rank=1, world=3), rank(3)])
    assert verdict(found) == ("hang", "certain", (1,)) and "rank 1 has not entered" in found.headline
    all_there = explain([*inside, rank(1, group(31, 20, ranks=reported), torch_rank=1, world=3), rank(3)])
    assert verdict(all_there) == ("hang", "likely", ()) and "every rank has entered" in all_there.headline


def test_a_rank_whose_number_is_not_known_may_be_in_the_default_group() -> None:
    """Its host does not answer, or it has not come there yet."""
    inside = [rank(n, group(31, 20), torch_rank=n, world=3) for n in (0, 1)]
    assert explain([*inside, rank(2)]).culprits == (2,)
    assert verdict(explain([*inside, RankSeen(2, "h1", why_not="gone")])) == ("hang", "likely", (2,))


def test_a_subgroup_stands_while_others_move() -> None:
    """Ranks of another group are no part of it."""
    left = {"name": "1", "ranks": (0, 1)}
    right = {"name": "2", "ranks": (2, 3)}
    ranks = [rank(0, group(9, 20, **left)), rank(1, group(8, **left)), rank(2, group(50, **right))]
    found = explain([*ranks, rank(3, group(50, 0.001, **right))])
    assert verdict(found) == ("hang", "certain", (1,))
    assert "in group 1" in found.headline and {p.rank: p.behind for p in found.ranks} == {1: 1, 0: 0, 2: None, 3: None}


def test_members_that_torch_does_not_tell_are_those_that_were_in_it() -> None:
    """gloo tells no members: rank 3 was never in that group, so nothing is said of it."""
    ranks = [rank(0, group(9, 20, name="1")), rank(1, group(8, name="1")), rank(3, group(4))]
    assert verdict(explain(ranks)) == ("hang", "certain", (1,))


def test_a_rank_that_waits_elsewhere_for_the_culprit_is_none() -> None:
    """Rank 1 has not entered the default group's, since it waits for rank 2 in a group of those two."""
    pair = {"name": "1", "ranks": (1, 2)}
    ranks = [rank(0, group(31, 10)), rank(1, group(30), group(5, 20, **pair)), rank(2, group(30), group(4, **pair))]
    assert verdict(explain(ranks)) == ("hang", "certain", (2,))


def test_ranks_that_wait_for_each_other_in_two_groups() -> None:
    """Nobody is outside all of it."""
    a, b = {"name": "1", "ranks": (0, 1)}, {"name": "2", "ranks": (0, 1)}
    waits = {"stacks": calls(TORCH, STEP)}
    found = explain(
        [rank(0, group(5, 20, **a), group(4, **b), **waits), rank(1, group(4, **a), group(5, 20, **b), **waits)]
    )
    assert verdict(found) == ("deadlock", "certain", (0, 1))
    assert found.headline == (
        "ranks wait for each other in different groups: "
        "rank 0 waits in all_reduce #5 of 1000 Float in group 1 for rank 1; "
        "rank 1 waits in all_reduce #5 of 1000 Float in group 2 for rank 0"
    )


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (
            {"what": "gloo:broadcast"},
            "rank 1 called broadcast of 1000 Float, ranks 0,2 called all_reduce of 1000 Float",
        ),
        ({"sizes": "999"}, "rank 1 called all_reduce of 999 Float, ranks 0,2 called all_reduce of 1000 Float"),
    ],
)
def test_ranks_that_called_different_things(odd: dict[str, Any], words: str) -> None:
    """Another operation, or another size where all must have one."""
    mine = group(31, 20)
    other = dataclasses.replace(
        mine.recent[-1], name=odd.get("what", mine.recent[-1].name), sizes=odd.get("sizes", "1000")
    )
    found = explain(
        [rank(0, mine), rank(1, dataclasses.replace(mine, recent=(*mine.recent[:-1], other))), rank(2, mine)]
    )
    assert verdict(found) == ("mismatch", "certain", (1,))
    assert found.headline == f"ranks called different collectives as #31 of the default group: {words}"


def test_one_against_one_in_different_collectives() -> None:
    """Nobody knows which of the two is the odd one: both are marked."""
    found = explain([rank(0, group(31, 20)), rank(1, group(31, 20, what="gloo:broadcast"))])
    assert verdict(found) == ("mismatch", "certain", (0, 1))


TORCH = Frame("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce")
STEP, LOADS = Frame("/work/train.py", 11, "step"), Frame("/work/train.py", 9, "load")


def test_a_stack_that_came_in_part_hides_no_place() -> None:
    """Of one of those that are alike: the others' is said, and it is to be asked once more. Of one that holds nobody
    up only what is said of it counts.
    """
    own, other = group(31, 20), group(31, 20, what="gloo:broadcast")
    part = dataclasses.replace(rank(2, own, stacks=(Stack("0x1", True, (TORCH,)),)), late=True)
    ranks = [rank(0, own, stacks=calls(TORCH, STEP)), rank(1, other, stacks=calls(TORCH, LOADS)), part]
    found = explain(ranks)
    assert (
        found.headline.endswith(f"ranks 0,2 called all_reduce of 1000 Float at {STEP}") and unplaced(ranks, found) == 1
    )
    ranks[2] = dataclasses.replace(part, late=False)
    assert explain(ranks).headline.endswith("called all_reduce of 1000 Float") and unplaced(ranks, explain(ranks)) == 0
    hang = [ranks[0], rank(1, group(30), stacks=calls(LOADS)), part]
    assert explain(hang).culprits == (1,) and unplaced(hang, explain(hang)) == 0


def test_why_a_place_is_not_known_is_said() -> None:
    """Of who holds the others up, as its process gave it."""
    found = explain([*waiting(2), rank(2, group(30), unasked=("stacks: no answer within 5 s",))])
    assert "where in the program rank 2 is can't be seen: no answer within 5 s" in found.evidence


def test_ranks_that_called_different_things_are_reported_with_their_places() -> None:
    """Each side's, where its ranks are in that call; where they went on since, that is said; else nothing of it."""
    own, other = group(31, 20), group(31, 20, what="gloo:broadcast")
    ranks = [
        rank(0, own, stacks=calls(TORCH, STEP)),
        rank(1, other, stacks=calls(TORCH, LOADS)),
        rank(2, own, stacks=calls(TORCH, STEP)),
    ]
    head = "ranks called different collectives as #31 of the default group: rank 1 called broadcast of 1000 Float"
    others = "ranks 0,2 called all_reduce of 1000 Float"
    found = explain(ranks)
    assert found.headline == f"{head} at {LOADS}, {others} at {STEP}"
    assert [(place.rank, place.does) for place in found.ranks] == [  # all of them wait, also the odd one
        (1, f"waits in broadcast #31 at {LOADS}"),
        (0, f"waits in all_reduce #31 at {STEP}"),
        (2, f"waits in all_reduce #31 at {STEP}"),
    ]
    ranks[1] = rank(1, other, stacks=calls(LOADS))
    assert explain(ranks).headline == f"{head} now at {LOADS}, {others} at {STEP}"
    ranks[1] = rank(1, dataclasses.replace(other, recent=(*other.recent, *group(32, 20).recent[-1:])))
    ranks[2] = rank(2, own, stacks=calls(TORCH, LOADS))
    assert explain(ranks).headline == f"{head}, {others}"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        *((what, "hang") for what in ("nccl:all_to_all", "gloo:scatter")),
        *((what, "mismatch") for what in ("gloo:reduce", "gloo:gather", "nccl:gather", "nccl:_reduce_scatter_base")),
    ],
)
def test_sizes_that_may_differ_are_no_mismatch(what: str, kind: str) -> None:
    """Each rank gives what it likes to an all-to-all; a scatter's input is its source's alone. A reduce's and gather's
    are each rank's own, as torch 2.13 over gloo recorded them: `reduce [[3]]`, `gather [[3]]` on source and others.
    """
    places = [group(31, 20, what=what, sizes=sizes) for sizes in ("10", "20", "10")]
    found = explain([rank(n, place) for n, place in enumerate(places)])
    assert verdict(found) == (kind, "certain" if kind == "mismatch" else "likely", (1,) if kind == "mismatch" else ())


@pytest.mark.parametrize(("sizes", "kind"), [("10x100", "hang"), ("10x100,5", "mismatch"), ("1000x", "mismatch")])
def test_shapes_with_as_many_elements_are_none(sizes: str, kind: str) -> None:
    """Rank 2 is missing: that is what it stands for."""
    found = explain([rank(0, group(31, 20)), rank(1, group(31, 20, sizes=sizes)), rank(2, group(30))])
    assert found.kind == kind and (kind == "mismatch" or found.culprits == (2,))


def test_sizes_that_differ_for_a_moment_are_none_either() -> None:
    """NCCL gathers tensors of different sizes; a claim takes a collective that does not end."""
    places = [group(31, 0.01, what="nccl:all_gather", sizes=sizes) for sizes in ("10", "20")]
    assert explain([rank(n, place) for n, place in enumerate(places)]).kind == "moving"


def test_sends_and_receives_are_counted_apart() -> None:
    """torch numbers them on their own: #5 of a pipeline is no #5 of the collectives, nor is a receive a send."""
    sends = dataclasses.replace(group(40), direct=group(5, 20, what="nccl:send 0->1").recent)
    receives = dataclasses.replace(group(40), direct=group(5, 0.01, what="nccl:recv 1<-0").recent)
    found = explain([rank(0, sends), rank(1, receives), rank(2, group(40))])
    assert found.kind != "mismatch" and found.culprits == ()


@pytest.mark.parametrize(
    ("state", "words", "next_step"),
    [
        ("T", "is stopped by a signal (SIGSTOP)", "kill -CONT"),
        ("t", "is being traced, and stopped by that", "TracerPid"),
    ],
)
def test_a_stopped_process(state: str, words: str, next_step: str) -> None:
    """By SIGSTOP or a debugger: also where the others have not waited long, and where nobody waits yet."""
    stopped = replace(rank(2, group(30), state=state), held=state == "t")
    found = explain([*waiting(4, without=(2,)), stopped])
    assert verdict(found) == ("hang", "certain", (2,))
    assert words in found.headline and next_step in found.advice
    alone = explain([*[rank(n, group(30)) for n in (0, 1, 3)], stopped])
    assert verdict(alone) == ("hang", "certain", (2,)) and alone.headline.startswith(f"rank 2 {words}")
    for own in (stopped, replace(stopped, process=replace(stopped.process, groups=None))):
        found = explain([*waiting(4, without=(2,), pending=0.01), own])
        assert verdict(found)[::2] == ("hang", (2,)) and found.since is not None
        assert found.collective == "all_reduce #31 of 1000 Float in the default group"


def test_who_waits_in_another_group_is_said_to() -> None:
    """A hang of one group stops the others, too; the table is of the oldest one's."""
    pair = group(21, 9.0, name="2", ranks=(2, 3))
    found = explain([rank(0, group(31, 20)), rank(1, group(31, 20)), rank(2, group(30)), rank(3, group(30), pair)])
    does = {place.rank: place.does for place in found.ranks}
    assert (found.culprits, does[1], does[3]) == ((2,), "waits in all_reduce #31", "waits in all_reduce #21 in group 2")


def test_ranks_that_tell_nothing_are_no_matter_of_the_network() -> None:
    """Their processes are there, and one of them is said to do what it does."""
    silent = [replace(rank(n), process=replace(rank(n).process, groups=None, cpu=1.0)) for n in (1, 2)]
    found = explain([rank(0, group(31, 20)), *silent])
    assert found.headline.endswith("for ranks 1-2: rank 1 is busy with code of its own") and found.advice == ""


def test_a_process_that_was_traced_in_one_moment_is_no_hang() -> None:
    """As strace and py-spy do it: the others wait for a moment, or not at all."""
    traced = rank(2, group(30), state="t", threads=(Thread("python", "t", "ptrace_stop", 0.0),))
    for others in (waiting(4, without=(2,), pending=0.01), [rank(n, group(30)) for n in (0, 1, 3)]):
        found = explain([*others, traced])
        assert (found.kind, found.culprits) == ("moving", ())
        assert next(place for place in found.ranks if place.rank == 2).does == "is being traced"


@pytest.mark.parametrize(
    ("pending", "every", "after"),
    [(0.5, 0.1, None), (2.0, 0.1, 3.0), (2.0, 3.0, None), (4.0, 3.0, 11.0), (20.0, 0.1, None)],
    ids=["just begun", "longer than usual", "slow steps", "longer than a slow step", "stands already"],
)
def test_when_it_will_count_as_one_that_stands_still(pending: float, every: float, after: float | None) -> None:
    """Worth another look then: what takes longer than a step does, and does not stand yet."""
    ranks = [rank(n, group(31, pending, every=every)) for n in (0, 1)] + [rank(2, group(30, every=every))]
    assert may_stand_from(ranks) == (pytest.approx(NOW + after) if after is not None else None)


def test_a_rank_whose_container_is_paused_does_not_wait_for_a_disk() -> None:
    """It can't answer either, and its threads are as a disk's: only the freezer of cgroups tells."""
    asleep = (Thread("python", "D", "hrtimer_nanosleep", 0.0),)
    frozen = {"state": "F", "threads": asleep, "groups": None, "unasked": ("collectives: its container is paused",)}
    found = explain([*waiting(3, without=(1,)), rank(1, **frozen)])
    assert found.culprits == (1,)
    assert found.headline.endswith("for rank 1: it is paused with its container")
    assert "`docker unpause` (or `podman unpause`)" in found.advice
    assert not any("collectives: " in line for line in found.evidence)
    assert explain([rank(n, **frozen) for n in range(2)]).headline == "ranks 0-1 are stopped with their containers"


def test_a_process_that_was_stopped_within_the_collective() -> None:
    """All have entered it; the one that can't go on is named."""
    others = [rank(n, group(31, 20), stacks=calls(TORCH, STEP)) for n in (0, 1, 3)]
    found = explain([*others, rank(2, group(31, 20), state="T")])
    assert verdict(found) == ("hang", "likely", (2,))
    assert found.headline == (
        f"ranks 0-1,3 wait in all_reduce #31 of 1000 Float in the default group at {STEP} for rank 2: "
        "it is stopped by a signal (SIGSTOP)"
    )
    why = (
        "where in the program rank 2 is can't be seen while that is stopped: a process answers again after `kill -CONT`"
    )
    assert found.evidence[-1] == why
    reported = explain([*others, rank(2, group(31, 20), state="T", stacks=calls(LOADS))])
    assert why not in reported.evidence and reported.headline.endswith(f"is stopped by a signal (SIGSTOP) at {LOADS}")


def test_a_rank_that_has_ended() -> None:
    """It will not enter anything any more."""
    found = explain([*waiting(3, without=(1,)), RankSeen(1, "h0", ended="exit 0")])
    assert verdict(found) == ("hang", "certain", (1,)) and "has ended: exit 0" in found.headline


def test_a_host_that_can_t_be_asked() -> None:
    """Its ranks may be anywhere: that is said, and not for sure."""
    why = "its host h1 can't be asked: timed out"
    found = explain([*waiting(4, without=(2, 3)), *(RankSeen(n, "h1", why_not=why) for n in (2, 3))])
    assert verdict(found) == ("hang", "likely", (2, 3)) and why in found.headline
    assert found.evidence == (
        "all_reduce #31 of 1000 Float in the default group: ranks 0-1 entered, of ranks 2-3 nothing is known",
        f"where in the program ranks 2-3 are can't be seen: {why}",
    )


def test_one_is_missing_and_of_another_nothing_is_known() -> None:
    """The missing one is certain not to have entered; whether it is the only one is not."""
    ranks = [*waiting(4, without=(2, 3)), rank(2, group(30)), RankSeen(3, "h1", why_not="gone")]
    assert verdict(explain(ranks)) == ("hang", "likely", (2,))


def test_all_have_entered_and_it_does_not_end() -> None:
    """Nobody is at fault as far as can be seen: the network is next."""
    found = explain([rank(n, group(31, 20), stacks=calls(TORCH, STEP)) for n in range(4)])
    assert f"at {STEP}, and it does not end" in found.headline
    found = explain(waiting(4))
    assert verdict(found) == ("hang", "likely", ())
    assert "every rank has entered all_reduce #31" in found.headline and "distui doctor" in found.advice


def test_several_default_groups_of_which_nobody_tells_who_is_together() -> None:
    """Two of two ranks each, of which one has done less, or with other sizes: nothing of that is certain."""
    apart = "the program made several default groups of 2 ranks: which are together is not known"
    for sizes in ("1000", "500"):
        first = [rank(n, group(31 - n, 20 if n == 0 else None), torch_rank=n, world=2) for n in (0, 1)]
        others = [rank(n, group(31, 9, sizes=sizes), torch_rank=n - 2, world=2) for n in (2, 3)]
        found = explain([*first, *others])
        assert found.certainty == "likely" and apart in found.evidence, sizes
    sure = explain([rank(n, group(31 - n, 20 if n == 0 else None), torch_rank=n, world=2) for n in (0, 1)])
    assert verdict(sure) == ("hang", "certain", (1,))


# it takes long, and is no fault


def test_a_checkpoint_is_a_stall() -> None:
    """The others wait for it, and will go on."""
    saves = calls(Frame("/x/site-packages/torch/serialization.py", 900, "_save"), Frame("/work/save.py", 3, "save"))
    found = explain([*waiting(4, without=(0,)), rank(0, group(30), stacks=saves, written=5_000_000)])
    assert verdict(found) == ("stall", "certain", (0,))
    assert "a checkpoint at /work/save.py:3 in save" in found.headline and "wait" in found.advice


COMPUTES = (Thread("python", "R", "", 1.0),)
MAPS = (Thread("python", "S", "futex_do_wait", 0.0),)


@pytest.mark.parametrize(
    ("newest", "process", "helper", "kind"),
    [
        (1, {"cpu": 1.0, "threads": COMPUTES}, 0.0, "stall"),
        (10, {"busy_with": ("reading", "/data/shard-3.tar")}, 0.0, "stall"),
        (2, {"cpu": 3.7, "threads": MAPS}, 0.0, "stall"),
        (2, {"threads": MAPS}, 0.9, "stall"),
        (2, {"threads": MAPS}, 0.0, "hang"),
        (2, {"state": "T", "cpu": 1.0, "threads": COMPUTES}, 0.9, "hang"),
        (11, {"cpu": 1.0, "threads": COMPUTES}, 0.0, "hang"),
    ],
    ids=["computes", "reads", "its threads compute", "its processes do", "waits for a lock", "stopped", "later"],
)
def test_who_is_at_work_before_the_first_steps_may_prepare_data(
    newest: int, process: dict[str, Any], helper: float, kind: str
) -> None:
    """Rank 0 prepares it while the others are in barrier #1 or #2."""
    first = [rank(n, group(newest, 20, what="gloo:barrier", sizes="")) for n in (1, 2, 3)]
    late = rank(0, group(newest - 1), stacks=calls(), **process) if newest > 1 else rank(0, stacks=calls(), **process)
    late = replace(late, helpers=(Process(7, 100, "python", "R", helper),))
    found = explain([late, *first])
    assert verdict(found) == (kind, "likely" if kind == "stall" else "certain", (0,))
    assert found.headline.startswith(f"rank 0 has not entered barrier #{newest} in the default group")
    assert ("wait, or raise `stall_after`; look at /work/train.py:7" in found.advice) == (kind == "stall")


@pytest.mark.parametrize(("other", "kind"), [(10, "stall"), (9000, "hang")])
def test_a_group_with_few_collectives_is_not_before_the_first_steps(other: int, kind: str) -> None:
    """As of checkpoints, or of barriers over gloo beside NCCL: a rank that is far in another one prepares nothing."""
    first = [rank(n, group(3, 20, what="gloo:barrier", sizes=""), group(9000, name="0:nccl")) for n in (1, 2, 3)]
    late = rank(0, group(2), group(other, name="0:nccl"), stacks=calls(), cpu=1.0, threads=COMPUTES)
    found = explain([late, *first])
    assert verdict(found) == (kind, "likely" if kind == "stall" else "certain", (0,))
    assert found.headline.startswith("rank 0 has not entered barrier #3 in the default group")


SAVE = tuple(
    Frame("/usr/local/lib/python3.11/site-packages/torch/serialization.py", line, function)
    for line, function in ((1312, "_save"), (1003, "save"))
)
"""`torch.save` as it writes the file (torch 2.13)."""


@pytest.mark.parametrize(
    ("process", "words"),
    [
        ({"busy_with": ("writing", "/nfs/ckpt/step100.pt")}, " (it is writing /nfs/ckpt/step100.pt)"),
        ({"busy_with": ("writing", "socket:[5]")}, ""),
        ({"threads": (Thread("python", "D", "", 0.0),)}, ""),
        ({"threads": (Thread("python", "D", "", 0.0),), "written": 4096}, ""),
        ({"threads": (Thread("python", "R", "", 0.02),)}, ""),
    ],
)
def test_a_checkpoint_that_is_being_written_is_a_stall(process: dict[str, Any], words: str) -> None:
    """`on_hang: stop` would end the run in the middle of it."""
    found = explain([*waiting(4, without=(0,)), rank(0, group(30), stacks=calls(*SAVE), **process)])
    moved = process.get("written") or any(thread.cpu for thread in process.get("threads", ()))
    assert verdict(found) == ("stall", "certain" if moved else "likely", (0,))
    assert found.headline.endswith(f"it saves or loads a checkpoint{words} at {MAIN}")
    assert "wait, or raise" in found.advice


LONG = 700.0
"""Seconds after which what never moves is called a hang."""
DATA_SET = (
    Frame("/x/site-packages/torch/serialization.py", 1500, "load"),
    Frame("/work/data.py", 12, "__getitem__"),
    Frame("/x/site-packages/torch/utils/data/_utils/fetch.py", 54, "fetch"),
    Frame("/x/site-packages/torch/utils/data/dataloader.py", 700, "__next__"),
)
"""A data set of `.pt` files, each loaded as a checkpoint is."""
POSTS = (
    Frame("/usr/lib/python3.11/ssl.py", 1, "read"),
    Frame("/x/site-packages/urllib3/connection.py", 1, "getresponse"),
    Frame("/x/site-packages/requests/api.py", 1, "post"),
    Frame("/work/log.py", 5, "report"),
)


def held_up_for(seconds: float, *frames: Frame, quiet: float | None = None, **process: Any) -> Explanation:
    """Three ranks wait for rank 0, which does this."""
    others = [rank(n, group(31, seconds)) for n in (1, 2, 3)]
    late = rank(0, group(30, over=seconds), stacks=calls(*frames), **process)
    return explain([replace(late, quiet=quiet), *others])


def test_a_data_set_on_a_file_server_that_is_gone_is_no_checkpoint() -> None:
    """Though its files are loaded as checkpoints are: at once a hang, and which file it reads."""
    disk = (Thread("python", "D", "nfs_wait_bit", 0.0),)
    found = held_up_for(30, *DATA_SET, busy_with=("reading", "/nfs/x/0001.pt"), threads=disk)
    assert verdict(found) == ("hang", "certain", (0,))
    assert found.headline.endswith("it is reading /nfs/x/0001.pt at /work/data.py:12 in __getitem__")


def test_a_data_loader_that_is_saved_in_a_checkpoint_is_a_checkpoint() -> None:
    """Which of the two calls the other tells."""
    assert held_up_for(30, *reversed(DATA_SET), written=9000).kind == "stall"


@pytest.mark.parametrize("frames", [POSTS, SAVE], ids=["downloads", "saves"])
def test_what_takes_long_and_never_moves_is_a_hang_in_the_end(frames: tuple[Frame, ...]) -> None:
    """For some minutes a slow disk may show nothing; never as certain, and nothing that gets on is called one."""
    assert verdict(held_up_for(30, *frames)) == ("stall", "likely", (0,))
    found = held_up_for(LONG, *frames)
    assert verdict(found) == ("hang", "likely", (0,)) and ", but nothing moves at /work/" in found.headline
    assert found.advice.startswith("look at /work/")
    for moved in ({"read": 5000}, {"written": 5000}, {"threads": (Thread("python", "S", "", 0.02),)}):
        assert verdict(held_up_for(LONG, *frames, **moved)) == ("stall", "certain", (0,)), moved


def test_what_has_moved_in_an_earlier_look_is_no_hang() -> None:
    """Whoever asks again and again knows for how long nothing has moved."""
    assert held_up_for(LONG, *SAVE, quiet=60.0).kind == "stall" and held_up_for(LONG, *SAVE, quiet=LONG).kind == "hang"
    assert held_up_for(60, *SAVE, quiet=LONG).kind == "stall", "it has entered a collective since"


@pytest.mark.parametrize(
    ("frame", "process"),
    [
        (Frame("/x/site-packages/numpy/lib/npyio.py", 1, "save"), {"busy_with": ("writing", "/nfs/ck/step1.npy")}),
        (Frame("/work/train.py", 9, "save_checkpoint"), {"busy_with": ("syncing", "/nfs/ck/step1.pkl")}),
        (Frame("/usr/lib/python3.11/shutil.py", 1, "copyfile"), {"busy_with": ("reading", "/nfs/ck/step1.pt")}),
        (Frame("/work/train.py", 9, "step"), {"busy_with": ("writing", "/nfs/ck/step1.bin"), "written": 1 << 20}),
    ],
)
def test_a_checkpoint_that_is_not_torch_s_is_one(frame: Frame, process: dict[str, Any]) -> None:
    """By its calls, or by how much it writes; `on_hang` never ends the run while it gets on."""
    at_once = held_up_for(30, frame, **process)
    assert (at_once.kind, at_once.culprits) == ("stall", (0,))
    assert held_up_for(LONG, frame, **process | {"written": 1 << 20}).kind == "stall"
    assert held_up_for(LONG, frame, **process | {"written": 0}).kind == "hang"


def test_a_line_of_a_log_is_no_checkpoint() -> None:
    """One that reads, or writes little in a function of another name, is as it is."""
    for does in ("writing", "reading"):
        found = held_up_for(30, Frame("/work/train.py", 9, "step"), busy_with=(does, "/nfs/log.txt"))
        assert verdict(found) == ("hang", "certain", (0,)), does


@pytest.mark.parametrize(
    ("file", "stall"),
    [
        ("/x/site-packages/torch/_dynamo/convert_frame.py", True),
        ("/x/site-packages/torch/_inductor/compile_fx.py", True),
        ("/x/site-packages/triton/compiler/compiler.py", True),
        ("/x/site-packages/torch/hub.py", True),
        ("/x/site-packages/torch/_dynamo/eval_frame.py", False),
        ("/x/site-packages/torch/_dynamo/external_utils.py", False),
        ("/x/site-packages/triton/runtime/jit.py", False),
    ],
)
def test_a_compiled_model_is_no_compilation(file: str, stall: bool) -> None:
    """Calls of a model that was compiled go through torch's files, too: such a rank may well hang for ever."""
    stack = calls(Frame("/work/model.py", 40, "forward"), Frame(file, 1, "call"))
    found = explain([*waiting(2, without=(0,)), rank(0, group(30), stacks=stack)])
    assert found.kind == ("stall" if stall else "hang")


@pytest.mark.parametrize(
    ("process", "words"),
    [
        ({"stacks": calls(Frame("/x/site-packages/torch/utils/data/dataloader.py", 9, "__next__"))},
         "waits for its data loader at /work/train.py:7 in <module>"),
        ({"busy_with": ("reading", "/data/shard-3.tar"), "stacks": calls()},
         "is reading /data/shard-3.tar at /work/train.py:7 in <module>"),
        ({"busy_with": ("reading", "/dev/nvidia0")}, "waits"),
        ({"busy_with": ("reading", "pipe:[5]")}, "waits"),
        ({"threads": (Thread("python", "D", "", 0.0),)}, "waits for a disk"),
        ({"cpu": 1.0, "stacks": calls()}, "is busy with code of its own at /work/train.py:7 in <module>"),
        ({"cpu": 0.1, "threads": (Thread("python", "R", "", 0.1),), "stacks": calls()},
         "is busy with code of its own at /work/train.py:7 in <module>"),
        ({"cpu": 2.0, "threads": (Thread("python3", "R", "", 1.0),),
          "stacks": calls(Frame("/usr/lib/python3.12/site-packages/torch/cuda/__init__.py", 1162, "synchronize"))},
         "waits for its GPU at /work/train.py:7 in <module>"),
        ({"threads": (Thread("python", "S", "do_wait", 0.0),)}, "waits for a process that it started"),
        ({"state": "Z"}, "has ended"),
        ({}, "waits"),
    ],
)  # fmt: skip
def test_what_the_missing_rank_does(process: dict[str, Any], words: str) -> None:
    """The surest sign first."""
    found = explain([*waiting(3, without=(1,)), rank(1, group(30), **process)])
    assert verdict(found) == ("hang", "certain", (1,))
    assert found.headline.endswith(f"wait: it {words}")


PYTHON = "/usr/lib/python3.11"


def waits_in(function: str, state: str = "S") -> dict[str, Any]:
    """A process whose main thread waits in a function of the kernel."""
    return {"threads": (Thread("python", state, function, 0.0),)}


@pytest.mark.parametrize(
    ("function", "state", "words"),
    [
        ("poll_schedule_timeout.constprop.0", "S", "waits for something to come over a connection or a pipe"),
        ("anon_pipe_write", "S", "waits for somebody to read from a full pipe"),
        ("do_wait.isra.0", "S", "waits for a process that it started"),
        ("wait_woken", "S", "waits for the other end of a connection"),
        ("rpc_wait_bit_killable", "D", "waits for a file server (NFS)"),
        ("folio_wait_bit_common", "D", "waits for a disk"),
        ("do_wait", "D", "waits for a disk"),
        ("mem_cgroup_handle_over_high", "D", "waits for memory: its container is at its limit"),
    ],
)
def test_what_the_kernel_tells_of_a_rank(function: str, state: str, words: str) -> None:
    """Whatever the compiler has made of the function's name; a peer that does not read sends nothing either."""
    found = explain([*waiting(3, without=(1,)), rank(1, group(30), **waits_in(function, state))])
    assert found.headline.endswith(f"wait: it {words}")


def test_a_rank_that_waits_for_a_name_of_a_host() -> None:
    stack = calls(Frame(f"{PYTHON}/socket.py", 963, "getaddrinfo"))
    poll = waits_in("poll_schedule_timeout.constprop.0")
    found = explain([*waiting(3, without=(1,)), rank(1, group(30), stacks=stack, **poll)])
    assert found.headline.endswith(f"it looks up the name of a host (DNS) at {MAIN}")


def with_helpers(*helpers: Process, **process: Any) -> str:
    """What is said of a rank that has started these."""
    late = rank(1, group(30), **process)
    return explain([*waiting(3, without=(1,)), replace(late, helpers=helpers)]).headline.partition("wait: it ")[2]


def helper(pid: int, parent: int = 101, name: str = "python", **process: Any) -> Process:
    return Process(pid, parent, name, process.pop("state", "S"), process.pop("cpu", 0.0), **process)


def test_which_process_a_rank_waits_for() -> None:
    """Also where it reads its output, or looks now and then; of a shell that what it runs; of several none."""
    runs = calls(Frame(f"{PYTHON}/subprocess.py", 1209, "communicate"))
    chain = (helper(7, name="sh"), helper(8, 7, "ffmpeg"))
    for function in ("do_wait", "anon_pipe_read", "poll_schedule_timeout.constprop.0"):
        reported = with_helpers(*chain, stacks=runs, **waits_in(function))
        assert reported == f"waits for a process that it started at {MAIN} (ffmpeg, process 8)"
    two = with_helpers(helper(7), helper(8), stacks=runs, **waits_in("do_wait"))
    assert two == f"waits for a process that it started at {MAIN}"
    assert with_helpers(*chain, stacks=calls(), **waits_in("anon_pipe_read")) == f"waits for data from a pipe at {MAIN}"


def test_what_holds_a_data_loader_up() -> None:
    """The one of its processes that is at a file, before one that computes; others only wait for work."""
    loads = calls(Frame("/x/site-packages/torch/utils/data/dataloader.py", 9, "__next__"))
    idle, busy = helper(7, **waits_in("futex_do_wait")), helper(8, cpu=1.0)
    ways: dict[str, dict[str, Any]] = {
        " (its process 9 is reading /data/3.tar)": {"busy_with": ("reading", "/data/3.tar")},
        " (its process 9 waits for a file server (NFS))": waits_in("rpc_wait_bit_killable", "D"),
        " (its process 9 waits for somebody to open the other end of a fifo)": waits_in("wait_for_partner"),
        " (its process 8 is busy)": waits_in("hrtimer_nanosleep"),
    }
    for more, process in ways.items():
        reported = with_helpers(idle, busy, helper(9, **process), stacks=loads)
        assert reported == f"waits for its data loader at {MAIN}{more}"
    assert with_helpers(idle, stacks=loads) == f"waits for its data loader at {MAIN}"


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        ((Frame(f"{PYTHON}/threading.py", 1583, "_shutdown"),), "a thread of its own"),
        ((Frame("/opt/lib/python3.14t/threading.py", 1583, "_shutdown"),), "a thread of its own"),
        ((Frame(f"{PYTHON}/threading.py", 1119, "join"),
          Frame(f"{PYTHON}/concurrent/futures/thread.py", 31, "_python_exit")), "a thread of its own"),
        ((Frame(f"{PYTHON}/multiprocessing/process.py", 149, "join"),
          Frame(f"{PYTHON}/multiprocessing/util.py", 360, "_exit_function")), "a process of its own"),
        ((Frame("/usr/lib/python3/site-packages/jax/_src/distributed.py", 199, "shutdown"),
          Frame("/usr/lib/python3/site-packages/jax/_src/api.py", 2582, "clean_up")),
         "the other ranks in JAX's shutdown"),
    ],
)  # fmt: skip
def test_a_program_that_has_ended_and_is_kept_alive(frames: tuple[Frame, ...], left: str) -> None:
    """The others hear nothing of its exception: where what keeps it alive is, as far as that is known."""
    other = Stack("0x2", False, (Frame("/work/log.py", 5, "send"), Frame(f"{PYTHON}/threading.py", 1, "_bootstrap")))
    main, lock = Stack("0x1", True, frames), waits_in("futex_do_wait")
    words = f"has come to its end, perhaps by an exception, and waits for {left} at "
    place = frames[0] if "JAX" in left else "/work/log.py:5 in send"  # no thread of its own keeps it there
    assert with_helpers(stacks=(other, main), **lock) == f"{words}{place}"
    assert with_helpers(stacks=(main,), **lock) == f"{words}{frames[0]}"
    joins = Stack("0x1", True, (Frame(f"{PYTHON}/threading.py", 1119, "join"), MAIN))
    assert with_helpers(stacks=(joins,), **lock) == f"waits for a lock or another thread at {MAIN}"


DEEP = tuple(Frame("/work/model.py", n, "forward") for n in range(100))


@pytest.mark.parametrize(
    "main",
    [
        (Frame("/work/a.py", 1, "f"), MAIN),
        (Frame("/work/a.py", 1, "f"), Frame("<frozen runpy>", 198, "_run_module_as_main")),
        (Frame("/work/a.py", 1, "f"), *DEEP),
    ],
)
def test_the_main_thread_is_found_among_others(main: tuple[Frame, ...]) -> None:
    """By `python x.py`, by `python -m x`, and where its outermost calls are too many to be told."""
    other = (
        Frame("/lib/python3.11/threading.py", 355, "wait"),
        Frame("/lib/python3.11/threading.py", 1002, "_bootstrap"),
    )
    stacks = (Stack("0x1", False, other), Stack("0x2", True, main), Stack("0x3", False, other))
    found = explain([*waiting(2, without=(1,)), rank(1, group(30), stacks=stacks)])
    assert found.headline.endswith("/work/a.py:1 in f")


# nothing stands still


def test_a_healthy_run_moves() -> None:
    """Ranks are a collective apart, and each has been in it for a moment."""
    found = explain([rank(0, group(31, 0.002)), rank(1, group(30)), rank(2, group(31, 0.004)), rank(3, group(31))])
    assert verdict(found) == ("moving", "certain", ()) and found.headline == "no collective stands still"
    assert [place.rank for place in found.ranks] == [0, 1, 2, 3]


def test_a_run_of_which_most_ranks_are_not_seen_is_not_certain_to_go_on() -> None:
    """Who waits for others there nobody knows: of which ranks that is so is said, and why."""
    why = "host h9 can't be asked: no route"
    found = explain([rank(0, group(30)), *(RankSeen(n, "h9", why_not=why) for n in range(1, 16))])
    assert verdict(found) == ("moving", "likely", ()) and found.headline == "no collective stands still"
    assert found.evidence == (f"of ranks 1-15 nothing is known: {why}",)
    silent = rank(1, groups=None, unasked=("collectives: an answer of more than 4194304 bytes",))
    found = explain([rank(0, group(30)), silent])
    assert verdict(found) == ("moving", "likely", ())
    assert found.evidence == ("of rank 1 nothing is known: collectives: an answer of more than 4194304 bytes",)
    over = RankSeen(1, "h0", ended="exit 0")
    assert verdict(explain([rank(0, group(30)), over])) == ("moving", "certain", ()), "it waits for nobody"
    logger = rank(2, torch="", groups=None)
    both = [rank(n, group(30), world=2, torch_rank=n) for n in (0, 1)]
    assert verdict(explain([*both, logger])) == ("moving", "certain", ()), "torch does not count it"


def test_slow_steps_are_no_standstill() -> None:
    """Half a minute from one to the next: twenty seconds say nothing."""
    ranks = [rank(n, group(31, 20, every=30)) for n in range(3)]
    assert explain([*ranks, rank(3, group(30, every=30))]).kind == "moving"
    assert explain([*(rank(n, group(31, 200, every=30)) for n in range(3)), rank(3, group(30))]).kind == "hang"


@pytest.mark.parametrize(("pending", "kind"), [(8.5, "moving"), (10.5, "hang")])
def test_parts_of_a_second_count(pending: float, kind: str) -> None:
    """Five steps of 1.9 s each are 9.5 s."""
    ranks = [rank(n, group(31, pending, every=1.9)) for n in range(3)]
    assert explain([*ranks, rank(3, group(30, every=1.9))]).kind == kind


def test_slow_steps_of_many_collectives_are_none_either() -> None:
    """Ten buckets of gradients within a millisecond, and then half a minute of computing."""

    def steps(newest: int, pending: float | None) -> Group:
        rows = group(newest, pending).recent
        begun = [int((NOW - (pending or 0) - 30 * (newest // 10 - one.number // 10)) * 1e9) for one in rows]
        return Group("0", "default_pg", tuple(map(_at, rows, begun)), newest)

    def _at(one: Collective, began_ns: int) -> Collective:
        return dataclasses.replace(one, began_ns=began_ns)

    assert explain([rank(0, steps(40, 20)), rank(1, steps(40, 20)), rank(2, steps(39, None))]).kind == "moving"


def test_the_last_has_just_entered() -> None:
    """The others have waited for it for long; now it is there, and the collective runs."""
    assert explain([*waiting(3, without=(1,)), rank(1, group(31, 0.01))]).kind == "moving"


@pytest.mark.parametrize("off", [0.5, -0.5, 100.0, -100.0])
@pytest.mark.parametrize("known", [True, False])
def test_clocks_of_hosts_are_no_standstill(off: float, known: bool) -> None:
    """However far apart they are, and whether that is known: a wait is measured on one clock alone."""
    ahead = off if known else 0.0
    there = [rank(n, group(31, 0.2, ahead=off), at=NOW + off - ahead, ahead=ahead) for n in (2, 3)]
    assert explain([rank(0, group(31, 0.2)), rank(1, group(30)), *there]).kind == "moving"
    stands = [rank(n, group(31, 20, ahead=off), at=NOW + off - ahead, ahead=ahead) for n in (2, 3)]
    assert verdict(explain([rank(0, group(31, 20)), rank(1, group(30)), *stands])) == ("hang", "certain", (1,))


def test_a_host_that_answered_long_before_the_others() -> None:
    """What its rank did since then is not known: it may have entered meanwhile."""
    waits = replace(rank(0, group(31, 20.0)), doubt=30.0)
    assert explain([waits, rank(1, group(30), at=NOW - 18.0)]).kind == "moving"
    assert explain([waits, rank(1, group(30), at=NOW - 2.0)]).culprits == (1,)


# after a collective has timed out


def gave_up(number: int) -> RankSeen:
    """A rank that told of a time-out and ended."""
    return RankSeen(number, f"h{number // 2}", ended="exit 1", in_vain=True)


def test_a_rank_that_waited_in_vain_had_entered() -> None:
    """While another one still waits it is known in which collective; how long it waited needs no proof any more."""
    found = explain([gave_up(0), rank(1, group(31, 2.0)), rank(2, group(30)), gave_up(3)])
    assert verdict(found) == ("hang", "certain", (2,))
    assert found.headline.startswith(
        "rank 2 has not entered all_reduce #31 of 1000 Float in the default group, for which ranks 0-1,3 wait: it "
    )


def test_nobody_is_left_in_the_collective_that_timed_out() -> None:
    """Who lives, is in none, and is behind had not entered it."""
    sleeps = rank(2, group(30), stacks=calls(Frame("/work/train.py", 9, "load")))
    found = explain([gave_up(0), gave_up(1), sleeps, rank(3, group(31))])
    assert verdict(found) == ("hang", "likely", (2,))
    assert found.headline == (
        "rank 2 had not entered the collective after all_reduce #30 in the default group, in which ranks 0-1 waited "
        "in vain: it is at /work/train.py:9 in load"
    )
    assert (found.collective, found.advice) == ("#31 in the default group", "look at /work/train.py:9")
    assert explain([gave_up(0), rank(1, group(0))]).headline.startswith(
        "rank 1 had not entered the first collective of"
    )
    assert explain([gave_up(0), gave_up(1)]).kind == "unseen"
    dying = replace(rank(1, group(31)), in_vain=True)
    assert explain([gave_up(0), dying]).kind == "moving"


def test_nobody_tells() -> None:
    """Every reason once, with those that it holds for."""
    off = rank(0, torch="", groups=None)
    old = rank(1, groups=None, unasked=("collectives: no such server",))
    found = explain(
        [off, old, RankSeen(2, "h1", why_not="it was not asked"), RankSeen(3, "h1", ended="exit 1"), rank(4)]
    )
    assert verdict(found) == ("unseen", "unknown", ())
    assert found.headline == "no rank tells where it is in its collectives"
    assert found.evidence == (
        "rank 0: no torch.distributed in use, or started with `insight: off` or as `python -I`",
        "rank 1: collectives: no such server",
        "rank 2: it was not asked",
        "rank 3: exit 1",
        "rank 4: torch 2.13.0 has recorded no collective of it",
    )


def test_a_framework_that_tells_no_collectives_is_named() -> None:
    """Its process could be asked for more than that it is there."""
    found = explain([rank(n, torch="", uses="JAX", groups=None) for n in range(3)])
    assert found.evidence == ("ranks 0-2: JAX does not tell its collectives",)
    both = explain([rank(n, torch="", uses="JAX and TensorFlow", groups=None) for n in range(3)])
    assert both.evidence == ("ranks 0-2: JAX and TensorFlow do not tell their collectives",)


def test_no_rank_at_all() -> None:
    """A plan without tasks, or a run of which nothing was found."""
    assert verdict(explain([])) == ("unseen", "unknown", ())


# whatever was answered

TEXT = st.sampled_from(
    [
        "",
        "0",
        "1",
        "default_pg",
        "gloo:all_reduce",
        "nccl:send 0->1",
        "nccl:recv 1<-0",
        "/a/torch/serialization.py",
        "x",
    ]
)
NUMBER = st.integers(0, 40)
COLLECTIVES = st.builds(Collective, NUMBER, TEXT, TEXT, TEXT, st.integers(0, (1 << 63) - 1), st.booleans())
GROUPS = st.builds(
    Group, TEXT, TEXT, st.lists(COLLECTIVES, max_size=5).map(lambda rows: tuple(sorted(rows))), NUMBER,
    st.lists(NUMBER, max_size=4).map(tuple), st.lists(COLLECTIVES, max_size=3).map(tuple),
)  # fmt: skip
STACKS = st.builds(Stack, TEXT, st.booleans(), st.lists(st.builds(Frame, TEXT, NUMBER, TEXT), max_size=3).map(tuple))
SECONDS = st.floats(-1e15, 1e15)
THREADS = st.builds(Thread, TEXT, TEXT, TEXT, SECONDS)
PROCESSES = st.builds(
    Process,
    pid=NUMBER,
    parent=NUMBER,
    name=TEXT,
    state=st.sampled_from(["", "R", "S", "D", "T", "Z"]),
    cpu=SECONDS,
    busy_with=st.none() | st.tuples(TEXT, TEXT),
    threads=st.lists(THREADS, max_size=2).map(tuple),
    torch=TEXT,
    groups=st.none() | st.dictionaries(TEXT, GROUPS, max_size=3),
    stacks=st.lists(STACKS, max_size=2).map(tuple),
    unasked=st.lists(TEXT, max_size=2).map(tuple),
)
RANKS = st.lists(
    st.builds(
        RankSeen,
        NUMBER,
        TEXT,
        st.none() | PROCESSES,
        why_not=TEXT,
        ended=TEXT,
        at=SECONDS,
        ahead=SECONDS,
        doubt=SECONDS,
        in_vain=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda seen: seen.rank,
)


@given(RANKS)
def test_whatever_was_answered_has_an_explanation(ranks: list[RankSeen]) -> None:
    """Each rank once, and nobody is accused who is not there."""
    found = explain(ranks)
    assert sorted(place.rank for place in found.ranks) == sorted(seen.rank for seen in ranks)
    assert set(found.culprits) <= {seen.rank for seen in ranks} and found.headline
    for one in standing(ranks):
        assert not set(one.waiting) & set(one.missing) and not set(one.missing) & set(one.unknown)


HEALTHY = st.tuples(
    st.integers(0, 1),
    st.none() | st.floats(0, 1),
    st.floats(-200, 200),
    st.booleans(),
    st.sampled_from(["R", "S", "D"]),
)


@given(st.lists(HEALTHY, min_size=1, max_size=8), st.floats(0.0001, 60))
def test_a_healthy_run_is_never_a_hang(ranks: list[Any], every: float) -> None:
    """All within one collective, nothing pending for more than a second; whatever the clocks say, known or not."""
    seen = []
    for number, (ahead_by, pending, off, known, state) in enumerate(ranks):
        place = group(30 + ahead_by, pending, every=every, ahead=off)
        ahead = off if known else 0.0
        seen.append(rank(number, place, at=NOW + off - ahead, ahead=ahead, state=state))
    assert verdict(explain(seen)) == ("moving", "certain", ())


FUTEX = {"threads": (Thread("python3", "S", "futex_do_wait", 0.0),)}
"""A thread that waits for a `threading.Lock`, as kernel 6.18 tells it; as the groups below recorded with torch 2.13."""


def test_a_rank_that_waits_for_a_lock() -> None:
    """A deadlock of its own threads is said to be one as far as the kernel knows it."""
    found = explain([rank(0, group(21, 20)), rank(1, group(20), stacks=calls(LOADS), **FUTEX)])
    assert verdict(found) == ("hang", "certain", (1,))
    assert found.headline.endswith(f"it waits for a lock or another thread at {LOADS}")


def test_groups_that_one_rank_made_in_another_order() -> None:
    """gloo counts the groups of each rank: one group has two names, and not every rank has entered either."""
    one, two = group(1, 20, name="1"), group(1, 20, name="2")
    stacks = calls(TORCH, STEP)
    found = explain([rank(0, group(20), one, stacks=stacks), rank(1, group(20), two, stacks=stacks)])
    assert verdict(found) == ("hang", "likely", ())
    assert found.headline == (
        "ranks wait in different groups: "
        f"rank 0 waits in all_reduce #1 of 1000 Float in group 1 at {STEP}; "
        f"rank 1 waits in all_reduce #1 of 1000 Float in group 2 at {STEP}"
    )
    assert "new_group" in found.advice and "in the same order" in found.advice


def test_pairs_that_do_not_get_on_are_told_apart_and_not_to_make_their_groups_in_order() -> None:
    """Each has both of its ranks: the order of their groups is right."""
    pairs = [group(5, 20, name=str(1 + n // 2)) for n in range(4)]
    found = explain([rank(n, one) for n, one in enumerate(pairs)])
    assert found.headline.startswith("ranks wait in different groups: ranks 0-1 wait in all_reduce #5")
    assert found.advice == "look at the network between these hosts: `distui doctor` proves who reaches whom"


def test_a_group_that_one_rank_has_not_used_yet() -> None:
    """Whether it belongs there nobody tells, so that is not certain; of several nobody is blamed."""
    waits = rank(0, group(20), group(1, 20, name="1"), stacks=calls(TORCH, STEP))
    asleep = rank(1, group(20), stacks=calls(LOADS), threads=(Thread("python3", "S", "hrtimer_nanosleep", 0.0),))
    found = explain([waits, asleep])
    assert verdict(found) == ("hang", "likely", (1,))
    assert found.headline == (
        f"rank 0 waits in all_reduce #1 of 1000 Float in group 1 at {STEP}, a group that rank 1 has not used yet: "
        f"rank 1 sleeps at {LOADS}"
    )
    assert found.advice == "look at /work/train.py:9"
    found = explain([waits, asleep, rank(2, group(20))])
    assert found.headline.endswith("a group that ranks 1-2 have not used yet") and found.culprits == ()
    found = explain([waits, RankSeen(1, "h2", why_not="host h2 can't be asked")])
    assert "not used yet" not in found.headline and found.culprits == ()


@pytest.mark.parametrize(
    "beside",
    [rank(4, torch="", groups=None), RankSeen(4, "h2", ended="exit 0", at=NOW)],
    ids=["a logger", "an evaluator that is done"],
)
def test_who_is_in_no_torch_world_is_not_blamed_for_a_group_of_it(beside: RankSeen) -> None:
    """All that torch counts are there: who tells no positions has nothing to do with it."""
    inside = [rank(n, group(20), group(1, 20, name="1"), torch_rank=n, world=4) for n in range(4)]
    found = explain([*inside, beside])
    assert verdict(found) == ("hang", "likely", ())
    assert found.headline.startswith("every rank has entered all_reduce #1 of 1000 Float in group 1")
    assert found.advice.startswith("look at the network")


def test_a_group_whose_members_are_reported_lacks_nobody() -> None:
    """NCCL tells them: then all have entered, whoever else there is."""
    pair = {"name": "1", "ranks": (0, 1)}
    found = explain([rank(0, group(5, 20, **pair)), rank(1, group(5, 20, **pair)), rank(2, group(20))])
    assert found.headline.startswith("every rank has entered all_reduce #5")


def test_a_reason_that_several_ranks_have_is_said_once() -> None:
    """As of a job with `insight: off` whose tasks have several ranks; that of one rank stands in its row."""
    why = "which process it is can't be known: none tells that it uses torch.distributed, which it may not yet"
    found = explain(
        [*(RankSeen(n, "h0", why_not=why) for n in (0, 1)), RankSeen(2, "h1", why_not="nothing of it runs")]
    )
    assert found.evidence == (f"ranks 0-1: {why}", "rank 2: nothing of it runs")
    assert [place.does for place in found.ranks] == ["can't be seen", "can't be seen", "nothing of it runs"]
    cut = "host h1 can't be asked: timed out"
    found = explain([*waiting(4, without=(2, 3)), *(RankSeen(n, "h1", why_not=cut) for n in (2, 3))])
    assert [place.does for place in found.ranks[:2]] == ["can't be seen", "can't be seen"]
    assert any(cut in line for line in found.evidence)


def typed(number: int, kinds: str, *, what: str = "gloo:all_reduce", **more: Any) -> RankSeen:
    """A rank that went through its 30th collective with tensors of this type."""
    own = group(31, what=what, **more)
    recent = tuple(replace(one, kinds=kinds) if one.number == 30 else one for one in own.recent)
    return rank(number, replace(own, recent=recent))


def test_types_that_gloo_lets_through_are_reported() -> None:
    """It looks at bytes alone: ranks go on with sums of nothing. That is no hang, which would be ended."""
    found = explain([typed(0, "Float"), typed(1, "Float"), typed(2, "Int"), typed(3, "Float")])
    assert verdict(found) == ("moving", "certain", ())
    assert found.headline == "no collective stands still, but ranks mixed types of tensors in one"
    assert found.evidence == (
        "#30 of the default group went through with different types: rank 2 called all_reduce of 1000 Int, "
        "ranks 0-1,3 called all_reduce of 1000 Float",
    )
    assert found.advice.startswith("every rank must call the same collectives")


@pytest.mark.parametrize(
    "ranks",
    [
        [typed(0, "Float"), typed(1, "Float")],
        [typed(0, "Float", what="gloo:scatter"), typed(1, "Int", what="gloo:scatter")],
        [typed(0, "Float", name="1"), typed(1, "Int", name="1")],
    ],
    ids=["the same", "may differ", "a group whose members are not known"],
)
def test_types_that_are_no_matter(ranks: list[RankSeen]) -> None:
    """Of gloo's other groups each rank has names of its own."""
    found = explain(ranks)
    assert (found.headline, found.evidence, found.advice) == ("no collective stands still", (), "")


def test_types_in_a_group_whose_members_torch_tells() -> None:
    """As over NCCL."""
    found = explain([typed(0, "Float", name="1", ranks=(0, 1)), typed(1, "Int", name="1", ranks=(0, 1))])
    assert found.evidence[0].startswith("#30 of group 1 went through with different types: rank 0 called all_reduce")
