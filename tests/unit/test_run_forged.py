"""Containers with forged labels on a shared host: another run, which hides nothing of ours."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from distui.cluster.attach import removing
from distui.cluster.attach.live_run import Live
from distui.cluster.attach.places import Disputed, RunLocation, undisputed
from distui.errors import UsageError
from distui.facts.host import Trouble
from distui.plan.labels import task_from_labels
from distui.plan.serialize import to_json
from distui.runs.hosts.discover import FoundRun, FoundRuns, find_runs
from distui.runs.report import history
from distui.runs.report.found import choose, plan_of
from distui.runs.report.older import launch_of, set_aside
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import AlreadyFollowed
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster

HOSTS = [Host("h1"), Host("h2")]


async def with_forged(cluster: Cluster, *tasks: int, retries: int = 0, **labels: str) -> FoundRuns:
    """A run of ours on both hosts, recorded here, and a stranger's containers with its name on the first."""
    plan = cluster.plan(launch="beef", retries=retries)
    cluster.store.adopt("r1").write_plan(to_json(plan))
    await cluster.run(plan, detach=True)
    for task in tasks or (0,):
        forged = copy.copy(cluster.hosts[0].containers[0])
        forged.id, forged.name = "fedcba"[task] * 64, f"innocent{task}"
        claims = {**labels, "task": str(task), "tasks": str(max(2, len(tasks)))}
        forged.labels = {**forged.labels, **{f"distui.{key}": value for key, value in claims.items()}}
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


@pytest.mark.parametrize("retries", [0, 2])
async def test_many_tasks_of_an_attempt_that_never_was_hide_none_of_a_recorded_run(
    cluster: Cluster, retries: int
) -> None:
    """Where the run is recorded, an attempt beyond its last is not believed, nor a later one while all ranks run."""
    found = await with_forged(cluster, 0, 1, 2, retries=retries, attempt="2", attempts="3")
    (run,) = found.named("r1")
    assert len(run.tasks) == 3, "whoever has no record goes by the number of tasks"
    stored = cluster.store.need("r1")
    chosen = choose((run,), stored, "ann@desk")
    assert chosen is not None
    assert [(t.host, t.labels.attempt) for t in chosen.tasks] == [("h1", 1), ("h2", 1)]
    assert sorted(t.id[0] for t in chosen.others) == ["d", "e", "f"]
    assert plan_of(chosen, stored, HOSTS) == stored_plan(stored)


async def test_an_attempt_that_never_was_is_not_the_run_once_that_is_over(cluster: Cluster) -> None:
    """Of the run nothing is left then; the name is not the forged ones' while an attempt of it may live."""
    await with_forged(cluster, 0, 1, 2, attempt="2", attempts="3")
    stored = cluster.store.need("r1")
    for host in cluster.hosts:
        host.containers[:] = [c for c in host.containers if c.labels["distui.attempt"] == "2"]
    found = await find_runs(cluster.connector, HOSTS)
    assert choose(found.named("r1"), stored, "ann@desk", ["h1"]) is None
    assert choose(found.named("r1"), stored, "ann@desk", ["h1", "h2"]) is None


async def test_a_later_attempt_is_what_a_run_is_now(cluster: Cluster) -> None:
    """Also where the one that is recorded here has left something on a host that was out of reach."""
    plan = cluster.plan(launch="beef", retries=2)
    cluster.store.adopt("r1").write_plan(to_json(plan))
    await cluster.run(plan, detach=True)
    later = cluster.plan(launch="beef", retries=2, attempt=2)
    for host, task in zip(cluster.hosts, later.tasks, strict=True):
        again = copy.copy(host.containers[0])
        again.id, again.name, again.labels = f"{task.index}" * 64, task.name, dict(task.labels)
        host.containers.append(again)
    del cluster.hosts[0].containers[0]
    found = await find_runs(cluster.connector, HOSTS)
    chosen = choose(found.named("r1"), cluster.store.need("r1"), "ann@desk")
    assert chosen is not None
    assert ([t.labels.attempt for t in chosen.tasks], [t.labels.attempt for t in chosen.others]) == ([2, 2], [1])


async def test_a_run_is_not_removed_while_a_task_of_any_attempt_runs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in front may have ended long ago, or be forged."""
    found = await with_forged(cluster, retries=2, attempt="2", attempts="3")
    stored = cluster.store.need("r1")
    chosen = choose(found.named("r1"), None, "ann@desk")
    assert chosen is not None
    ended = replace(chosen, tasks=tuple(replace(task, running=False) for task in chosen.tasks))

    async def find(*_: object) -> tuple[FoundRun, dict[str, Trouble]]:
        return ended, {}

    async def attach(*_: object, **__: object) -> Live:
        return Live(ended, plan_of(ended, stored, HOSTS), {}, {})

    monkeypatch.setattr(removing, "find", find)
    monkeypatch.setattr(removing, "attach", attach)
    with pytest.raises(UsageError, match="run r1 still runs"):
        await removing.remove_run(None, cluster.connector, RunLocation("r1", stored, HOSTS))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"task": "1", "rank": "1"}, "h1 and h2 both have a task that says it is number 1"),
        ({"task": "2", "rank": "1"}, "h1 and h2 both have a task that says it is rank 1"),
        ({"task": "2", "rank": "2"}, "h1 has a task that says it is number 2, of 2 from 0"),
        ({"task": "2", "rank": "2", "tasks": "3"}, "those on h1 differ in how many ranks and tasks there are"),
        ({"task": "2", "rank": "2", "world_size": "3"}, "those on h1 differ in how many ranks and tasks there are"),
    ],
    ids=["a task", "a rank", "one more", "of more tasks", "of more ranks"],
)
async def test_a_container_that_claims_a_place_in_an_attempt_of_ours_is_believed_by_nobody(
    cluster: Cluster, labels: dict[str, str], words: str
) -> None:
    """All labels are copied, the attempt's too. Who has the record goes by that; who has none follows nothing of it."""
    plan = cluster.plan(launch="beef")
    cluster.store.adopt("r1").write_plan(to_json(plan))
    await cluster.run(plan, detach=True)
    forged = copy.copy(cluster.hosts[0].containers[0])
    forged.id, forged.name = "f" * 64, "innocent"
    forged.labels = {**forged.labels, **{f"distui.{key}": value for key, value in labels.items()}}
    cluster.hosts[0].containers.append(forged)
    found = await find_runs(cluster.connector, HOSTS)

    elsewhere = choose(found.named("r1"), None, "ann@desk")
    assert elsewhere is not None and len(elsewhere.tasks) == 3
    with pytest.raises(Disputed) as reported:
        undisputed(elsewhere)
    assert reported.value.message == f"not all tasks named r1 are of one run: {words}"
    assert "`distui stop r1` ends all" in reported.value.hint
    chosen = choose(found.named("r1"), cluster.store.need("r1"), "ann@desk")
    assert chosen is not None and undisputed(chosen) is chosen
    assert [(t.host, t.id == "f" * 64) for t in chosen.tasks] == [("h1", False), ("h2", False)]
    assert [t.id for t in chosen.others] == ["f" * 64]
    indexes = [task.index for task in plan_of(elsewhere, None, HOSTS).tasks]
    assert len(indexes) == len(set(indexes)), "each task is followed once, also where all of them are to be stopped"


async def test_a_task_of_another_host_is_not_taken_for_ours_by_its_id(cluster: Cluster) -> None:
    """A host whose answers are false lists our task's very id as one of its own."""
    plan = cluster.plan(launch="beef")
    await cluster.run(plan, detach=True)
    ours = cluster.hosts[0].containers[0]
    forged = copy.copy(ours)
    forged.labels = {**forged.labels, "distui.host": "h2"}
    cluster.hosts[1].containers.append(forged)
    found = choose((await find_runs(cluster.connector, HOSTS)).named("r1"), None, "ann@desk")
    assert found is not None
    with pytest.raises(Disputed):
        undisputed(found)
