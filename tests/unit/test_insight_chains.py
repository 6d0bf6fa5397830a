"""Ranks in several groups, of which one holds all others up: the chain of who waits for whom is followed to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from distui.frozen import frozen
from distui.runs.insight.hang.ended import explain_time_out
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack, Thread
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation

NOW = 1_000_000.0
"""When all are looked at, on our clock."""

C10D = Frame("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce")
LOADER = Frame("/x/site-packages/torch/utils/data/dataloader.py", 9, "__next__")
STEP, LOADS = Frame("/work/train.py", 11, "<module>"), Frame("/work/train.py", 9, "load")
WHY = "host h9 can't be asked: no route"

IN_CALL: dict[str, Any] = {"stacks": (Stack("0x1", True, (C10D, STEP)),)}
ASLEEP: dict[str, Any] = {
    "stacks": (Stack("0x1", True, (LOADS, STEP)),),
    "threads": (Thread("python", "S", "hrtimer_nanosleep", 0.0),),
}
IN_LOADER: dict[str, Any] = {"stacks": (Stack("0x1", True, (LOADER, LOADS, STEP)),)}
SPINS: dict[str, Any] = {
    "stacks": (Stack("0x1", True, (STEP,)),), "threads": (Thread("python", "R", "", 1.0),), "cpu": 1.0,
}  # fmt: skip
"""In its own code, or in what CUDA does for it there."""
STOPPED: dict[str, Any] = {"state": "T", "groups": None, "unasked": ("collectives: its process is stopped",)}


def place(
    name: str, newest: int, pending: float | None = None, ranks: tuple[int, ...] = (), every: float = 0.1
) -> Group:
    """How far a rank is in a group: in its newest collective for so many seconds, or beyond it."""
    last = NOW - (pending if pending is not None else 1000.0)
    backend = "nccl" if name.endswith("nccl") else "gloo"
    rows = (
        Collective(
            n, f"{backend}:all_reduce", "1000", "Float", int((last - every * (newest - n)) * 1e9),
            n < newest or pending is None,
        )
        for n in range(max(1, newest - 20), newest + 1)
    )  # fmt: skip
    about = "default_pg" if name.removesuffix(":nccl") == "0" else "undefined"
    return Group(name, about, tuple(rows), newest, ranks)


def rank(number: int, *groups: Group, **process: Any) -> RankSeen:
    """A rank that tells these places."""
    base: dict[str, Any] = {"pid": 100 + number, "parent": 1, "name": "python", "state": "S", "cpu": 0.0}
    base |= {"rank": number, "torch": "2.13.0", "groups": {one.name: one for one in groups}}
    return RankSeen(number, f"h{number}", Process(**(base | process)), at=NOW)


def unseen(number: int) -> RankSeen:
    """A rank of a host that is out of reach."""
    return RankSeen(number, "h9", why_not=WHY)


def going_on(name: str, ranks: tuple[int, ...] = ()) -> Group:
    """A group whose newest collective has just ended."""
    own = place(name, 500, 0.1, ranks)
    return replace(own, recent=(*own.recent[:-1], replace(own.recent[-1], over=True)))


def verdict(found: Explanation) -> tuple[str, str, tuple[int, ...]]:
    """What is claimed, how surely, of whom."""
    return found.kind, found.certainty, found.culprits


PAIR, NEXT = (0, 1), (1, 2)
WAITS = rank(0, place("1:nccl", 31, 60, PAIR), **IN_CALL)
BETWEEN = rank(1, place("1:nccl", 30, None, PAIR), place("2:nccl", 7, 61, NEXT), **IN_CALL)
"""Rank 0 waits for rank 1, and that one in another group for rank 2."""


@pytest.mark.parametrize(
    ("last", "claimed", "words"),
    [
        (unseen(2), ("hang", "likely", (2,)), f"in group 2 at {STEP} for rank 2: {WHY}"),
        (rank(2, **STOPPED), ("hang", "likely", (2,)), f"in group 2 at {STEP} for rank 2: it is stopped by a signal"),
        (rank(2, place("2:nccl", 7, 60.5, NEXT)), ("hang", "likely", ()), "every rank has entered all_reduce #7"),
        (
            rank(2, place("2:nccl", 6, None, NEXT), **ASLEEP),
            ("hang", "certain", (2,)),
            "rank 2 has not entered all_reduce #7 of 1000 Float in group 2, for which rank 1 waits: it sleeps at",
        ),
        (
            rank(2, place("2:nccl", 6, None, NEXT), state="T"),
            ("hang", "certain", (2,)),
            "rank 2 has not entered all_reduce #7 of 1000 Float in group 2",
        ),
    ],
    ids=["its host is out of reach", "stopped", "nothing gets through", "sleeps", "stopped, and it told before"],
)  # fmt: skip
def test_the_end_of_a_chain_is_named(last: RankSeen, claimed: tuple[str, str, tuple[int, ...]], words: str) -> None:
    """And nobody on the way: rank 1 waits itself, and none of it is a deadlock."""
    found = explain([WAITS, BETWEEN, last])
    assert verdict(found) == claimed
    assert words in found.headline


def test_a_rank_that_is_stopped_between_two_groups() -> None:
    """As real torch over gloo recorded it: TP [0,1][2,3], DP [0,2][1,3], rank 2 stopped itself after TP #31."""
    ranks = [
        rank(0, place("1", 31), place("3", 31, 60), **IN_CALL),
        rank(1, place("1", 32, 60), place("4", 31), **IN_CALL),
        rank(2, **STOPPED),
        rank(3, place("2", 32, 60), place("4", 31), **IN_CALL),
    ]
    found = explain(ranks)
    assert verdict(found) == ("hang", "likely", (2,))
    assert found.headline.endswith("in <module> for rank 2: it is stopped by a signal (SIGSTOP)")
    assert "kill -CONT" in found.advice


def ring(*process: dict[str, Any], name: str = "") -> list[RankSeen]:
    """Three ranks of which each waits in a group for the next one."""
    return [
        rank(
            n,
            place(f"{n + 1}{name}", 15, 20, tuple(sorted((n, (n + 1) % 3)))),
            place(f"{(n - 1) % 3 + 1}{name}", 14, None, tuple(sorted((n, (n - 1) % 3)))),
            **process[n],
        )
        for n in range(3)
    ]


def test_only_who_waits_for_each_other_is_named_of_a_deadlock() -> None:
    """Rank 3 waits for one of them, and nobody for it: it is none of them."""
    ranks = ring(IN_CALL, IN_CALL, IN_CALL)
    outside = rank(3, place("9", 8, 30, (0, 3)), **IN_CALL)
    first = ranks[0].process
    assert first is not None
    ranks[0] = replace(ranks[0], process=replace(first, groups={**ranks[0].groups, "9": place("9", 7, None, (0, 3))}))
    found = explain([*ranks, outside])
    assert verdict(found) == ("deadlock", "certain", (0, 1, 2))
    assert found.headline.count(" for rank ") == 3 and "rank 3" not in found.headline


def test_a_cycle_is_certain_only_where_all_are_seen_to_wait() -> None:
    """Of NCCL's calls none waits, and of a rank without calls nobody knows whether it does."""
    assert verdict(explain(ring(IN_CALL, IN_CALL, {}))) == ("deadlock", "likely", (0, 1, 2))
    assert verdict(explain(ring(IN_CALL, IN_CALL, IN_CALL, name=":nccl"))) == ("deadlock", "likely", (0, 1, 2))
    assert verdict(explain(ring(SPINS, SPINS, SPINS, name=":nccl"))) == ("deadlock", "likely", (0, 1, 2))


@pytest.mark.parametrize("name", ["", ":nccl"])
@pytest.mark.parametrize(
    ("does", "certainty"),
    [
        (IN_LOADER, "certain"),
        ({"state": "T"}, "certain"),
        ({"busy_with": ("reading", "/nfs/x/1.pt")}, "certain"),
        (ASLEEP, "likely"),
    ],
    ids=["in its data loader", "stopped", "at a file", "asleep"],
)
def test_who_has_begun_a_collective_may_do_something_else(does: dict[str, Any], certainty: str, name: str) -> None:
    """It goes on beside the program: the rank holds the others up, and no deadlock is claimed. A program that sleeps
    may ask now and then whether the collective is over: that is not certain.
    """
    found = explain(ring(IN_CALL, does, IN_CALL, name=name))
    assert verdict(found) == ("hang", certainty, (1,))
    assert found.headline.startswith("rank 1 has not entered all_reduce #15")


def test_an_own_loop_beside_a_collective_of_gloo() -> None:
    """Who waits for gloo uses no core; who waits for NCCL does."""
    assert verdict(explain(ring(IN_CALL, SPINS, IN_CALL))) == ("hang", "likely", (1,))


def test_a_rank_that_waits_in_two_collectives_is_in_no_deadlock_by_the_one_it_does_not_stand_in() -> None:
    """Rank 0 has begun #5 of group 1 with `async_op=True`, and stands in group 2 for rank 2; rank 1 for rank 0."""
    asynchronous, stands = place("1", 5, 40, (0, 1)), place("2", 9, 30, (0, 2))
    ranks = [
        rank(0, asynchronous, stands, place("3", 2, None, (0, 1)), **IN_CALL),
        rank(1, place("1", 4, None, (0, 1)), place("3", 3, 35, (0, 1)), **IN_CALL),
    ]
    found = explain([*ranks, rank(2, place("2", 8, None, (0, 2)), **ASLEEP)])
    assert verdict(found) == ("hang", "certain", (2,))
    lost = explain([*ranks, unseen(2)])
    assert verdict(lost) == ("hang", "likely", (2,))


def test_who_waits_in_a_group_with_long_steps_is_not_blamed() -> None:
    """Rank 1 has waited in group 2 for 60 s, which is no more than usual there; group 1 has steps of 0.1 s."""
    long = place("2", 7, 60, NEXT, every=30)
    ranks = [rank(0, place("1", 31, 59, PAIR)), rank(1, place("1", 30, None, PAIR), long)]
    found = explain([*ranks, rank(2, place("2", 6, None, NEXT), **ASLEEP)])
    assert verdict(found) == ("hang", "likely", (2,))
    assert any("in group 2: rank 1 entered, rank 2 did not" in line for line in found.evidence)


def test_a_rank_that_has_just_begun_another_one_is_not_certain_to_hold_up() -> None:
    """It goes on, or waits itself since a moment ago."""
    ranks = [rank(0, place("1", 31, 20, PAIR)), rank(1, place("1", 30, None, PAIR), place("2", 7, 0.2, NEXT))]
    found = explain([*ranks, rank(2, place("2", 6, None, NEXT), **SPINS)])
    assert found.certainty == "likely" and found.kind == "hang"


def test_a_rank_in_a_call_that_torch_does_not_record_is_not_certain_to_hold_up() -> None:
    """It lacks in group 1, and stands in the start of another one."""
    found = explain([WAITS, rank(1, place("1:nccl", 30, None, PAIR), **IN_CALL)])
    assert found.certainty == "likely"
    no_calls = explain([WAITS, rank(1, place("1:nccl", 30, None, PAIR), place("2:nccl", 6, None, NEXT))])
    assert no_calls.certainty == "likely"


def test_something_unknown_on_the_way_is_not_certain() -> None:
    """Rank 2 sleeps; what rank 3 does, for which rank 0 waits, too, nobody knows."""
    three = (0, 1, 3)
    ranks = [
        rank(0, place("1", 31, 60, three), **IN_CALL),
        rank(1, place("1", 30, None, three), place("2", 7, 61, NEXT), **IN_CALL),
        rank(2, place("2", 6, None, NEXT), **ASLEEP),
    ]
    assert verdict(explain([*ranks, unseen(3)])) == ("hang", "likely", (2,))
    assert verdict(explain([*ranks, rank(3, place("1", 31, 60, three), **IN_CALL)])) == ("hang", "certain", (2,))


# a group of gloo's, of which torch tells no members


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (unseen(4), f"of rank 4 nothing is known: {WHY}"),
        (
            rank(4, groups=None, unasked=("collectives: an answer of more than 4194304 bytes",)),
            "of rank 4 nothing is known: collectives: an answer of more than 4194304 bytes",
        ),
        (RankSeen(4, "h4", ended="exit 0"), "rank 4 has ended: exit 0"),
    ],
    ids=["out of reach", "not to be read", "ended"],
)
def test_who_belongs_to_a_group_is_not_known_of_ranks_that_tell_nothing(other: RankSeen, words: str) -> None:
    """Then not every rank has entered, as far as anybody knows; who lacks nobody knows either."""
    inside = [rank(n, place("2", 31, 60), **IN_CALL) for n in (2, 3)]
    apart = [rank(n, going_on("1"), **SPINS) for n in (0, 1)]
    found = explain([*apart, *inside, other])
    assert verdict(found) == ("hang", "likely", ())
    entered = f"all that are known have entered all_reduce #31 of 1000 Float in group 2 at {STEP}"
    assert found.headline == f"{entered}, and it does not end; {words}"
    assert ("distui doctor" in found.advice) == (other.process is None and not other.ended)
    found = explain([*apart, *inside])
    assert found.headline.startswith("all that are known have entered all_reduce #31") and "doctor" in found.advice


def test_a_host_that_is_cut_off_is_no_matter_of_the_order_of_groups() -> None:
    """A mesh of two by two: each rank that is there waits in another group for one that is not."""
    ranks = [rank(n, place("1", 31), place(f"{3 + n}", 31, 60), world=4, torch_rank=n, **IN_CALL) for n in (0, 1)]
    found = explain([*ranks, unseen(2), unseen(3)])
    assert verdict(found) == ("hang", "likely", ())
    assert found.headline.startswith("ranks wait in different groups: rank 0 waits in all_reduce #31")
    assert found.headline.endswith(f"; of ranks 2-3 nothing is known: {WHY}")
    assert "new_group" not in found.advice and "distui doctor" in found.advice
    assert f"where in the program ranks 2-3 are can't be seen: {WHY}" in found.evidence
    logger = rank(2, torch="", groups=None)
    ranks = [rank(n, place(f"{3 + n}", 1, 60), world=2, torch_rank=n, **IN_CALL) for n in (0, 1)]
    found = explain([*ranks, logger])
    assert "nothing is known" not in found.headline and "new_group" in found.advice


def ended(seen: RankSeen) -> RankSeen:
    """What a rank left behind that its watchdog ended."""
    assert seen.process is not None
    return replace(seen, process=replace(seen.process, state="X", stacks=()), ended="exit 134")


def test_a_time_out_of_a_chain_names_its_end() -> None:
    """By what torch wrote of ranks that have all ended; it does not tell all that one may have waited in over NCCL."""
    last = rank(2, place("2:nccl", 6, None, NEXT))
    found = explain_time_out([ended(one) for one in (WAITS, BETWEEN, last)])
    assert found is not None and verdict(found) == ("hang", "likely", (2,))
    assert found.headline.startswith("rank 2 had not entered all_reduce #7 of 1000 Float in group 2, in which rank 1 ")
    assert explain_time_out([*map(ended, (WAITS, BETWEEN)), unseen(2)]) is None
    cycle = explain_time_out([ended(one) for one in ring({}, {}, {})])
    assert cycle is not None and verdict(cycle) == ("deadlock", "likely", (0, 1, 2))


# after a collective has timed out


def gave_up(number: int) -> RankSeen:
    """A rank that told of a time-out and ended."""
    return RankSeen(number, f"h{number}", ended="exit 1", in_vain=True)


def test_a_time_out_in_a_group_is_judged_in_that_group() -> None:
    """Ranks 0 and 1 train on in another one: rank 3 sleeps."""
    sleeps = rank(3, place("2", 30), **ASLEEP)
    found = explain([rank(0, going_on("1")), rank(1, going_on("1")), gave_up(2), sleeps])
    assert verdict(found) == ("hang", "likely", (3,))
    assert found.headline == (
        "rank 3 had not entered the collective after all_reduce #30 in group 2, in which rank 2 waited in vain: it "
        f"sleeps at {LOADS}"
    )
    assert found.collective == "#31 in group 2"


def test_who_had_not_entered_where_it_is_not_known_in_which_group() -> None:
    """All used the default group as they began: who is behind in each of the groups, or nobody."""
    every, right = (0, 1, 2, 3), (2, 3)
    start = place("0:nccl", 5, None, every)
    train = [rank(n, start, going_on("1:nccl", (0, 1)), **SPINS) for n in (0, 1)]
    sleeps = rank(3, start, place("2:nccl", 30, None, right), **ASLEEP)
    found = explain([*train, gave_up(2), sleeps])
    assert verdict(found) == ("hang", "likely", (3,))
    assert found.headline.startswith(
        "rank 3 had not entered the collective in which rank 2 waited in vain, of group 2 or the default group: it "
    )
    behind = rank(0, place("0:nccl", 4, None, every), going_on("1:nccl", (0, 1)), **SPINS)
    found = explain([behind, train[1], gave_up(2), sleeps])
    assert found.culprits == () and "in vain" not in found.headline


def test_who_is_gone_may_have_waited_in_another_group() -> None:
    """Rank 0 waits for it, and it waited for rank 3: neither is blamed, whoever else tells."""
    ranks = [rank(0, place("1:nccl", 9, 60, (0, 2)), **IN_CALL), gave_up(2)]
    found = explain([*ranks, rank(3, place("2:nccl", 30, None, (2, 3)), **ASLEEP)])
    assert verdict(found) == ("hang", "likely", (3,))
    found = explain([*ranks, rank(3, place("2:nccl", 30, 60, (2, 3)), **IN_CALL)])
    assert verdict(found) == ("hang", "likely", ())
    assert found.headline.endswith("for rank 2, which waited in vain itself")


def test_who_computes_for_a_moment_is_not_blamed_for_a_time_out_elsewhere() -> None:
    """Rank 1 is behind in the default group for two seconds; rank 3 timed out in another one, and is gone."""
    pair = (2, 3)
    ranks = [rank(0, place("0", 31, 2.0)), rank(1, place("0", 30), **SPINS), gave_up(3)]
    found = explain([*ranks, rank(2, place("0", 30), place("1", 8, None, pair), **ASLEEP)])
    assert verdict(found) == ("hang", "likely", (2,))


# whatever groups there are, and whoever it is


Fault = Literal["asleep", "in its loader", "spins", "stopped", "out of reach", "network"]
FAULTS: tuple[Fault, ...] = ("asleep", "in its loader", "spins", "stopped", "out of reach", "network")


@frozen
class Job:
    """A program that all ranks run: which group's collective comes next, and from where on one of them does no more."""

    size: int
    groups: tuple[tuple[int, ...], ...]
    program: tuple[int, ...]
    behind: tuple[frozenset[int], ...]
    """Of each step, the ranks that go on beside it until their next one of the same group."""
    culprit: int
    at: int
    fault: Fault
    nccl: bool
    reported: bool
    every: tuple[float, ...]
    unread: frozenset[int]
    """Ranks whose recorder does not answer."""
    no_calls: frozenset[int]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Random groups, the default one among them, and a program that is right: all call everything in one order."""
    size = draw(st.integers(2, 6))
    members = st.sets(st.integers(0, size - 1), min_size=2, max_size=size).map(lambda found: tuple(sorted(found)))
    groups = (tuple(range(size)), *draw(st.lists(members, max_size=5)))
    program = tuple(draw(st.lists(st.integers(0, len(groups) - 1), min_size=1, max_size=12)))
    nccl, some = draw(st.booleans()), st.frozensets(st.integers(0, size - 1), max_size=2)
    anyone = st.frozensets(st.integers(0, size - 1))
    return Job(
        size, groups, program,
        tuple(draw(anyone if draw(st.booleans()) else st.just(frozenset())) for _ in program),
        draw(st.integers(0, size - 1)), draw(st.integers(0, len(program) - 1)), draw(st.sampled_from(FAULTS)),
        nccl, nccl or draw(st.booleans()), tuple(draw(st.sampled_from([0.1, 30.0])) for _ in groups),
        draw(st.one_of(st.just(frozenset()), some)), draw(st.one_of(st.just(frozenset()), some)),
    )  # fmt: skip


def run(job: Job) -> tuple[list[int], list[bool], list[bool]]:
    """Until nothing goes on: how many steps each rank has begun, which of them are over, and who waits."""
    begun, over = [0] * job.size, [False] * len(job.program)
    waits = [False] * job.size
    moved = True
    while moved:
        moved = False
        for step, group in enumerate(job.program):
            earlier = all(over[one] for one in range(step) if job.program[one] == group)
            there = all(begun[rank] > step for rank in job.groups[group])
            if not over[step] and earlier and there and not (job.fault == "network" and step == job.at):
                over[step] = moved = True
        for rank in range(job.size):
            waits[rank] = _is_held(job, rank, begun[rank], over)
            does_no_more = job.fault != "network" and rank == job.culprit and begun[rank] >= job.at
            if begun[rank] < len(job.program) and not waits[rank] and not does_no_more:
                begun[rank] += 1
                moved = True
    return begun, over, waits


def _is_held(job: Job, rank: int, begun: int, over: Sequence[bool]) -> bool:
    """Whether a rank waits for the end of something it has begun."""
    for step in range(begun):
        group = job.program[step]
        again = begun < len(job.program) and job.program[begun] == group
        if rank in job.groups[group] and not over[step] and (rank not in job.behind[step] or again):
            return True
    return False


def seen(job: Job) -> list[RankSeen]:
    """What its ranks tell once nothing goes on any more."""
    begun, over, waits = run(job)
    assume(any(waits[rank] for rank in range(job.size) if rank != job.culprit))
    return [_seen(job, rank, begun[rank], over, waits[rank]) for rank in range(job.size)]


def _seen(job: Job, number: int, begun: int, over: Sequence[bool], waits: bool) -> RankSeen:
    acts: Mapping[Fault, dict[str, Any]] = {
        "asleep": ASLEEP, "in its loader": IN_LOADER, "spins": SPINS, "stopped": STOPPED, "network": {},
        "out of reach": {},
    }  # fmt: skip
    culprit = number == job.culprit and job.fault != "network"
    if culprit and job.fault == "out of reach":
        return unseen(number)
    process = acts[job.fault] if culprit and not (waits and job.fault not in ("stopped",)) else _waits(job, waits)
    groups = [_place(job, number, group, begun, over) for group in range(len(job.groups))]
    one = rank(number, *(group for group in groups if group is not None), **process)
    assert one.process is not None
    if number in job.no_calls:
        one = replace(one, process=replace(one.process, stacks=(), threads=()))
    if number in job.unread:
        one = replace(one, process=replace(one.process or Process(0, 0, "", "", 0.0), groups=None))
    return one


def _waits(job: Job, waits: bool) -> dict[str, Any]:
    """How it looks when a rank waits for others, or has come to the end of the program."""
    if not waits:
        return ASLEEP
    return SPINS if job.nccl else IN_CALL


def _place(job: Job, number: int, group: int, begun: int, over: Sequence[bool]) -> Group | None:
    own = [step for step in range(begun) if job.program[step] == group]
    if number not in job.groups[group] or not own:
        return None
    name = str(group) + (":nccl" if job.nccl else "")
    rows = []
    for at, step in enumerate(own):
        ago = 100 + job.every[group] * (len(own) - at) if over[step] else 60 - step / 10
        rows.append(
            Collective(at + 1, "nccl:x" if job.nccl else "gloo:all_reduce", "9", "Float", int((NOW - ago) * 1e9),
                       over[step])
        )  # fmt: skip
    members = job.groups[group] if job.reported else ()
    return Group(name, "default_pg" if group == 0 else "undefined", tuple(rows), len(own), members)


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(jobs())
def test_an_innocent_rank_is_never_blamed_for_certain(job: Job) -> None:
    """One rank holds up all others, or the network does: it is named, or less is said; a deadlock there is none."""
    found = explain(seen(job))
    guilty = {job.culprit} if job.fault != "network" else set()
    if found.certainty == "certain":
        assert set(found.culprits) <= guilty, found
        assert found.kind != "deadlock", found


@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(jobs(), st.sampled_from(["asleep", "in its loader", "stopped"]))
def test_the_one_that_sleeps_is_named_where_all_tell(job: Job, fault: Fault) -> None:
    """Whatever groups are between it and those that wait."""
    simple = replace(
        job, fault=fault, unread=frozenset(), no_calls=frozenset(), behind=(frozenset(),) * len(job.program),
        every=(0.1,) * len(job.groups), reported=True,
    )  # fmt: skip
    found = explain(seen(simple))
    assert (found.kind, found.culprits) == ("hang", (job.culprit,)), found


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(jobs(), st.integers(0, 5))
def test_nobody_who_only_waits_is_blamed_for_a_time_out(job: Job, first: int) -> None:
    """One of those that wait gives up and is gone; what it had begun is not known any more.

    Nor is a group that nobody else has used: as far as anybody tells it may have waited in another one then.
    """
    begun, over, waits = run(job)
    ranks = seen(job)
    able = [rank for rank in range(job.size) if waits[rank] and rank != job.culprit]
    assume(able)
    gone = able[first % len(able)]
    found = explain([gave_up(gone) if one.rank == gone else one for one in ranks])
    guilty = {job.culprit} if job.fault != "network" else set()
    if found.certainty == "certain":
        assert set(found.culprits) <= guilty, found
    plain = job.fault in ("asleep", "in its loader") and not any((job.unread, job.no_calls, *job.behind))
    held = {
        job.program[step] for step in range(begun[gone]) if not over[step] and gone in job.groups[job.program[step]]
    }
    used = {int(name.partition(":")[0]) for one in ranks if one.rank != gone for name in one.groups}
    if plain and held <= used and job.reported and min(job.every) == max(job.every) == 0.1:
        assert set(found.culprits) <= guilty, found
