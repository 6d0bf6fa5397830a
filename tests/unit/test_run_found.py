"""Taking up a run: the stored plan when it is the run's own, else one from labels; stopping it from afar."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from distui.cluster.attach.live_run import Live, _made
from distui.cluster.attach.places import RunLocation
from distui.errors import HostCommandError, HostUnreachable, SessionLost, UsageError
from distui.facts.host import Trouble
from distui.monitor.containers import list_containers
from distui.plan.labels import TaskLabels, task_from_labels
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.runs.control.stopping import stop_found, stop_ranks
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask, find_runs
from distui.runs.lines.events import Notice
from distui.runs.report.found import plan_of
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import RunStore
from distui.runs.store.saved_hosts import saved_hosts
from distui.runs.task import host_access
from distui.runs.task.host_run import HostRun
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import RankLayout, Role, Success
from fakehosts.runs import Cluster, plan_for

HOSTS = [Host("h1"), Host("h2")]


async def detached(cluster: Cluster, **job: object) -> tuple[RunPlan, FoundRun]:
    """A run that was started and left, as it is found again."""
    plan = cluster.plan(**job)
    await cluster.run(plan, detach=True)
    cluster.events.clear()
    (found,) = (await find_runs(cluster.connector, HOSTS)).runs
    return plan, found


async def test_the_stored_plan_of_the_same_run_is_used(cluster: Cluster) -> None:
    """All of it, with env and start lines."""
    plan, found = await detached(cluster)
    stored = cluster.store.need("r1")
    stored.write_plan(to_json(plan))
    assert plan_of(found, stored, HOSTS) == plan


@pytest.mark.parametrize("stored", ["none", "torn", "foreign shape", "another run's"])
async def test_without_its_own_plan_it_is_rebuilt_from_labels(cluster: Cluster, stored: str) -> None:
    """Enough to follow, stop and clean up: tasks, ranks, grace, policy; never another run's plan."""
    plan, found = await detached(cluster, stop_grace=7.0, on_fail="wait")
    folder = cluster.store.need("r1")
    match stored:
        case "torn":
            (folder.path / "plan.json").write_text('{"run_id": "r1"')
        case "foreign shape":
            (folder.path / "plan.json").write_text('{"run_id": "r1", "tasks": 7}')
        case "another run's":
            folder.write_plan(to_json(dataclasses.replace(plan, hash="0" * 12, stop_grace=99.0)))
    made = plan_of(found, folder, HOSTS)

    assert (made.run_id, made.job, made.owner, made.hash) == ("r1", "j", "ann@desk", plan.hash)
    assert (made.stop_grace, made.on_fail, made.world_size) == (7.0, "wait", 2)
    assert [(t.index, t.host, t.ranks, t.container) for t in made.tasks] == [
        (t.index, t.host, t.ranks, t.container) for t in plan.tasks
    ]
    assert all(t.start == () and t.env == {} for t in made.tasks)


async def test_a_plan_that_is_torn_counts_as_absent(cluster: Cluster) -> None:
    """Half of it never passes for a plan; nor is any cut a reason not to take the run up."""
    plan, found = await detached(cluster)
    stored = cluster.store.need("r1")
    rebuilt = plan_of(found, None, HOSTS)
    stored.write_plan(to_json(plan))
    whole = (stored.path / "plan.json").read_bytes()
    for end in (*range(0, len(whole) - 2, 61), len(whole.rstrip()) - 1):
        (stored.path / "plan.json").write_bytes(whole[:end])
        assert plan_of(found, stored, HOSTS) == rebuilt, end


async def test_labels_tell_whose_end_is_the_run_s(cluster: Cluster) -> None:
    """A machine that has nothing but ssh ends a TensorFlow run as the one that started it would."""
    roles = {"chief": Role(), "worker": Role(count=2), "ps": Role(count=1)}
    plan, found = await detached(cluster, launcher="tf", roles=roles)
    made = plan_of(found, None, HOSTS)
    assert (made.launcher, made.done_when, made.judges) == ("tf", "chief", (0,))
    assert made.rank_names == plan.rank_names == {0: "chief/0", 1: "worker/0", 2: "worker/1", 3: "ps/0"}
    chief = next(c for c in cluster.hosts[0].containers if c.name.endswith("-0"))
    chief.end(0)
    ended = await cluster.run(made, adopted=True)
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert cluster.left() == []


async def test_labels_tell_what_a_good_end_is(cluster: Cluster) -> None:
    """The length and the file; of regular expressions only that there are some, and that they were not looked at."""
    asked = Success(regex="done", min_seconds=3600.0)
    _, found = await detached(cluster, success=asked, same=r"loss (\S+)")
    made = plan_of(found, None, HOSTS)
    assert (made.success, made.same, made.unchecked) == (
        Success(min_seconds=3600.0), None, ("success.regex", "same"),
    )  # fmt: skip
    for host in cluster.hosts:
        host.containers[0].lasted = 5.0
        host.containers[0].end(0)
    ended = await cluster.run(made, adopted=True)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and "before the 3600 s of `success.min_seconds`" in ended.failure.words
    (words,) = ended.warnings
    assert words.startswith("`success.regex` and `same` of the job was not looked at")


async def test_a_rebuilt_plan_is_enough_to_follow_and_clean_up(cluster: Cluster) -> None:
    """From another machine: followed to the end, verdict, nothing left, also not the run's folder."""
    _, found = await detached(cluster)
    for host in cluster.hosts:
        host.files[f"/home/u/.local/state/distui/hosts/{host.name}/r1/env-0"] = b"A=1"
        host.containers[0].end(0)
    ended = await cluster.run(plan_of(found, None, HOSTS), adopted=True)

    assert (ended.outcome, ended.exit, ended.leftovers) == ("succeeded", 0, ())
    assert cluster.left() == []


async def test_a_run_taken_up_while_a_host_was_away_is_stopped_there_when_that_is_back(cluster: Cluster) -> None:
    """The result names that host; it is asked from then on, and its task joins the plan that is recorded here."""
    _, found = await detached(cluster)
    away = {"h2": Trouble("no_engine", "the container engine is not installed")}
    part = dataclasses.replace(found, tasks=found.tasks[:1])
    live = Live(part, plan_of(part, None, HOSTS), away, {})
    store = RunStore(cluster.store.root.parent / "elsewhere")
    place = RunLocation("r1", None, tuple(HOSTS))
    stored = _made(store.adopt("r1"), place, live)
    assert [host.name for host in saved_hosts(stored)] == ["h1", "h2"]

    cluster.hosts[0].containers[0].end(0)
    ended = await cluster.run(live.plan, adopted=True, unreachable={**away, "h3": away["h2"]})
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    where = "h[2-3]: the container engine is not installed"
    assert ended.warnings == (f"1 of the run's tasks may still be running where nobody answered: {where}",)

    again = dataclasses.replace(found, tasks=found.tasks[1:])
    plan = plan_of(again, stored, HOSTS)
    assert [(task.index, task.host) for task in plan.tasks] == [(0, "h1"), (1, "h2")]
    _made(stored, place, Live(again, plan, {}, {}))
    assert stored_plan(stored) == plan


async def test_a_plan_that_is_whole_takes_no_task_from_labels(cluster: Cluster) -> None:
    """Whoever may start containers there writes labels."""
    plan, found = await detached(cluster)
    stored = cluster.store.need("r1")
    stored.write_plan(to_json(plan))
    forged = dataclasses.replace(found.tasks[0], labels=dataclasses.replace(found.tasks[0].labels, task=7))
    assert plan_of(dataclasses.replace(found, tasks=(*found.tasks, forged)), stored, HOSTS) == plan


async def test_of_a_run_whose_hosts_all_answered_no_other_host_is_asked(cluster: Cluster, tmp_path: Path) -> None:
    """Also where a host that has nothing of it did not answer."""
    _, found = await detached(cluster)
    hosts = (*HOSTS, Host("h3"))
    live = Live(found, plan_of(found, None, hosts), {"h3": Trouble("unreachable", "no route")}, {})
    stored = _made(RunStore(tmp_path / "elsewhere").adopt("r1"), RunLocation("r1", None, hosts), live)
    assert [host.name for host in saved_hosts(stored)] == ["h1", "h2"]


async def test_a_label_s_regex_is_not_tried(cluster: Cluster) -> None:
    """Whoever may start containers on a host writes labels; who follows such a run is told."""
    plan, found = await detached(cluster, progress=r"(?P<x>(a+)+)$")
    assert plan.progress
    made = plan_of(found, None, HOSTS)
    assert made.progress is None
    for host in cluster.hosts:
        host.containers[0].end(0)
    await cluster.run(made, adopted=True)
    assert any("progress is not shown here" in e.text for e in cluster.events if isinstance(e, Notice))


# stopping from afar


async def test_a_stop_from_afar_stops_and_removes_everything(cluster: Cluster) -> None:
    """Word of who stops is there before the stop, and all is gone after it."""
    plan, found = await detached(cluster)
    report = await stop_found(cluster.connector, found, plan, who="bob@laptop", grace=5.0)

    assert (dict(report.errors), report.leftovers) == ({}, ())
    assert cluster.left() == []
    for host in cluster.hosts:
        verbs = host.verbs()
        assert verbs.index("say") < verbs.index("stop") < verbs.index("rm")
        path = f"/home/u/.local/state/distui/hosts/{host.name}/r1/stopped"
        ((text, mode),) = [(text, mode) for where, text, mode in host.puts if where == path]
        assert (text.startswith(b"bob@laptop\nuser 143 5\nmark "), mode) == (True, 0o600)
        assert host.open_sessions == 0


@pytest.mark.parametrize("some", [True, False])
async def test_a_stop_that_can_t_be_said_on_a_host_comes_all_the_same(cluster: Cluster, some: bool) -> None:
    """The home there hangs, or is full."""
    plan, found = await detached(cluster)
    cluster.hosts[0].fails["say"] = HostCommandError("h1", "h1: sh took more than 60 s")
    if some:
        report = await stop_ranks(cluster.connector, found, plan, {0}, who="b", grace=5.0)
    else:
        report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0, remove=False)
    assert (dict(report.errors), cluster.hosts[0].containers[0].status) == ({}, "exited")


async def test_a_kill_from_afar(cluster: Cluster) -> None:
    """Grace 0 is SIGKILL at once."""
    plan, found = await detached(cluster)
    await stop_found(cluster.connector, found, plan, who="b", grace=0)
    assert all("kill" in h.verbs() and "stop" not in h.verbs() for h in cluster.hosts)
    assert cluster.left() == []


async def test_a_stop_that_leaves_removal_to_the_follower(cluster: Cluster) -> None:
    """Where another distui follows, containers and the word stay for it."""
    plan, found = await detached(cluster)
    await stop_found(cluster.connector, found, plan, who="b", grace=5.0, remove=False)
    assert [c.status for h in cluster.hosts for c in h.containers] == ["exited", "exited"]
    assert all(any(f.endswith("/stopped") for f in h.files) for h in cluster.hosts)


async def test_some_ranks_are_stopped_and_the_others_left_alone(cluster: Cluster) -> None:
    """Only that rank's container ends, it is not removed, and it is said who stopped it, and not that the run is."""
    plan, found = await detached(cluster)
    report = await stop_ranks(cluster.connector, found, plan, {1}, who="bob@laptop", grace=5.0)
    assert (dict(report.errors), report.leftovers) == ({}, ())
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "exited"]
    left = [(f.rsplit("/", 1)[1], text) for h in cluster.hosts for f, text in h.files.items() if "/stopped" in f]
    assert left == [("stopped-1", b"bob@laptop\nuser 143 5\n")]
    assert cluster.hosts[0].open_sessions == cluster.hosts[1].open_sessions == 0


async def test_ranks_of_one_task_end_together(cluster: Cluster) -> None:
    """torchrun's ranks of a node can't be stopped one by one: refused before any host is asked to."""
    plan, found = await detached(cluster)
    whole = dataclasses.replace(plan, tasks=(dataclasses.replace(plan.tasks[0], ranks=(0, 1, 2)), plan.tasks[1]))
    with pytest.raises(UsageError, match="ranks 0-2 on h1 are one task") as refused:
        await stop_ranks(cluster.connector, found, whole, {0, 2}, who="b", grace=5.0)
    assert refused.value.hint == "--rank 0-2"
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "running"]


async def test_a_stop_repeated_is_fine(cluster: Cluster) -> None:
    """Nothing is left to stop: no error."""
    plan, found = await detached(cluster)
    await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    assert (dict(report.errors), report.leftovers) == ({}, ())
    assert cluster.left() == []


async def test_hosts_that_fail_are_named_and_others_stopped(cluster: Cluster) -> None:
    """One host out of reach, or an engine that refuses, leaves the others' stop as it is."""
    plan, found = await detached(cluster)
    cluster.connector.down["h1"] = HostUnreachable("h1", "h1 does not answer")
    report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    assert dict(report.errors) == {"h1": "does not answer"}
    assert cluster.hosts[1].containers == []

    del cluster.connector.down["h1"]
    cluster.hosts[0].fails["stop"] = Completed((), 1, b"", b"Cannot connect to the Docker daemon")
    report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    assert "daemon does not run" in report.errors["h1"]


async def test_a_host_that_goes_away_during_a_stop_from_afar_is_waited_for_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for everything else that is asked of it: it is named, and the stop ends."""
    monkeypatch.setattr(host_access, "RECONNECT_TIMEOUT", 0.05)
    plan, found = await detached(cluster)

    def gone(argv: tuple[str, ...]) -> Completed:
        cluster.connector.down["h1"] = HostUnreachable("h1", "h1 does not answer")
        raise SessionLost("h1", "h1: the connection broke")

    cluster.hosts[0].fails["stop"] = gone
    async with asyncio.timeout(30):
        report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    assert set(report.errors) == {"h1"}
    assert cluster.hosts[1].containers == []


@pytest.mark.parametrize(("engine", "most"), [("docker", 50), ("podman", 7)])
async def test_all_ranks_of_a_host_are_asked_to_end_at_once(engine: str, most: int, cluster: Cluster) -> None:
    """An engine's client stops no more than so many side by side, and asks the others only when those have ended."""
    plan = cluster.plan(ranks=RankLayout(per_host=60))
    host = HostRun("h1", plan, cluster.connector)
    host.tasks = tuple(dataclasses.replace(task, engine=engine) for task in host.tasks)
    host.ids = {task.index: f"id{task.index}" for task in host.tasks}
    cluster.hosts[0].fails["stop"] = Completed((), 0, b"", b"")
    await host.connect()
    reached = cluster.hosts[0].hold("stop")
    stopping = asyncio.ensure_future(host.stop(host.tasks, 5.0))
    await reached.wait()
    await asyncio.sleep(0.01)
    asked = [words[4:] for words in cluster.hosts[0].ran if words[1] == "stop"]
    cluster.hosts[0].gates["stop"].set()
    await stopping
    assert sorted(name for names in asked for name in names) == sorted(host.ids.values())
    assert max(map(len, asked)) <= most


async def test_what_is_started_from_a_rank_s_image_is_none_of_the_run_s(cluster: Cluster) -> None:
    """`docker commit` keeps labels, and what anybody starts from that image has them: it is not stopped, nor removed.

    A rank's container that somebody has renamed is, whatever its image is.
    """
    plan, found = await detached(cluster)
    engine, image = cluster.hosts[0].engine, "sha256:" + "c" * 64
    (rank,) = engine.containers
    rank.name = "renamed"
    engine.image_labels[image] = dict(rank.labels)
    theirs = dataclasses.replace(rank, id="f" * 64, name="anns-work", image=image, ended=asyncio.Event())
    engine.containers.append(theirs)

    (again,) = (await find_runs(cluster.connector, HOSTS)).runs
    assert [task.id for task in again.tasks] == [task.id for task in found.tasks]
    shown = await list_containers((await cluster.connector.connect("h1")).run, HOSTS[0])
    assert {one.name: one.task.run if one.task is not None else "" for one in shown} == {
        "renamed": "r1",
        "anns-work": "",
    }
    report = await stop_found(cluster.connector, again, plan, who="b", grace=5.0)
    assert (dict(report.errors), report.leftovers) == ({}, ())
    assert engine.containers == [theirs]
    assert theirs.status == "running"


async def test_a_run_of_a_rank_s_image_has_labels_of_its_own_only(cluster: Cluster) -> None:
    """What `docker commit` kept of another run says nothing of this one: not its limits, nor that it is kept."""
    engine = cluster.hosts[0].engine
    engine.image_labels[engine.images["img:1"]] = {
        "distui.run": "other",
        "distui.keep": "yes",
        "distui.max_duration": "60",
        "distui.secrets": "TOKEN",
        "distui.build": "0123",
        "maintainer": "ann",
    }
    plan, found = await detached(cluster)
    for task in found.tasks:
        assert task.labels == task_from_labels(plan.tasks[task.labels.task].labels)
    (container,) = engine.containers
    assert (container.labels["maintainer"], container.labels["distui.build"]) == ("ann", "0123")


async def test_what_cannot_be_removed_is_named(cluster: Cluster) -> None:
    """A container that stays after `rm` is told with its host."""
    plan, found = await detached(cluster)
    cluster.hosts[0].fails["rm"] = Completed((), 1, b"", b"device or resource busy")
    report = await stop_found(cluster.connector, found, plan, who="b", grace=5.0)
    (left,) = report.leftovers
    assert left.startswith("h1: docker ")
    assert "(run r1, task 0, exited)" in left


def test_a_plan_of_fakes_is_a_plan() -> None:
    """The helper above makes what the planner makes."""
    assert plan_for("h1").hosts == ("h1",)


def test_another_launch_of_a_name_is_not_the_one_that_is_meant() -> None:
    """What somebody else has under the name of a run that is gone is none of it; another attempt is."""
    task = FoundTask(
        "h1", "", TaskLabels("r1", 0, (0,), "h1", "j", "eve@x", launch="beef", attempt=2), {}, True, "running"
    )
    found = FoundRuns((FoundRun("r1", (task,)),), {})
    assert found.get("r1", "cafe-1") is None
    assert found.get("r1", "beef-1") is found.get("r1", "beef-2") is found.get("r1") is found.runs[0]
