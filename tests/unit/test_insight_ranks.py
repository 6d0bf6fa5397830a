"""Which process is which rank, out of what hosts answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Group, HostAnswer, Process
from distui.runs.insight.seen.ranks import (
    RankSeen,
    TaskRanks,
    counted_otherwise,
    other_programs,
    ranks_of,
    several_worlds,
)

GROUP = {"0": Group("0", "default_pg", (Collective(1, "gloo:all_reduce", "1", "Float", 1, True),), 1)}


def process(pid: int, parent: int = 1, name: str = "python", **more: Any) -> Process:
    """A process that sleeps."""
    return Process(pid, parent, name, more.pop("state", "S"), 0.0, **more)


def of_task(task: TaskRanks, *processes: Process, **ended: str) -> tuple[RankSeen, ...]:
    """The ranks of one task on a host that answered these processes; `ended` as `r1="exit 3"`."""
    answer = HostAnswer(task.host, {task.index: processes}, at=1005.0, ahead=5.0, doubt=0.5)
    return ranks_of([task], {task.host: answer}, {int(rank[1:]): words for rank, words in ended.items()})


def pids(found: tuple[RankSeen, ...]) -> list[int | None]:
    """The process of each rank."""
    return [seen.process.pid if seen.process else None for seen in found]


def test_a_process_says_which_rank_it_is() -> None:
    """A rank of another task, or a process that only has the variable, is none of this task's."""
    reported = [
        process(9, rank=7, torch="2.13"),
        process(8, rank=2),
        process(5, rank=3, torch="2.13"),
        process(6, rank=2, torch="2.13"),
        process(7),
    ]
    found = of_task(TaskRanks(0, "h", (2, 3)), *reported)
    assert [seen.rank for seen in found] == [2, 3] and pids(found) == [6, 5]
    assert all(seen.why_not == "" for seen in found)
    assert {(seen.at, seen.ahead, seen.doubt) for seen in found} == {(1000.0, 5.0, 0.5)}


def test_of_two_that_say_so_the_one_with_collectives_counts() -> None:
    """A data loader's worker inherits its rank's variables, and torch; of two with collectives it is the first."""
    worker, rank, later = (process(n, rank=0, torch="2.13", groups=g) for n, g in ((6, {}), (5, GROUP), (7, GROUP)))
    assert pids(of_task(TaskRanks(0, "h", (0, 1)), worker, rank, later)) == [5, None]
    assert pids(of_task(TaskRanks(0, "h", (0, 1)), rank, worker, later)) == [5, None]


def test_of_two_that_say_so_the_one_with_torch_counts() -> None:
    """A program that loads TensorFlow or JAX, for its records say, may start the one that trains, which has no groups
    yet, or tells none.
    """
    starts, rank = process(5, rank=0, uses="TensorFlow"), process(6, rank=0, torch="2.4")
    assert pids(of_task(TaskRanks(0, "h", (0,)), starts, rank)) == [6]
    assert pids(of_task(TaskRanks(0, "h", (0,)), starts)) == [5]


def test_a_task_of_one_rank_needs_nobody_to_say_so() -> None:
    """Its first process is that rank, but for what only starts another, and what has ended."""
    starts = [process(1, name="docker-init"), process(2, name="sh"), process(3, state="Z"), process(4, state="X")]
    task = TaskRanks(0, "h", (4,))
    assert pids(of_task(task, *starts, process(5), process(6))) == [5]
    assert pids(of_task(task, starts[1])) == [2], "nothing else is there"


def test_helpers_are_what_a_rank_has_started() -> None:
    """Whatever of it has started again, but no other rank and nothing of theirs."""
    ranks = [process(10, rank=0, torch="2.13"), process(20, 10, rank=1, torch="2.13")]
    others = [process(11, 10), process(12, 11), process(21, 20), process(30, 1)]
    found = of_task(TaskRanks(0, "h", (0, 1)), *ranks, *others)
    assert [[one.pid for one in seen.helpers] for seen in found] == [[11, 12], [21]]


def test_why_nothing_is_seen_of_a_rank() -> None:
    """Nothing of the task runs, or nobody says which of many it is; one that has ended needs no reason."""
    nothing = of_task(TaskRanks(0, "h", (0,)))[0]
    assert nothing.why_not == "nothing of it runs" and nothing.process is None
    unsure = of_task(TaskRanks(0, "h", (0, 1)), process(5), r1="exit 3")
    assert "torch.distributed" in unsure[0].why_not and not unsure[0].ended
    assert (unsure[1].why_not, unsure[1].ended) == ("", "exit 3")


def test_what_did_not_come_in_time_may_come_later() -> None:
    """All of a host's answer, its engine's, or the stacks of a process; other reasons last."""
    task = TaskRanks(0, "h", (0,))

    def seen(answer: HostAnswer) -> RankSeen:
        return ranks_of([task], {"h": answer}, {})[0]

    engine = seen(HostAnswer("h", {0: ()}, late=True, engine="did not answer in time"))
    assert (engine.why_not, engine.late) == ("its engine did not answer in time", True)
    assert seen(HostAnswer("h", why_not="it took more than 30 s", late=True)).late
    assert seen(HostAnswer("h", {0: (replace(process(5), late=True),)})).late
    assert not seen(HostAnswer("h", {0: (process(5),)}, late=True)).late, "it is seen all the same"
    for never in (HostAnswer("h", {0: ()}), HostAnswer("h", why_not="refused"), HostAnswer("h", {0: (process(5),)})):
        assert not seen(never).late


def worker(pid: int, rank: int | None, world: int = 4, enqueued: int = 1) -> Process:
    """A process that a program has started, and that is a rank of torch's own."""
    group = Group("0", "default_pg", (), enqueued, tuple(range(world)))
    return process(pid, 2, rank=0, torch_rank=rank, world=world, torch="2.13", groups={"0": group})


LAUNCHER = process(2, rank=0, torch="2.13", groups={})
"""`torchrun` imports torch.distributed, and is in no group."""


def of_two(
    here: list[Process], there: list[Process] | None, ended: dict[int, str] | None = None
) -> tuple[RankSeen, ...]:
    """The ranks of two tasks, one on each host; the second host does not answer where it has no processes."""
    answers = {"h0": HostAnswer("h0", {0: tuple(here)}), "h1": HostAnswer("h1", {1: tuple(there or ())})}
    if there is None:
        answers["h1"] = HostAnswer("h1", why_not="host h1 can't be asked")
    return ranks_of([TaskRanks(0, "h0", (0,)), TaskRanks(1, "h1", (1,))], answers, ended or {})


def test_ranks_that_programs_start_are_counted_as_torch_does() -> None:
    """`command: [torchrun, ...]`: each process by its own number, with the rank of the run that it is in."""
    found = of_two([LAUNCHER, worker(5, 1), worker(4, 0), process(9, 5)], [LAUNCHER, worker(4, 3), worker(5, 2)])
    assert [(seen.rank, seen.host, seen.run_rank) for seen in found] == [
        (0, "h0", 0), (1, "h0", 0), (2, "h1", 1), (3, "h1", 1),
    ]  # fmt: skip
    assert pids(found) == [4, 5, 5, 4] and [one.pid for one in found[1].helpers] == [9]


def test_ranks_that_nobody_tells_are_those_of_the_task_that_lacks_them() -> None:
    """Of a host that can't be asked, and of a worker that has not begun; launchers count task by task."""
    cut_off = of_two([LAUNCHER, worker(4, 0), worker(5, 1)], None)
    assert [(seen.rank, seen.host, seen.run_rank, seen.why_not) for seen in cut_off[2:]] == [
        (2, "h1", 1, "host h1 can't be asked"), (3, "h1", 1, "host h1 can't be asked"),
    ]  # fmt: skip
    over = of_two([worker(4, 0), worker(5, 1)], [], {1: "exit 3"})
    assert [(seen.ended, seen.why_not) for seen in over[2:]] == [("exit 3", "")] * 2
    late = of_two([worker(4, 0), worker(5, 1)], [LAUNCHER, worker(4, 2)])
    assert (late[3].host, late[3].process, late[3].why_not) == ("h1", None, "its process does not tell its rank")
    uneven = of_two([worker(4, 0, 5), worker(5, 1, 5)], None)
    assert [(seen.rank, seen.run_rank, seen.host) for seen in uneven[2:]] == [(2, 2, ""), (3, 3, ""), (4, 4, "")]


def test_a_launcher_is_no_rank() -> None:
    """`torchrun --nproc-per-node 1`: the run's rank is the process that works."""
    assert pids(of_two([LAUNCHER, worker(4, 0, 2)], [LAUNCHER, worker(5, 1, 2)])) == [4, 5]


def test_processes_that_do_not_tell_their_number_stand_for_the_rank_that_started_them() -> None:
    """An old torch: of several the one counts that is furthest behind, and who is in smaller groups is not known."""
    same = [worker(4, None, enqueued=9), worker(5, None, enqueued=8)]
    found = of_two(same, same[:1])
    assert pids(found) == [5, 4] and [seen.rank for seen in found] == [0, 1]
    assert {seen.groups["0"].ranks for seen in found} == {()}


def test_a_group_of_one_task_alone_is_not_the_program_s() -> None:
    """A rank that works with processes of its own beside: those are none of the run's ranks."""
    found = of_two([worker(4, 0, 2), *(worker(10 + n, n, 8) for n in range(8))], [worker(4, 1, 2)])
    assert pids(found) == [4, 4] and [seen.rank for seen in found] == [0, 1]


def test_members_of_groups_are_ranks_of_the_run() -> None:
    """A program may count its ranks in another order, as MPI does."""
    found = of_two([worker(4, 1, 2)], [worker(5, 0, 2)])
    assert [seen.rank for seen in found] == [0, 1] and pids(found) == [4, 5]
    turned = worker(4, 1, 2)
    alone = Group("1", "", (), 1, (1,))
    found = of_two([process(4, 2, torch_rank=1, world=2, torch="2", groups={"1": alone})], [worker(5, 0, 2)])
    assert found[0].groups["1"].ranks == (0,) and turned.torch_rank == 1


def test_a_rank_that_is_seen_has_not_ended() -> None:
    """Whatever was said before: what is looked at now counts."""
    assert of_task(TaskRanks(0, "h", (0,)), process(5), r0="exit 3")[0].ended == ""


@pytest.mark.parametrize("answers", [{}, {"h": HostAnswer("h", why_not="host h can't be asked: no route")}])
def test_a_host_without_an_answer(answers: dict[str, HostAnswer]) -> None:
    """Each of its ranks says why; one that has ended says how instead."""
    first, second = ranks_of([TaskRanks(0, "h", (0, 1))], answers, {1: "exit 3"})
    assert ("no route" in first.why_not) == bool(answers) and first.why_not and not first.ended
    assert (second.why_not, second.ended) == ("", "exit 3")


def test_ranks_come_in_their_order() -> None:
    """Whichever task or host they are of; each task has its own processes."""
    tasks = [TaskRanks(1, "h", (2,)), TaskRanks(0, "h", (0,)), TaskRanks(2, "g", (1,))]
    host = HostAnswer("h", {0: (process(5),), 1: (process(6),)})
    found = ranks_of(tasks, {"h": host, "g": HostAnswer("g", {2: (process(7),)})}, {})
    assert [(seen.rank, seen.host) for seen in found] == [(0, "h"), (1, "g"), (2, "h")]
    assert pids(found) == [5, 7, 6]


def independent(pid: int, rank: int, enqueued: int = 1) -> Process:
    """A rank of a `torchrun` of its own, as gloo tells it: of a group no members."""
    recent = (Collective(enqueued, "gloo:all_reduce", "1", "Float", 1, True),)
    groups = {name: Group(name, "default_pg" if name == "0" else "", recent, enqueued) for name in ("0", "1:nccl")}
    return process(pid, 2, rank=0, torch_rank=rank, world=2, torch="2.13", groups=groups)


def test_programs_that_know_nothing_of_each_other_have_groups_of_their_own() -> None:
    """An independent `torchrun` in each task: each is counted after the other, and no group has ranks of both."""
    found = of_two([LAUNCHER, independent(4, 0), independent(5, 1)], [LAUNCHER, independent(4, 1), independent(5, 0)])
    assert [(seen.rank, seen.host, seen.run_rank) for seen in found] == [
        (0, "h0", 0), (1, "h0", 0), (2, "h1", 1), (3, "h1", 1),
    ]  # fmt: skip
    assert pids(found) == [4, 5, 5, 4]
    own = {"0 of task 0": (0, 1), "1 of task 0:nccl": ()}
    assert {name: group.ranks for name, group in found[0].groups.items()} == own
    assert found[2].groups["0 of task 1"].ranks == (2, 3) and several_worlds(found) is None
    late = of_two([LAUNCHER, independent(4, 0), independent(5, 1)], [LAUNCHER, independent(4, 1)])
    assert [(seen.rank, seen.host, seen.why_not) for seen in late[2:3]] == [
        (2, "h1", "its process does not tell its rank")
    ]


def test_a_program_of_another_size_is_not_passed_over() -> None:
    """A `torchrun` of four ranks and one of two: the larger one is shown, and nothing is certain."""
    four = [replace(independent(4 + n, n), world=4) for n in range(4)]
    found = of_two([LAUNCHER, *four], [LAUNCHER, independent(4, 0), independent(5, 1)])
    assert [seen.run_rank for seen in found] == [0, 0, 0, 0]
    said = explain(found)
    assert (said.kind, said.certainty) == ("moving", "likely")
    assert "rank 1 of this run is in another program, of 2 ranks: what stands still there is not known" in said.evidence
    tasks = [TaskRanks(n, f"h{n}", (n,)) for n in range(5)]
    answers = {f"h{n}": HostAnswer(f"h{n}", {n: (worker(4, n % 3, 3 if n < 3 else 2),)}) for n in range(5)}
    (line,) = other_programs(ranks_of(tasks, answers, {}))
    assert line.startswith("ranks 3-4 of this run are in another program, of 2 ranks")


def test_who_is_in_no_program_of_several_ranks_is_in_no_other_one() -> None:
    """A logger, and one with a group of its own alone; nor is a side program of a rank that is in the common one."""
    four = [replace(independent(4 + n, n), world=4) for n in range(4)]
    for there in ([process(9)], [worker(9, 0, 1)], []):
        assert not list(other_programs(of_two([LAUNCHER, *four], there)))
    beside = of_two([worker(4, 0, 2), *(worker(10 + n, n, 8) for n in range(8))], [worker(4, 1, 2)])
    assert not list(other_programs(beside))


def test_worlds_of_which_nobody_tells_who_is_together() -> None:
    """A program that makes two of two ranks each: nothing is told of members in its numbers."""
    tasks = [TaskRanks(n, f"h{n}", (n,)) for n in range(4)]
    answers = {f"h{n}": HostAnswer(f"h{n}", {n: (worker(4, n % 2, 2),)}) for n in range(4)}
    found = ranks_of(tasks, answers, {})
    assert several_worlds(found) == 2 and {seen.groups["0"].ranks for seen in found} == {()}
    one = ranks_of(tasks[:2], answers, {})
    assert several_worlds(one) is None and one[0].groups["0"].ranks == (0, 1)


def elastic(
    pid: int, number: int, local: int, *, known: bool = True, members: tuple[int, ...] = (0, 1, 2, 3)
) -> Process:
    """A rank that torchrun has started and numbered, at its place among those of its host."""
    groups = {"0": GROUP["0"], "1": Group("1", "", (), 1, members)}
    reported: dict[str, Any] = {"torch_rank": number, "world": 4} if known else {}
    return process(pid, 2, rank=number, local_rank=local, torch="2.13", groups=groups, **reported)


def of_nodes(here: list[Process], there: list[Process] | None, ended: dict[int, str] | None = None) -> Any:
    """The ranks of two nodes of two ranks; the second host does not answer where it has no processes."""
    answers = {"h0": HostAnswer("h0", {0: tuple(here)}), "h1": HostAnswer("h1", {1: tuple(there or ())})}
    if there is None:
        answers["h1"] = HostAnswer("h1", why_not="host h1 can't be asked")
    return ranks_of([TaskRanks(0, "h0", (0, 1)), TaskRanks(1, "h1", (2, 3))], answers, ended or {})


AGENT = process(2, torch="2.13", groups={})


@pytest.mark.parametrize("known", [True, False], ids=["torch 2.3", "before"])
def test_ranks_of_torchrun_are_places_whatever_their_numbers(*, known: bool) -> None:
    """With c10d torch may number the second host first; who belongs to a group is told in the run's numbers."""
    here = [AGENT, elastic(4, 2, 0, known=known, members=(1, 2)), elastic(5, 3, 1, known=known)]
    there = [AGENT, elastic(6, 0, 0, known=known), elastic(7, 1, 1, known=known, members=(1, 2))]
    found = of_nodes(here, there)
    assert [seen.rank for seen in found] == [0, 1, 2, 3] and pids(found) == [4, 5, 6, 7]
    assert found[0].groups["1"].ranks == found[3].groups["1"].ranks == (0, 3)
    words = "torch numbers the ranks otherwise: rank 0 is torch's 2, rank 1 is torch's 3, rank 2 is torch's 0, "
    assert not known or list(counted_otherwise(found)) == [words + "rank 3 is torch's 1"]


def test_members_on_a_host_that_can_not_be_asked_are_those_that_are_left() -> None:
    """torch's numbers that nobody has told are the ranks of the host that is left, in its order."""
    found = of_nodes([elastic(4, 2, 0, members=(1, 2)), elastic(5, 3, 1)], None)
    assert found[0].groups["1"].ranks == (0, 3) and not list(counted_otherwise(of_nodes([elastic(4, 0, 0)], [])))


def test_a_member_that_may_be_on_several_hosts_may_be_any_of_their_ranks() -> None:
    """With two hosts out of reach nobody knows which of them torch numbered first."""
    hosts = {"h0": HostAnswer("h0", {0: (elastic(4, 4, 0, members=(1, 4)), elastic(5, 5, 1))})}
    tasks = [TaskRanks(n, f"h{n}", (2 * n, 2 * n + 1)) for n in range(3)]
    found = ranks_of(tasks, hosts, {2: "exit 1"})
    assert found[0].groups["1"].ranks == (0, 3, 4, 5), "not one that has ended: it would be said to be missing"


def test_a_place_that_a_task_does_not_have_is_no_rank_of_it() -> None:
    """A program may write whatever it likes into its environment."""
    assert pids(of_task(TaskRanks(0, "h", (2, 3)), elastic(4, 2, 7), elastic(5, 0, 1))) == [None, 5]
