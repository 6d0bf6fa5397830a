"""Runs of launcher `tf`: whose end is the run's, whose exit code, and who is stopped then."""

from __future__ import annotations

from typing import Any

from distui.cli.printing.words import of_batch
from distui.plan.model import RunPlan
from distui.runs.lines.events import Failure, FailureFound, RankChanged, RunOpened, StopAsked
from distui.runs.report.aftermath import aftermath
from distui.runs.report.rank_rows import short_name
from distui.runs.state.reducer import RunState, apply
from distui.spec.job.job import Role
from fakehosts.runs import Cluster, until

PS: dict[Any, Role] = {"chief": Role(), "worker": Role(count=2), "ps": Role(count=1)}


def tf(cluster: Cluster, roles: dict[Any, Role] | None = None, **more: Any) -> RunPlan:
    """Tasks 0 to 3 are chief/0 on h1, worker/0 on h1, worker/1 on h2, ps/0 on h1."""
    return cluster.plan(launcher="tf", roles=roles or PS, **more)


def exits(cluster: Cluster, **codes: int) -> None:
    """Tasks that end by themselves: `t0=0`."""
    for host in cluster.hosts:
        host.engine.exits.update({int(task[1:]): code for task, code in codes.items()})


def states(cluster: Cluster) -> dict[int, str]:
    return {e.rank: e.state for e in cluster.of(RankChanged)}


async def test_the_run_ends_with_its_chief(cluster: Cluster) -> None:
    """Workers and ps, which never end by themselves, are stopped: a clean end, and nothing is left."""
    exits(cluster, t0=0)
    ended = await cluster.run(tf(cluster))
    assert (ended.outcome, ended.exit, ended.failure) == ("succeeded", 0, None)
    assert states(cluster) == {0: "exited", 1: "stopped", 2: "stopped", 3: "stopped"}
    assert [e.reason for e in cluster.of(StopAsked)] == ["done"]
    assert cluster.of(FailureFound) == []
    assert cluster.left() == []


async def test_the_chief_s_exit_code_is_the_run_s(cluster: Cluster) -> None:
    """And it is named by its role."""
    exits(cluster, t0=7)
    ended = await cluster.run(tf(cluster))
    assert (ended.outcome, ended.exit) == ("failed", 7)
    assert ended.failure is not None
    assert (ended.failure.who, ended.failure.host, ended.failure.exit) == ("chief/0", "h1", 7)
    assert cluster.left() == []


async def test_a_parameter_server_that_fails_stops_all(cluster: Cluster) -> None:
    """The chief did not end by itself, so its status says nothing."""
    exits(cluster, t3=9)
    ended = await cluster.run(tf(cluster))
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None
    assert (ended.failure.who, ended.failure.exit) == ("ps/0", 9)
    assert states(cluster)[0] == "stopped"


async def test_a_lost_worker_is_the_chief_s_business(cluster: Cluster) -> None:
    """`on_fail: wait`: the coordinator goes on without it, and its end decides."""
    exits(cluster, t2=9)

    async def finish() -> None:
        await until(lambda: cluster.of(FailureFound))
        chief = next(c for c in cluster.hosts[0].containers if c.name.endswith("-0"))
        chief.end(0)

    ended = await cluster.run(tf(cluster, on_fail="wait"), finish())
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert ended.failure is not None
    assert ended.failure.who == "worker/1"


async def test_an_evaluator_is_not_waited_for(cluster: Cluster) -> None:
    """Workers only: the run is over with the last of them, and the evaluator is stopped."""
    exits(cluster, t0=0, t1=0)
    ended = await cluster.run(tf(cluster, {"worker": Role(), "evaluator": Role()}))
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert states(cluster) == {0: "exited", 1: "exited", 2: "stopped"}


async def test_a_worker_that_fails_stops_all_workers(cluster: Cluster) -> None:
    """Worker 1's failure is the run's; worker 0, which was stopped, has no say in the exit code."""
    exits(cluster, t1=3)
    ended = await cluster.run(tf(cluster, {"worker": Role()}))
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None
    assert (ended.failure.who, ended.failure.exit) == ("worker/1", 3)
    assert states(cluster) == {0: "stopped", 1: "exited"}


def test_tasks_are_called_by_their_role() -> None:
    """In the words of a run: `worker/1 on h2`, not its number."""
    opened = RunOpened(0, "r", "j", "tf", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}, names={0: "chief/0", 1: "ps/0"})
    state = apply(RunState(), opened)
    assert {r.name for r in state.ranks.values()} == {"chief/0", "ps/0"}
    said = of_batch([RankChanged(1, 1, "h2", "exited", 0, False, "exit 0")], names=opened.names)
    assert [text for text, _ in said] == ["distui: ps/0 on h2 ended: exit 0"]


def test_rows_and_what_followed_name_the_tasks() -> None:
    """In few letters: the list of ranks is narrow."""
    names = {0: "chief/0", 1: "worker/0", 2: "worker/1"}
    state = apply(RunState(), RunOpened(0, "r", "j", "tf", None, dict.fromkeys(names, "h1"), {}, names=names))
    failure = Failure(0, "h1", 4, "exit 4", at=5.0, name="chief/0")
    for event in (
        RankChanged(5, 0, "h1", "exited", 4, False, "exit 4"),
        FailureFound(5, failure),
        RankChanged(6, 1, "h1", "stopped", 143),
        RankChanged(6, 2, "h1", "stopped", 143),
    ):
        state = apply(state, event)
    assert [(m.who, m.what) for m in aftermath(state)] == [("chief/0", "exit 4"), ("wrk/0 wrk/1", "stopped")]
    assert [short_name(n) for n in ("chief/0", "worker/11", "ps/2", "evaluator/0", "node1", "")] == [
        "chief", "wrk/11", "ps/2", "eval", "node1", "",
    ]  # fmt: skip
