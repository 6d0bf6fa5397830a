"""Runs that may lose nodes: what goes on, what fails, what torchrun does by itself, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from distui.errors import HostUnreachable
from distui.plan.model import RunPlan
from distui.runs.attempt.limits import Limits
from distui.runs.follow.followed import Lost
from distui.runs.lines.events import FailureFound, HostChanged, PhaseBegun, RankChanged, RanksRestarted
from distui.runs.state import elastic
from distui.runs.store.recorded import stored_events
from distui.spec.job.job import RankLayout, Torchrun
from fakehosts.runs import Cluster, until, use_fake_follower


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three hosts whose programs run until they are stopped."""
    made = Cluster(tmp_path, 3)
    use_fake_follower(monkeypatch, made.connector)
    return made


def plan_of(cluster: Cluster, fewest: int = 1, **settings: int) -> RunPlan:
    """torchrun on three hosts with two ranks each, of which `fewest` must be left."""
    torchrun = Torchrun(rdzv="c10d", nnodes=(fewest, 3), **settings)  # type: ignore[arg-type]
    return cluster.plan(launcher="torchrun", command=("t.py",), torchrun=torchrun, ranks=RankLayout(per_host=2))


def follows(cluster: Cluster) -> bool:
    """Whether the run is being followed."""
    return any(isinstance(e, PhaseBegun) and e.phase == "follow" for e in cluster.events)


async def end(cluster: Cluster, *codes: tuple[int, int]) -> None:
    """Nodes end with these codes, one after the other."""
    await until(lambda: follows(cluster))
    for node, code in codes:
        cluster.hosts[node].engine.by_label(node).end(code)
        host = cluster.hosts[node].name
        await until(lambda host=host: any(e.host == host and e.exit is not None for e in cluster.of(RankChanged)))


@pytest.mark.parametrize(
    ("fewest", "bad", "fails"),
    [(1, (), False), (1, (2,), False), (1, (1, 2), False), (1, (0,), True), (2, (1,), False), (2, (1, 2), True)],
)
def test_enough_nodes_are_left(cluster: Cluster, fewest: int, bad: tuple[int, ...], fails: bool) -> None:
    """MIN nodes, and node 0, which holds the rendezvous."""
    plan = plan_of(cluster, fewest)
    assert elastic.fails(plan, bad) is fails
    assert elastic.can_do_without(plan, bad) is not fails


def test_a_plain_run_needs_all(cluster: Cluster) -> None:
    """Without a range of nodes every failure is the run's."""
    plan = cluster.plan()
    assert [elastic.fails(plan, bad) for bad in ((), (1,))] == [False, True]
    assert not elastic.can_do_without(plan, (1,))


async def test_a_node_that_dies_does_not_end_the_run(cluster: Cluster) -> None:
    """Exit 0 when the others end well; the loss is said, and nothing is left."""
    ended = await cluster.run(plan_of(cluster), end(cluster, (2, 137), (0, 0), (1, 0)))
    assert (ended.outcome, ended.exit, ended.failure, ended.leftovers) == ("succeeded", 0, None, ())
    assert cluster.of(FailureFound) == []
    assert "node2 ended: killed by SIGKILL, exit 137; the run goes on with 2 of 3 nodes (it needs 1)" in cluster.said()
    assert cluster.left() == []


async def test_too_few_nodes_fail_the_run(cluster: Cluster) -> None:
    """The first that failed is named; what is left is stopped."""
    ended = await cluster.run(plan_of(cluster, 2), end(cluster, (2, 3), (1, 4)))
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None
    assert (ended.failure.host, ended.failure.exit) == ("h3", 3)
    assert "1 of 3 nodes are left, and the job needs 2" in cluster.said()


async def test_without_node_0_nothing_goes_on(cluster: Cluster) -> None:
    """Its store is the rendezvous; that is said."""
    ended = await cluster.run(plan_of(cluster), end(cluster, (0, 3)))
    assert (ended.outcome, ended.failure.host if ended.failure else None) == ("failed", "h1")
    assert "node0 ended: exit 3; it holds torchrun's rendezvous" in cluster.said()


async def test_a_host_out_of_reach_does_not_hold_the_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others end well: the run has succeeded, and what may still be on the lost host is named."""
    monkeypatch.setattr(elastic, "WAIT_FOR_LOST", 0.05)

    async def meanwhile() -> None:
        await until(lambda: follows(cluster))
        cluster.connector.down["h3"] = HostUnreachable("h3", "h3 can't be reached")
        await cluster.hosts[2].news.put(Lost("host", "no answer"))
        await until(lambda: any(e.host == "h3" and e.state == "lost" for e in cluster.of(HostChanged)))
        cluster.hosts[2].fails |= dict.fromkeys(("ps", "rm", "folder"), HostUnreachable("h3", "h3 can't be reached"))
        await end(cluster, (0, 0), (1, 0))

    ended = await cluster.run(plan_of(cluster), meanwhile(), limits=Limits(lost=0.03))
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert [left.partition(":")[0] for left in ended.leftovers] == ["h3"]
    assert "without node2: the run goes on with 2 of 3 nodes (it needs 1)" in cluster.said()


async def test_a_lost_host_that_is_needed_is_given_up(cluster: Cluster) -> None:
    """With too few nodes left the run's state is unknown, as ever."""

    async def meanwhile() -> None:
        await until(lambda: follows(cluster))
        cluster.hosts[2].fails |= dict.fromkeys(
            ("ps", "rm", "folder", "stop"), HostUnreachable("h3", "h3 can't be reached")
        )
        await cluster.hosts[2].news.put(Lost("host", "no answer"))

    ended = await cluster.run(plan_of(cluster, 3), meanwhile(), limits=Limits(lost=0.05))
    assert ended.outcome == "unknown"


async def test_torchruns_own_restarts_are_events(cluster: Cluster) -> None:
    """Rank, status and count; the last failure, after which it gives up, is none. RANK is said where it changes."""
    said = b"E] failed (exitcode: -9) local_rank: 1 (pid: 8) of binary: python\n"
    cluster.hosts[1].files["log-1"] = (
        b"[distui rank 2/0]:a\n[distui rank 3/1]:a\n" + said + b"[distui rank 0/0]:b\n[distui rank 1/1]:b\n" + said * 2
    )
    cluster.hosts[1].engine.exits[1] = 1
    ended = await cluster.run(plan_of(cluster, max_restarts=2), end(cluster, (0, 0), (2, 0)))
    assert ended.outcome == "succeeded"
    output = [(e.rank, e.host, e.exit, e.count, e.allowed) for e in cluster.of(RanksRestarted)]
    assert output == [(3, "h2", 137, 1, 2), (3, "h2", 137, 2, 2)]
    assert "torchrun gives ranks 2-3 the numbers RANK 0-1 now" in cluster.said()
    stored = cluster.store.need("r1")
    assert [stored.rank_log(r).read_bytes() for r in (2, 3)] == [b"a\nb\n", b"a\nb\n"]
    again = [e for e in stored_events(stored) if isinstance(e, RanksRestarted)]
    assert [(e.rank, e.host, e.exit, e.count, e.allowed) for e in again] == output
