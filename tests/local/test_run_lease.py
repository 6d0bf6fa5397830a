"""GPUs and ports as a lease, with this machine's own shell as the host, and launches that want the same ones."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.cli.console import Console
from distui.cli.runs import planview
from distui.errors import HostCommandError, PlanProblem, SessionLost
from distui.facts.host import Gpu, Gpus, HostFacts
from distui.plan.command.tf import own_ports
from distui.plan.labels import task_from_labels
from distui.plan.model import CodePlan, NoPlan, RunPlan
from distui.plan.serialize import from_json
from distui.runs.attempt.replan import AttemptPlanner, NextAttempt
from distui.runs.hosts.claims.folder import Claim, take
from distui.runs.hosts.claims.lease import (
    _LEASE,
    Conflict,
    Lease,
    Resource,
    free,
    lease,
    resource_text,
    resources_on,
    sharers,
)
from distui.runs.hosts.discover import FoundRuns, FoundTask, Runner, find_runs
from distui.runs.launch.gpu_users import gpu_users, launches, user_lines
from distui.runs.launch.port_users import with_holders
from distui.runs.launch.preflight import shared_row
from distui.runs.lines.events import PhaseBegun, RunEnded
from distui.runs.store.runs import StoredRun
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from fakehosts.interrupted import interrupt, moments
from fakehosts.runs import Cluster, facts_of, plan_for, until

GPU = Gpus((Gpu(0, "GPU-0", "H100"),))
ANN, BOB = Claim("ann@desk", 0.0), Claim("bob@desk", 60.0)


async def here(argv: Sequence[str]) -> Completed:
    """Run a command on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    return Completed(tuple(argv), process.returncode or 0, out, err)


def gpus(*indices: int) -> frozenset[Resource]:
    """GPUs as what is leased."""
    return frozenset(Resource("gpu", index) for index in indices)


def held(place: Path) -> list[str]:
    """The leases there are."""
    return sorted(path.name for path in place.iterdir())


async def test_all_or_none(tmp_path: Path) -> None:
    """One GPU that somebody has: none is taken, and it is said who has which; given back, all are free."""
    assert await lease(here, ANN, gpus(2, 1), place=str(tmp_path)) == Lease("leased")
    assert await lease(here, ANN, gpus(1, 2), place=str(tmp_path)) == Lease("leased"), "it may be asked twice"
    refused = await lease(here, BOB, gpus(0, 2), place=str(tmp_path))
    assert refused == Lease(
        "held", "GPU 2 is being taken by a launch of ann@desk since 1970-01-01 00:00:00 UTC", gpus(2)
    )
    assert held(tmp_path) == ["distui-gpu-1", "distui-gpu-2"]

    await free(here, BOB.token, place=str(tmp_path))
    assert held(tmp_path) == ["distui-gpu-1", "distui-gpu-2"], "only one's own"
    await free(here, ANN.token, place=str(tmp_path))
    assert held(tmp_path) == []


async def test_all_launches_ask_in_the_same_order() -> None:
    """Whatever order a plan has them in: two that want the same ones could else each get half, and both be refused."""
    asked: list[tuple[str, ...]] = []

    async def run_argv(argv: Sequence[str]) -> Completed:
        asked.append(tuple(argv))
        return Completed(tuple(argv), 0, b"leased\n", b"")

    wanted = [Resource("port", 29500), Resource("gpu", 10), Resource("gpu", 2)]
    for order in (wanted, wanted[::-1]):
        assert (await lease(run_argv, ANN, order)).state == "leased"
    assert [argv[-3:] for argv in asked] == [("gpu-2", "gpu-10", "port-29500")] * 2


async def test_one_of_many_gets_it(tmp_path: Path) -> None:
    """Ten launches at one moment for overlapping GPUs: never two with the same one."""
    claims = [Claim(f"u{n}@desk", 0.0) for n in range(10)]
    wanted = [gpus(n % 3, n % 3 + 1) for n in range(10)]
    user_lines = await asyncio.gather(
        *(lease(here, claim, resources, place=str(tmp_path)) for claim, resources in zip(claims, wanted, strict=True))
    )
    got = [
        resource
        for took, resources in zip(user_lines, wanted, strict=True)
        for resource in resources
        if took.state == "leased"
    ]
    assert got
    assert len(got) == len(set(got))


async def test_who_has_just_taken_it_is_waited_for_to_say_who_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is made first and says whose it is a moment later; likewise the folder of a run."""
    folder, said = tmp_path / "r", tmp_path / "said"
    sleep = tmp_path / "bin/sleep"
    sleep.parent.mkdir()
    sleep.write_text(f'#!/bin/sh\n: >"{tmp_path}/waits-$PPID"\nwhile [ ! -e "{said}" ]; do /bin/sleep 0.01; done\n')
    sleep.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sleep.parent}:{os.environ['PATH']}")
    for one in (tmp_path / "distui-gpu-0", folder):
        one.mkdir()
    asked = asyncio.gather(
        lease(here, BOB, gpus(0), place=str(tmp_path)), take(here, "h1", str(folder), BOB), return_exceptions=True
    )
    while sum(name.startswith("waits-") for name in held(tmp_path)) < 2:
        assert not asked.done(), "one of them did not wait"
        await asyncio.sleep(0.01)
    for one in (tmp_path / "distui-gpu-0", folder):
        (one / "launch").write_text(ANN.text + "\n")
    said.touch()
    refused, held_by = await asked
    assert "of ann@desk since 1970" in refused.why, refused
    assert (held_by.state, held_by.who) == ("held", "of ann@desk since 1970-01-01 00:00:00 UTC"), held_by


@pytest.mark.parametrize(("minutes", "state"), [(9, "held"), (12, "leased"), (-60 * 24 * 365 * 70, "leased")])
async def test_a_stale_lease_does_not_hold(tmp_path: Path, minutes: int, state: str) -> None:
    """A launch that was killed holds its GPUs for ten minutes; nothing of it stays then.

    What is dated in the future would never get old, and counts for nothing.
    """
    await lease(here, ANN, gpus(0), place=str(tmp_path))
    then = time.time() - 60 * minutes
    os.utime(tmp_path / "distui-gpu-0", (then, then))

    assert (await lease(here, BOB, gpus(0), place=str(tmp_path))).state == state
    assert held(tmp_path) == ["distui-gpu-0"]


@pytest.mark.parametrize("minutes", [9, 12])
async def test_what_killed_launches_left_goes_with_the_next(tmp_path: Path, minutes: int) -> None:
    """A port that was chosen by chance is asked for by nobody again: its directory stayed for ever."""
    await lease(here, ANN, {Resource("port", 20001), Resource("gpu", 3)}, place=str(tmp_path))
    then = time.time() - 60 * minutes
    for name in held(tmp_path):
        os.utime(tmp_path / name, (then, then))
    await lease(here, BOB, {Resource("port", 20002)}, place=str(tmp_path))
    await free(here, BOB.token, place=str(tmp_path))
    assert held(tmp_path) == ([] if minutes > 10 else ["distui-gpu-3", "distui-port-20001"])


async def test_a_lease_that_is_asked_for_again_meanwhile_stays(tmp_path: Path) -> None:
    """By a launch that took long, as another of its login gives back its own."""
    place, tools = tmp_path / "tmp", tmp_path / "bin"
    place.mkdir()
    tools.mkdir()
    (tools / "mv").write_text('#!/bin/sh\ntouch -- "$2"\nexec /bin/mv "$@"\n')
    (tools / "mv").chmod(0o755)
    await lease(here, ANN, gpus(3), place=str(place))
    then = time.time() - 60 * 12
    os.utime(place / "distui-gpu-3", (then, then))

    async def run(argv: Sequence[str]) -> Completed:
        return await here(("env", f"PATH={tools}:{os.environ['PATH']}", *argv))

    await free(run, BOB.token, place=str(place))
    assert held(place) == ["distui-gpu-3"]
    assert (await lease(here, BOB, gpus(3), place=str(place))).state == "held"


def stubborn(place: Path) -> Runner:
    """Runs commands on this machine, where `mv` moves nothing: as in a sticky /tmp what another login made."""
    place.mkdir()
    (place / "mv").write_text("#!/bin/sh\nexit 1\n")
    (place / "mv").chmod(0o755)

    async def run(argv: Sequence[str]) -> Completed:
        return await here(("env", f"PATH={place}:{os.environ['PATH']}", *argv))

    return run


async def test_a_stale_lease_of_another_login_is_passed_over(tmp_path: Path) -> None:
    """Who left it and what to remove is said, the rest is leased; one that is not stale holds as any other."""
    place, run, port = tmp_path / "tmp", stubborn(tmp_path / "bin"), Resource("port", 29500)
    place.mkdir()
    await lease(here, ANN, {port}, place=str(place))
    assert (await lease(run, BOB, gpus(0) | {port}, place=str(place))).state == "held"
    then = time.time() - 60 * 12
    os.utime(place / "distui-port-29500", (then, then))
    user_lines = await lease(run, BOB, gpus(0) | {port}, place=str(place))

    who = "a launch of ann@desk since 1970-01-01 00:00:00 UTC"
    why = f"{place}/distui-port-29500 was left by {who}: have it removed by its owner or root"
    assert user_lines == Lease("failed", why, frozenset({port}))
    assert held(place) == ["distui-gpu-0", "distui-port-29500"]
    await free(run, BOB.token, place=str(place))
    assert held(place) == ["distui-port-29500"]


async def at_once(argv: Sequence[str]) -> Completed:
    """Run a command on this machine that must not wait for anything."""
    done = await here(("timeout", "10", *argv))
    assert done.status != 124, "it waits for ever"
    return done


async def test_what_strangers_put_there(tmp_path: Path) -> None:
    """A pipe, a device, a link and a flood in place of a claim: nobody waits for them, and they say nothing."""
    for number in range(4):
        (tmp_path / f"distui-gpu-{number}").mkdir()
    os.mkfifo(tmp_path / "distui-gpu-0" / "launch")
    (tmp_path / "distui-gpu-1" / "launch").symlink_to("/dev/zero")
    (tmp_path / "text").write_text(ANN.text)
    (tmp_path / "distui-gpu-2" / "launch").symlink_to(tmp_path / "text")
    (tmp_path / "distui-gpu-3" / "launch").write_text("x" * 10_000 + f"\n\n{ANN.token}\n")

    for number in range(4):
        user_lines = await lease(at_once, BOB, gpus(number), place=str(tmp_path))
        assert (user_lines.state, user_lines.why) == (
            "held",
            f"GPU {number} is being taken by a launch of an unknown user",
        )
    found = await launches(at_once, range(4), place=str(tmp_path))
    assert found == tuple(f"GPU {number} is being taken by a launch of an unknown user" for number in range(4))
    await free(at_once, ANN.token, place=str(tmp_path))
    assert len(held(tmp_path)) == 5, "none is ours"


async def test_where_nothing_can_be_made(tmp_path: Path) -> None:
    """A full or read-only /tmp: said in the host's words."""
    (tmp_path / "file").write_text("")
    user_lines = await lease(here, ANN, gpus(0), place=str(tmp_path / "file"))
    assert user_lines.state == "failed"
    assert "Not a directory" in user_lines.why


async def test_gpus_and_ports_are_leased_alike(tmp_path: Path) -> None:
    """All or none of both kinds; a port that is held is named as a port."""
    port = Resource("port", 29500)
    assert (await lease(here, ANN, gpus(0) | {port}, place=str(tmp_path))).state == "leased"
    assert held(tmp_path) == ["distui-gpu-0", "distui-port-29500"]
    user_lines = await lease(here, BOB, {Resource("gpu", 1), port}, place=str(tmp_path))
    assert (user_lines.state, user_lines.resources) == ("held", {port})
    assert user_lines.why == "port 29500 is being taken by a launch of ann@desk since 1970-01-01 00:00:00 UTC"

    await free(here, ANN.token, place=str(tmp_path))
    assert held(tmp_path) == []


def test_things_in_words() -> None:
    """In one order, each kind once."""
    assert resource_text([Resource("port", 7), Resource("gpu", 2), Resource("gpu", 0)]) == "GPUs 0, 2 and port 7"
    assert resource_text(gpus(3)) == "GPU 3"


def test_who_has_it() -> None:
    """Live tasks of other launches, a run at a time; one of the same name by another login is another launch."""
    plan = plan_for("h1", run_id="r", facts={"h1": facts_of("h1", gpu=GPU)}, gpus_per_host=1, master_port=29500)
    port = Resource("port", 29500)
    ours = task_from_labels(plan.tasks[0].labels)
    assert ours is not None
    assert resources_on(plan, "h1") == gpus(0) | {port}
    others = [
        replace(ours, run="x", owner="bob@desk", ports=()),
        replace(ours, run="x", owner="bob@desk", gpus=(1,)),
        replace(ours, launch="bb", owner="eve@desk", gpus=(), started="now"),
        replace(ours, run="y", gpus=(1,), ports=(29501,)),
        replace(ours, attempt=2),
    ]
    tasks = [FoundTask("h1", "", labels, {}, running=True, status="running") for labels in others]
    tasks.append(replace(tasks[0], labels=replace(ours, run="z"), running=False))

    assert sharers(tasks, plan, resources_on(plan, "h1")) == (
        Conflict("GPU 0 and port 29500 are used by run x of bob@desk (job j)", gpus(0) | {port}, marked=True),
        Conflict("port 29500 is used by run r of eve@desk (job j since now)", frozenset({port}), marked=True),
    )
    assert sharers(tasks, plan, gpus(2)) == ()


@pytest.mark.parametrize(("run", "launch"), [("a", "aa"), ("z", "zz"), ("r", "00"), ("r", "zz")])
def test_another_launch_is_any_other(run: str, launch: str) -> None:
    """However its run or its token is called."""
    plan = plan_for("h1", run_id="r", facts={"h1": facts_of("h1", gpu=GPU)}, gpus_per_host=1)
    ours = task_from_labels(plan.tasks[0].labels)
    assert ours is not None
    task = FoundTask("h1", "", replace(ours, run=run, launch=launch), {}, running=True, status="running")
    assert [conflict.resources for conflict in sharers([task], plan, gpus(0))] == [gpus(0)]


# launches


def plan_of(cluster: Cluster, run_id: str) -> Any:
    """A run that uses the GPU of each host."""
    facts = {name: facts_of(name, 11 + i, gpu=GPU) for i, name in enumerate(cluster.names)}
    return cluster.plan(run_id=run_id, facts=facts, gpus_per_host=1)


def end_all(cluster: Cluster) -> None:
    """The programs end with 0 at once."""
    for number, host in enumerate(cluster.hosts):
        host.engine.exits[number] = 0


async def test_a_gpu_that_a_run_uses_is_refused(cluster: Cluster) -> None:
    """Exit 3: which GPU, which run, whose; that run is left alone, and with `force` both have it, and it is said."""
    other, host = plan_of(cluster, "other"), cluster.hosts[1]
    host.files[other.tasks[1].env_file] = b""
    assert host.engine.run(other.tasks[1].start).ok
    host.files.clear()
    ended = await cluster.run(plan_of(cluster, "mine"))

    assert (ended.outcome, ended.exit, ended.leftovers) == ("launch_failed", 3, ())
    assert "h2: GPU 0 is used by run other of ann@desk (job j" in cluster.said()
    assert "--force" in cluster.said()
    assert [c.status for c in host.containers] == ["running"]
    assert not cluster.hosts[0].leases

    cluster.events.clear()
    end_all(cluster)
    ended = await cluster.run(plan_of(cluster, "mine"), force=True)
    assert ended.exit == 0
    assert "GPU 0 is used by run other of ann@desk" in cluster.said()


async def test_a_gpu_that_a_launch_takes_just_now_is_refused(cluster: Cluster) -> None:
    """Two launches at one moment: the second is told whose the first is; both leave no lease."""
    rival = rival_of(cluster)
    end_all(cluster)
    reached = cluster.hosts[0].hold("put")

    async def second() -> None:
        await reached.wait()
        try:
            late = await rival.run(plan_of(cluster, "late"))
        finally:
            cluster.hosts[0].gates["put"].set()
        assert late.exit == 3
        assert "h1: GPU 0 is being taken by a launch of ann@desk since" in rival.said()

    assert (await cluster.run(plan_of(cluster, "first"), second())).exit == 0
    assert cluster.left() == []
    assert [h.leases for h in cluster.hosts] == [{}, {}]


def rival_of(cluster: Cluster) -> Cluster:
    """Somebody else who launches on the same hosts."""
    rival = Cluster(cluster.store.root / "rival", 2)
    rival.hosts, rival.connector = cluster.hosts, cluster.connector
    return rival


def planning(plan: RunPlan) -> AttemptPlanner:
    """Plans the same whatever is asked."""

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        return NextAttempt(plan, {})

    return again


async def both(cluster: Cluster, first: RunPlan, rival: Cluster, second: RunPlan, **options: Any) -> list[RunEnded]:
    """Two launches; the second comes while the first holds what it wants."""
    end_all(cluster)
    reached = cluster.hosts[0].hold("put")
    late: list[RunEnded] = []

    async def next_one() -> None:
        await reached.wait()
        reached.clear()
        launch, started = asyncio.create_task(rival.run(second, **options)), asyncio.create_task(reached.wait())
        await asyncio.wait({launch, started}, return_when=asyncio.FIRST_COMPLETED)  # refused, or as far as the first
        cluster.hosts[0].gates["put"].set()
        late.append(await launch)
        started.cancel()

    early = await cluster.run(first, next_one())
    assert cluster.left() == []
    assert [(h.leases, h.marks) for h in cluster.hosts] == [({}, {}), ({}, {})]
    return [early, *late]


async def test_a_port_that_the_job_names_is_refused(cluster: Cluster) -> None:
    """Exit 3 with who takes it, where, and what to do; not even --force shares it."""
    rival = rival_of(cluster)
    plans = [cluster.plan(run_id=name, master_port=7777) for name in ("a", "b")]
    ended = await both(cluster, plans[0], rival, plans[1], force=True, planner=planning(plans[1]))

    assert [e.exit for e in ended] == [0, 3]
    assert "h1: port 7777 is being taken by a launch of ann@desk since" in rival.said()
    assert "two programs can't share one, --force or not" in rival.said()


async def test_a_port_that_the_plan_chose_is_changed(cluster: Cluster) -> None:
    """Both run; the second on another port, which its record names, and it says so."""
    rival = rival_of(cluster)
    first, second = (cluster.plan(run_id=name) for name in ("a", "b"))
    second = cluster.plan(run_id="b", facts=_without_ports(cluster, first, second))
    assert second.master_port == first.master_port

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        assert (attempt, spent) == (1, 0.0)
        return NextAttempt(cluster.plan(run_id="b", taken=taken), {})

    ended = await both(cluster, first, rival, second, planner=again)
    recorded = from_json(rival.store.adopt("b").read_plan() or {})

    assert [e.exit for e in ended] == [0, 0]
    assert f"port {first.master_port} is being taken by a launch of ann@desk" in rival.said()
    assert "the plan takes another" in rival.said()
    assert recorded.master_port not in (0, first.master_port)


async def test_a_plan_with_another_port_that_can_not_be_recorded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk here refuses the launch, which leaves nothing, as `both` proves."""
    rival = rival_of(cluster)
    first, second = (cluster.plan(run_id=name) for name in ("a", "b"))
    second = cluster.plan(run_id="b", facts=_without_ports(cluster, first, second))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        monkeypatch.setattr(StoredRun, "write_plan", full)
        return NextAttempt(cluster.plan(run_id="b", taken=taken), {})

    ended = await both(cluster, first, rival, second, planner=again)
    assert [(e.outcome, e.exit) for e in ended] == [("succeeded", 0), ("launch_failed", 3)]
    assert "No space left on device" in rival.said()


def _without_ports(cluster: Cluster, wanted: RunPlan, other: RunPlan) -> dict[str, HostFacts]:
    """Facts on which `other` is planned with the port of `wanted`: all ports between are in use."""
    low, high = other.master_port, wanted.master_port
    between = range(low, high) if low < high else (*range(low, 30000), *range(20000, high))
    return {name: facts_of(name, 11 + i, ports_in_use=frozenset(between)) for i, name in enumerate(cluster.names)}


async def test_a_port_that_is_listened_on_is_its_run_s(cluster: Cluster) -> None:
    """The plan knows that it is taken; who has it is found on its host, and nothing is said of a stranger's."""
    other, host = cluster.plan(run_id="other", master_port=7777), cluster.hosts[0]
    reasons = (
        PlanProblem("port_taken", "h1", "port 7777 is taken", "name another", 7777),
        PlanProblem("home", "h2", "no home"),
    )
    asked = [Host("h1"), Host("h2")]
    assert await with_holders(cluster.connector, NoPlan(reasons), asked) == NoPlan(reasons)

    host.files[other.tasks[0].env_file] = b""
    assert host.engine.run(other.tasks[0].start).ok
    first, second = (await with_holders(cluster.connector, NoPlan(reasons), asked)).problems
    assert (first.host, first.hint, second) == ("h1", "name another", reasons[1])
    assert first.message == "port 7777 is used by run other of ann@desk (job j)"
    cluster.connector.down["h1"] = SessionLost("h1", "h1: no answer")
    assert await with_holders(cluster.connector, NoPlan(reasons), asked) == NoPlan(reasons)


async def test_it_is_given_up_after_some_plans(cluster: Cluster) -> None:
    """A plan that always comes with a port of others, or none that can be made: refused, and nothing is left."""
    rival, first = rival_of(cluster), cluster.plan(run_id="a")
    second = cluster.plan(run_id="b", facts=_without_ports(cluster, first, cluster.plan(run_id="b")))
    asked: list[Any] = []

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        asked.append(taken)
        return NextAttempt(second, {})

    ended = await both(cluster, first, rival, second, planner=again)
    assert [e.exit for e in ended] == [0, 3]
    assert "start it again" in rival.said()
    assert asked == [{"h1": {first.master_port}}] * 4


async def test_a_job_s_port_is_not_one_that_the_plan_chose_on_another_host(cluster: Cluster) -> None:
    """Equal numbers on two hosts: the job's is refused at once, since no other plan would help."""
    rival, first = rival_of(cluster), cluster.plan(run_id="a", master_port=7777)
    reason = "port 7777: free on h2, outside its ephemeral range 32768-60999"
    second = replace(cluster.plan(run_id="b", master_port=7777), reasons=(reason,))
    ended = await both(cluster, first, rival, second, planner=planning(second))

    assert own_ports(second.reasons) == (("h2", 7777),)
    assert [e.exit for e in ended] == [0, 3]
    assert "two programs can't share one" in rival.said()
    assert "the plan takes another" not in rival.said()


async def test_marks_that_can_not_be_read_are_a_warning(cluster: Cluster) -> None:
    """Anybody may leave so many that reading them takes too long: no launch is refused for it."""
    cluster.hosts[0].fails["marks"] = HostCommandError("h1", "h1: no end within 15 s", code="command_timeout")
    end_all(cluster)
    ended = await cluster.run(plan_of(cluster, "mine"))

    assert ended.exit == 0
    assert "can't read what all tasks have (h1: no end within 15 s)" in cluster.said()


async def test_a_live_run_holds_its_port_before_it_listens(cluster: Cluster) -> None:
    """By its label where the engine tells it, by its mark where only others see it; a private network holds none."""
    other = cluster.plan(run_id="other", master_port=7777)
    host = cluster.hosts[0]
    for seen in ("label", "mark"):
        if seen == "label":
            host.files[other.tasks[0].env_file] = b""
            assert host.engine.run(other.tasks[0].start).ok
            host.files.clear()
        else:
            host.engine.containers.clear()
            host.marks["/tmp/distui-task-x.0"] = json.dumps(dict(other.tasks[0].labels))
        ended = await cluster.run(cluster.plan(run_id="mine", master_port=7777))
        assert ended.exit == 3, seen
        assert "h1: port 7777 is used by run other of ann@desk (job j" in cluster.said()
        assert "reach" not in host.verbs(), "the other run's program could not listen meanwhile"
        cluster.events.clear()
    end_all(cluster)
    assert (await cluster.run(cluster.plan(run_id="mine", master_port=7777, network="bridge"))).exit == 0


async def test_a_launch_that_took_another_port_has_not_ended(cluster: Cluster) -> None:
    """Its first plan was refused when the run's folder was there: whoever attaches follows it to its own end."""
    other = cluster.plan(run_id="other")
    mine = cluster.plan(run_id="mine", launch="beef", facts=_without_ports(cluster, other, cluster.plan(run_id="mine")))
    assert mine.master_port == other.master_port
    host = cluster.hosts[0]
    host.files[other.tasks[0].env_file] = b""
    assert host.engine.run(other.tasks[0].start).ok
    host.files.clear()

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        return NextAttempt(cluster.plan(run_id="mine", launch="beef", taken=taken), {})

    first = cluster.controller(mine, planner=again, detach=True)
    assert (await cluster.drive(first)).outcome == "detached" and "the plan takes another" in cluster.said()

    async def end() -> None:
        await until(lambda: cluster.of(PhaseBegun) and cluster.of(PhaseBegun)[-1].phase == "follow")
        for container in (c for h in cluster.hosts for c in h.containers if c.name != "distui-other-0"):
            container.end(3)

    cluster.events.clear()
    ended = await cluster.run(first.plan, end(), facts=first.attempt.facts, adopted=True)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert [c.name for c in host.containers] == ["distui-other-0"]


async def test_a_port_that_somebody_listens_on_by_now(cluster: Cluster) -> None:
    """Found by the proof that hosts reach each other: one that the plan chose is changed, one of the job is refused,
    with the run that has it where there is one.
    """
    host, asked = cluster.hosts[0], list[Any]()
    host.cannot_listen = "Address already in use"
    end_all(cluster)

    async def again(attempt: int, spent: float, taken: Any = None) -> NextAttempt:
        asked.append(taken)
        host.cannot_listen = ""
        return NextAttempt(cluster.plan(taken=taken), {})

    first = cluster.plan()
    assert (await cluster.run(first, planner=again)).exit == 0
    assert asked == [{"h1": {first.master_port}}]
    cluster.events.clear()

    host.cannot_listen = "Address already in use"
    assert (await cluster.run(cluster.plan(run_id="b", master_port=7777), planner=again)).exit == 3
    assert "h1: can't listen on 10.0.0.11:7777: Address already in use" in cluster.said()
    labels = dict(cluster.plan(run_id="other", master_port=7777).tasks[0].labels)
    host.marks["/tmp/distui-task-x.0"] = json.dumps(labels)
    assert (await cluster.run(cluster.plan(run_id="c", master_port=7777), planner=again)).exit == 3
    assert "h1: port 7777 is used by run other of ann@desk" in cluster.said()
    assert len(asked) == 1


async def test_a_mark_is_there_while_a_task_lives(cluster: Cluster) -> None:
    """From its start to the end of the clean-up, on the hosts where it has something; leases only before."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    ended = await cluster.run(plan_of(cluster, "mine"), detach=True)
    marks = [[json.loads(text) for text in host.marks.values()] for host in cluster.hosts]

    assert ended.outcome == "detached"
    assert [[mark["distui.gpus"] for mark in task_labels] for task_labels in marks] == [["0"], ["0"]]
    assert ["distui.ports" in mark for task_labels in marks for mark in task_labels] == [True, False]
    assert not [key for task_labels in marks for mark in task_labels for key in mark if key.endswith("progress")]
    assert [h.leases for h in cluster.hosts] == [{}, {}]


async def test_the_preflight_says_it_before(cluster: Cluster) -> None:
    """The row that the app shows: which host, whose run."""
    other, host = plan_of(cluster, "other"), cluster.hosts[1]
    host.files[other.tasks[1].env_file] = b""
    assert host.engine.run(other.tasks[1].start).ok
    found = await find_runs(cluster.connector, [Host("h1"), Host("h2")])
    row = shared_row(plan_of(cluster, "mine"), ("h1", "h2"), found)

    assert [f.verdict for f in row.findings] == ["ok", "fail"]
    assert "GPU 0 is used by run other of ann@desk" in row.findings[1].saw


@pytest.mark.parametrize(("free_on", "verdict"), [("h1", "ok"), ("h2", "fail")])
def test_a_port_that_the_start_can_change_is_no_reason_before_it(cluster: Cluster, free_on: str, verdict: str) -> None:
    """One that the plan chose on this host; on another host the same number may be the job's own."""
    reason = f"port 7777: free on {free_on}, outside its ephemeral range 32768-60999"
    mine = replace(cluster.plan(run_id="mine", master_port=7777), reasons=(reason,))
    labels = task_from_labels(mine.tasks[0].labels)
    assert labels is not None
    other = FoundTask("h1", "", replace(labels, run="other", launch="zz"), {}, running=True, status="running")
    row = shared_row(mine, ("h1", "h2"), FoundRuns((), {}), [other])
    assert [finding.verdict for finding in row.findings] == [verdict, "ok"]


async def test_who_has_the_gpus_before_the_start(cluster: Cluster) -> None:
    """Runs that live and launches under way, equal ones of several hosts once; a host that is gone tells nobody."""
    other, mine, hosts = plan_of(cluster, "other"), plan_of(cluster, "mine"), [Host("h1"), Host("h2")]
    assert await gpu_users(cluster.connector, mine, hosts) == ()
    for task, host in zip(other.tasks, cluster.hosts, strict=True):
        host.files[task.env_file] = b""
        assert host.engine.run(task.start).ok
    cluster.hosts[1].leases["gpu-0"] = BOB.text

    words = user_lines(await gpu_users(cluster.connector, mine, hosts))
    assert [text.partition(" (")[0] for text in words] == [
        "h[1-2]: GPU 0 is used by run other of ann@desk",
        "h2: GPU 0 is being taken by a launch of bob@desk since 1970-01-01 00:01:00 UTC",
    ]
    cluster.connector.down["h1"] = SessionLost("h1", "h1: no answer")
    assert {user.host for user in await gpu_users(cluster.connector, mine, hosts)} == {"h2"}
    assert await gpu_users(cluster.connector, other, hosts[:1]) == (), "its own tasks are nobody else's"


@pytest.mark.parametrize(
    ("force", "yes", "asked", "answer"),
    [
        (False, True, "Start mine: 2 ranks on 2 hosts, and share these GPUs?", "share"),
        (False, False, "Start mine: 2 ranks on 2 hosts, and share these GPUs?", "no"),
        (True, True, "Start mine: 2 ranks on 2 hosts?", "share"),
    ],
)
async def test_a_terminal_is_asked_about_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, force: bool, yes: bool, asked: str, answer: str
) -> None:
    """What the plan warns of and who has the GPUs stand right above the question; --force asks only for the start."""
    asks: list[str] = []

    async def confirm(console: Any, settings: Any, question: str, **_: Any) -> bool:
        asks.append(question)
        return yes

    monkeypatch.setattr(planview, "confirm_async", confirm)
    monkeypatch.setattr("sys.stdin", Tty())
    monkeypatch.setattr(planview, "tell_images", no_images)
    plan = replace(plan_of(cluster, "mine"), warnings=("h1: GPU 0 is busy: python (pid 17, bob) holds 9 MiB",))
    cluster.hosts[1].leases["gpu-0"] = ANN.text
    err = Tty()
    settings: Any = {"yes": False, "no_input": False}
    out = Console(io.StringIO(), err, False, False, 100)
    found = await planview.confirm_plan(cluster.connector, out, settings, plan, [Host("h1"), Host("h2")], force=force)

    assert (asks, found) == ([asked], answer)
    last = err.getvalue().splitlines()[-2:]
    assert ("h2: GPU 0 is being taken by a launch of ann@desk" in last[-1]) == (not force)
    assert "distui: warning: h1: GPU 0 is busy: python (pid 17, bob)" in "".join(last)


@pytest.mark.parametrize("rows", [24, 500])
async def test_what_is_asked_about_stands_above_the_question(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """A plan that is longer than the terminal has scrolled its own head away."""

    async def confirm(*_: Any, **__: Any) -> bool:
        return True

    monkeypatch.setattr(planview, "confirm_async", confirm)
    monkeypatch.setattr("sys.stdin", Tty())
    monkeypatch.setattr(planview, "tell_images", no_images)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((100, rows)))
    err: Any = Tty()
    err.fileno = lambda: 2
    settings: Any = {"yes": False, "no_input": False}
    out = Console(io.StringIO(), err, False, False, 100)
    plan = plan_of(cluster, "mine")
    assert await planview.confirm_plan(cluster.connector, out, settings, plan, [], force=True) == "share"
    head, *_ = err.getvalue().splitlines()
    assert head.startswith("Plan mine, job ")
    last = err.getvalue().splitlines()[-4:]
    assert (head in last) == ("hosts h[1-2]" in last) == (rows == 24)


@pytest.mark.parametrize("count", [1, 3, 5])
async def test_what_is_left_out_of_the_code_is_said_where_a_script_starts_a_run(cluster: Cluster, count: int) -> None:
    """A program that misses a linked file is not looked for in vain; of many there are a few lines."""
    left_out = tuple(f"left out, since it leads out of the folder: link {n} -> /data" for n in range(count))
    code = CodePlan("./", "0" * 64, 1, 1, "/work", "ro", left_out=left_out)
    err = io.StringIO()
    settings: Any = {"yes": True, "no_input": True}
    plan = replace(plan_of(cluster, "mine"), code=code)
    out = Console(io.StringIO(), err, False, False, None)
    assert await planview.confirm_plan(cluster.connector, out, settings, plan, [Host("h1")], force=False) == "yes"
    lines = [f"distui: warning: code: {text}" for text in left_out[:3]]
    more = ["distui: warning: code: 2 more are left out: `distui plan` has them all"] if count == 5 else []
    assert err.getvalue().splitlines() == lines + more


class Tty(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


async def no_images(*_: Any) -> None:
    """Nothing is said of images."""


async def test_launches_under_way_are_seen_without_touching_them(tmp_path: Path) -> None:
    """By the directories of their leases: whose and since when, also when the file in it is not whole."""
    await lease(here, ANN, gpus(1, 2), place=str(tmp_path))
    (tmp_path / "distui-gpu-3").mkdir()
    (tmp_path / "distui-gpu-4").mkdir()
    then = time.time() - 60 * 12
    os.utime(tmp_path / "distui-gpu-4", (then, then))

    assert await launches(here, (0, 2, 3, 4), place=str(tmp_path)) == (
        "GPU 2 is being taken by a launch of ann@desk since 1970-01-01 00:00:00 UTC",
        "GPU 3 is being taken by a launch of an unknown user",
    ), "a stale one holds nothing"
    assert len(held(tmp_path)) == 4


@pytest.mark.parametrize("stale", [False, True])
def test_a_launch_that_is_given_up_leaves_nothing_that_is_nobodys(tmp_path: Path, stale: bool) -> None:
    """Signals at any moment: each directory says whose it is, so that it can be freed, and none lies there aside."""
    names = [f"gpu-{number}" for number in range(3)]
    argv = ("sh", "-c", _LEASE, "distui-lease", str(tmp_path), ANN.text, "10", "", *names)
    for waits in moments(60, 0.02):
        for name in names if stale else ():
            folder = tmp_path / f"distui-{name}"
            folder.mkdir()
            (folder / "launch").write_text(f"{BOB.text}\n")
            os.utime(folder, (1, 1))
        interrupt(argv, waits)
        assert {folder.name for folder in tmp_path.iterdir()} <= {f"distui-{name}" for name in names}
        for folder in tmp_path.iterdir():
            assert (folder / "launch").read_text() in (f"{ANN.text}\n", f"{BOB.text}\n")
            shutil.rmtree(folder)
