"""Containers with forged labels on a shared host: another run, which hides nothing of ours."""

from __future__ import annotations

import copy

import pytest

from distui.plan.labels import task_from_labels
from distui.plan.serialize import to_json
from distui.runs.hosts.discover import FoundRuns, find_runs
from distui.runs.report import history
from distui.runs.report.found import choose, plan_of
from distui.runs.report.older import launch_of, set_aside
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import AlreadyFollowed
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster

HOSTS = [Host("h1"), Host("h2")]


async def with_forged(cluster: Cluster, **labels: str) -> FoundRuns:
    """A run of ours on both hosts, recorded here, and a stranger's container with its name on the first."""
    plan = cluster.plan(launch="beef")
    cluster.store.adopt("r1").write_plan(to_json(plan))
    await cluster.run(plan, detach=True)
    forged = copy.copy(cluster.hosts[0].containers[0])
    forged.id, forged.name = "f" * 64, "innocent"
    forged.labels = {**forged.labels, **{f"distui.{key}": value for key, value in labels.items()}}
    cluster.hosts[0].containers.append(forged)
    return await find_runs(cluster.connector, HOSTS)


@pytest.mark.parametrize("owner", ["mallory@host", "", "ann@desk"])
async def test_another_launch_hides_none_of_ours(cluster: Cluster, owner: str) -> None:
    """Whatever attempt it claims, and whoever it says it is of."""
    found = await with_forged(cluster, launch="0bad", attempt="999", attempts="999", owner=owner)
    assert sorted((r.launch, len(r.tasks)) for r in found.named("r1")) == [("0bad", 1), ("beef", 2)]
    stored = cluster.store.need("r1")
    chosen = choose(found.named("r1"), stored, "ann@desk")
    assert chosen is not None and (chosen.launch, len(chosen.tasks)) == ("beef", 2)
    rows = history.joined(found, [history.stored_row(stored)])
    assert sorted((len(row.hosts), row.recorded) for row in rows) == [(1, False), (2, True)]
    if owner != "ann@desk":
        elsewhere = choose(found.named("r1"), None, "ann@desk")
        assert elsewhere is not None and elsewhere.launch == "beef"


async def only_forged(cluster: Cluster, **job: object) -> FoundRuns:
    """Our run is recorded here as one that goes on, and nothing of it is seen; a stranger's container has its name."""
    plan = cluster.plan(launch="beef", **job)
    cluster.store.adopt("r1").write_plan(to_json(plan))
    await cluster.run(plan, detach=True)
    forged = cluster.hosts[0].containers[0]
    forged.labels = {**forged.labels, "distui.launch": "0bad"}
    cluster.hosts[1].containers.clear()
    return await find_runs(cluster.connector, HOSTS)


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("answered", [["h1", "h2"], ["h1"], []])
async def test_another_launch_has_the_name_only_of_one_that_lives_nowhere(
    cluster: Cluster, answered: list[str], retries: int
) -> None:
    """All of its hosts answer and have nothing of it, and no attempt is to come: till then its name stays its own."""
    found = await only_forged(cluster, retries=retries)
    stored = cluster.store.need("r1")
    chosen = choose(found.named("r1"), stored, "ann@desk", answered)
    assert (chosen is not None) == (answered == ["h1", "h2"] and not retries)
    with stored.followed():
        assert choose(found.named("r1"), stored, "ann@desk", ["h1", "h2"]) is None


async def test_a_record_that_loses_its_name_is_kept_whole_and_once(cluster: Cluster) -> None:
    """Under the next free name, by whoever is first, never while it is followed; its plan tells that name."""
    await only_forged(cluster)
    with cluster.store.need("r1").followed(), pytest.raises(AlreadyFollowed):
        set_aside(cluster.store, "r1", ("cafe", "bob@desk"))
    assert set_aside(cluster.store, "r1", ("beef", "ann@desk")) is None
    had = (cluster.store.need("r1").path / "events.ndjson").read_bytes()
    cluster.store.create("r1~1")
    kept = set_aside(cluster.store, "r1", ("beef", "mallory@desk"))
    assert kept is not None
    assert ((kept.path / "events.ndjson").read_bytes(), kept.run_id) == (had, "r1~2")
    plan = stored_plan(kept)
    assert plan is not None
    assert (plan.run_id, launch_of(plan)) == ("r1~2", ("beef", "ann@desk"))
    assert set_aside(cluster.store, "r1", ("cafe", "bob@desk")) is None
    assert cluster.store.get("r1") is None


@pytest.mark.parametrize("known", [True, False])
async def test_another_attempt_of_our_launch_hides_none_of_ours(cluster: Cluster, known: bool) -> None:
    """All of its labels are copied but for the attempt: it is among the others, and known to be there."""
    found = await with_forged(cluster, attempt="999", attempts="999")
    (run,) = found.named("r1")
    chosen = choose((run,), cluster.store.need("r1") if known else None, "ann@desk")
    assert chosen is not None
    assert [(t.host, t.labels.attempt) for t in chosen.tasks] == [("h1", 1), ("h2", 1)]
    assert [t.id for t in chosen.others] == ["f" * 64]
    plan = plan_of(chosen, None, HOSTS)
    labels = task_from_labels(plan.tasks[0].labels)
    assert labels is not None and (labels.attempt, len(plan.tasks)) == (1, 2)
