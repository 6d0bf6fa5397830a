"""The Python API over real ssh: hosts made in this process, runs that end, fail, are stopped and left alone."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from distui.cli.demo.demo_job import demo_inventory
from distui.cli.demo.demo_ui import COUNTING
from distui.cluster.cluster import Cluster
from distui.cluster.runs.run import Run
from distui.cluster.settings import ClusterSettings
from distui.cluster.start.planning import Sources
from distui.cluster.start.request import RunRequest
from distui.errors import CheckFailed, PlanError, SpecError, UsageError
from distui.facts.host import HostFacts
from distui.remote.demo.demo import DemoHosts
from distui.runs.control.stopping import stop_found
from distui.runs.hosts.discover import find_runs
from distui.runs.hosts.reuse import reusing
from distui.runs.lines.events import LogLines, PhaseBegun, RunEnded, RunOpened
from distui.session import Connector
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Job

JOB = """\
version: 1
name: counting
hosts: [demo1, demo2]
ranks: {{per_host: 1}}
gpus_per_host: 0
fabric: {{kind: tcp}}
command: ["{python}", "{program}", {words}]
stop_grace: 2s
"""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two hosts made in this process."""
    settings = ClusterSettings({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    async with DemoHosts(2, root=tmp_path / "demo") as demo:

        def connected(hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
            return reusing(demo.connector())

        async with Cluster(demo_inventory(demo, docker=False), settings=settings, connect=connected) as opened:
            yield opened


def job(folder: Path, *words: str, more: str = "") -> Path:
    """A job file that counts, 0.01 s a step."""
    program = folder / "counting.py"
    program.write_text(COUNTING.replace("0.2", "0.01"))
    path = folder / "job.yaml"
    listed = ", ".join(f'"{word}"' for word in words)
    path.write_text(JOB.format(python=sys.executable, program=program, words=listed) + more)
    return path


async def test_from_probe_to_result(cluster: Cluster, tmp_path: Path) -> None:
    """As in the README: events come as they happen, the result is there at the end, the log in its file."""
    facts = await cluster.probe()
    assert [type(found) for found in facts.values()] == [HostFacts, HostFacts]
    planned = await cluster.plan(job(tmp_path, "5"), facts)
    assert planned.plan.world_size == 2
    seen = []
    async with asyncio.timeout(60), cluster.launch(planned) as run:
        assert run.result is None
        async for event in run.events():
            seen.append(event)
    assert isinstance(seen[0], RunOpened)
    assert isinstance(seen[-1], RunEnded)
    assert run.result is seen[-1]
    assert (run.result.outcome, run.result.exit, run.result.leftovers) == ("succeeded", 0, ())
    assert {rank for event in seen if isinstance(event, LogLines) for rank in (event.rank,)} >= {0, 1}
    assert run.log(1).read_text().splitlines()[-1].startswith("step 5/5 loss")
    assert run.name.startswith("counting-")


async def test_a_failure_names_its_rank(cluster: Cluster, tmp_path: Path) -> None:
    """The result has who failed first and why."""
    planned = await cluster.plan(job(tmp_path, "10", "--fail"), await cluster.probe(), name="fails")
    async with asyncio.timeout(60), cluster.launch(planned) as run:
        result = await run.wait()
    assert (result.outcome, result.exit) == ("failed", 1)
    assert result.failure is not None and (result.failure.rank, result.failure.host) == (1, "demo2")
    with pytest.raises(UsageError, match="fails"):
        async with cluster.launch(planned):
            pass


async def test_a_failed_check_raises_after_the_last_event(cluster: Cluster, tmp_path: Path) -> None:
    """What hosts have not is found inside the block: what is read then ends with why, and the name is free."""
    missing = "data: {it: {path: /nowhere/to/be/found, to: /nowhere/to/be/found}}\n"
    planned = await cluster.prepare(job(tmp_path, "5", more=missing), name="free")
    seen = []
    async with asyncio.timeout(60), cluster.launch(planned) as run:
        with pytest.raises(CheckFailed, match="/nowhere/to/be/found"):
            async for event in run.events():
                seen.append(event)
    assert seen[-1] is run.result
    assert run.result is not None and (run.result.outcome, run.result.exit) == ("launch_failed", 3)
    assert not (tmp_path / "state/distui/runs/free").exists()


async def test_a_plan_holds_no_event_loop(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's code may be a repository far away: the loop goes on while it is read."""
    turned = threading.Event()
    before = Sources.read

    def read(*args: Any, **options: Any) -> Sources:
        assert turned.wait(60), "the loop stands still"
        return before(*args, **options)

    monkeypatch.setattr(Sources, "read", read)
    facts = await cluster.probe()
    asyncio.get_running_loop().call_soon(turned.set)
    assert (await cluster.plan(job(tmp_path, "5"), facts)).plan.world_size == 2


async def test_a_stop(cluster: Cluster, tmp_path: Path) -> None:
    """Asked for while events are read; the run ends as stopped."""
    planned = await cluster.plan(
        job(tmp_path, "100000"), await cluster.probe(["demo1"]) | await cluster.probe(["demo2"])
    )
    async with asyncio.timeout(60), cluster.launch(planned, preflight=False) as run:
        async for event in run.events():
            if isinstance(event, PhaseBegun) and event.phase == "follow":
                run.stop(grace=0.5)
    assert run.result is not None and run.result.outcome == "stopped"


async def test_a_run_that_is_left_lives_on(cluster: Cluster, tmp_path: Path) -> None:
    """Leaving the block early is no stop; nothing of its output is needed to leave."""
    planned = await cluster.plan(job(tmp_path, "100000"), await cluster.probe(), name="lives")
    async with asyncio.timeout(60):
        async with cluster.launch(planned) as run:
            async for event in run.events():
                if isinstance(event, PhaseBegun) and event.phase == "follow":
                    break
        assert run.result is None
        connector = await cluster._connector()
        found = (await find_runs(connector, cluster.hosts, run="lives")).named("lives")
        assert [one.state for one in found] == ["running"]
        report = await stop_found(connector, found[0], planned.plan, who="test", grace=0.0)
        assert (report.errors, report.leftovers) == ({}, ())


async def begun(run: Run, phase: str) -> None:
    """Read it until this phase."""
    async for event in run.events():
        if isinstance(event, PhaseBegun) and event.phase == phase:
            return
    raise AssertionError(f"no {phase}")


@pytest.mark.parametrize("phase", ["", "connect"])
async def test_a_start_that_is_left_is_undone_and_its_name_is_free(
    cluster: Cluster, tmp_path: Path, phase: str
) -> None:
    """As soon as the block is left, by an error or not, nothing of it is on the hosts, and it can be tried again."""
    planned = await cluster.plan(job(tmp_path, "100000"), await cluster.probe(), name="again")
    folder = tmp_path / "state/distui/runs/again"
    for _ in range(2):
        async with asyncio.timeout(60):
            with pytest.raises(ZeroDivisionError):
                async with cluster.launch(planned) as run:
                    assert folder.exists()
                    if phase:
                        await begun(run, phase)
                    raise ZeroDivisionError
        assert run.result is not None
        assert (run.result.outcome, run.result.leftovers, run.result.log_dir) == ("stopped", (), "")
        assert await run.wait() is run.result
        assert not folder.exists()
        found = await find_runs(await cluster._connector(), cluster.hosts, run="again")
        assert [one.state for one in found.named("again")] == []


async def test_a_start_that_was_stopped_is_recorded(cluster: Cluster, tmp_path: Path) -> None:
    """As after Ctrl-C of `distui run`: only leaving frees the name."""
    planned = await cluster.plan(job(tmp_path, "100000"), await cluster.probe(), name="kept")
    async with asyncio.timeout(60), cluster.launch(planned) as run:
        run.stop()
        assert (await run.wait()).outcome == "stopped"
    assert (tmp_path / "state/distui/runs/kept").exists()


async def test_what_is_wrong_is_said_before_anything_is_contacted(tmp_path: Path) -> None:
    """A bad inventory, a bad job, a secret without a value, hosts that are none; all as errors of distui."""
    settings = ClusterSettings({"HOME": str(tmp_path)})
    bad = tmp_path / "hosts.yaml"
    bad.write_text("version: 1\nhots: {}\n")
    with pytest.raises(SpecError, match="hots"):
        Cluster.open(bad, settings=settings)
    cluster = Cluster.open(["h[1-2]"], settings=settings)
    assert [host.name for host in cluster.hosts] == ["h1", "h2"]
    good = job(tmp_path, "5", more="secrets: [TOKEN]\n")
    with pytest.raises(UsageError, match="TOKEN of job counting have no value"):
        await cluster.plan(good, {})
    with pytest.raises(UsageError, match="unknown host"):
        await cluster.plan(job(tmp_path, "5"), {}, hosts=["h3"])
    with pytest.raises(PlanError, match="h1") as unasked:
        await cluster.plan(job(tmp_path, "5"), {}, hosts=["h1"])
    assert [(p.code, p.host) for p in unasked.value.problems] == [("not_probed", "h1")]
    job(tmp_path, "5", more="code: {path: /}\n")
    with pytest.raises(UsageError):
        await cluster.plan(tmp_path / "job.yaml", {}, hosts=["h1"])


def test_read_only_settings_start_nothing(tmp_path: Path) -> None:
    """As --readonly."""
    cluster = Cluster.open(["h1"], settings=ClusterSettings({"HOME": str(tmp_path)}, readonly=True))
    with pytest.raises(UsageError, match="read-only"):
        cluster.launch(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked",
    [
        *({"parallel": 0}, {"parallel": None}, {"timeout": "soon"}, {"lost_after": -1}, {"lost_after": None}),
        {"connect_timeout": [1]},
    ],
)
def test_a_setting_that_is_none_is_said_when_it_is_given(tmp_path: Path, asked: dict[str, Any]) -> None:
    """Not as hosts that "did not answer in time", or as a TypeError in the middle of a run."""
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(UsageError, match=f"^{next(iter(asked))}: .* is not a (number|duration)"):
        ClusterSettings.load(environ, **asked)
    found = ClusterSettings.load(environ, timeout="2h", lost_after=5, parallel="3", allow_folders="/a, /b")
    assert (found.timeout, found.lost_after, found.parallel) == (7200.0, 5, 3)
    assert found.allow_folders == ("/a", "/b")


def test_read_only_by_a_program_is_not_called_a_default(tmp_path: Path) -> None:
    """Whoever looks for why it is refused finds it."""
    with pytest.raises(UsageError, match="read-only by the settings"):
        ClusterSettings.load({"HOME": str(tmp_path)}, readonly=True).refuse_readonly("a run")


async def test_hosts_may_be_one_text(tmp_path: Path) -> None:
    """As in a job file; it was taken for its letters: "2 unknown hosts: h,3"."""
    cluster = Cluster.open(["h[1-2]"], settings=ClusterSettings({"HOME": str(tmp_path)}))
    with pytest.raises(PlanError) as unasked:
        await cluster.plan(job(tmp_path, "5"), {}, hosts="h[1-2]")
    assert {p.host for p in unasked.value.problems} == {"h1", "h2"}


def test_no_value_of_a_secret_is_shown_with_a_plan(tmp_path: Path) -> None:
    """Not where a request, its settings or a plan are printed, as notebooks do with the last value of a cell."""
    settings = ClusterSettings({"HOME": str(tmp_path), "TOKEN": "s3cr3t"})
    request = RunRequest(Job("j", command=("true",)), Inventory(()), (), {"TOKEN": "s3cr3t"}, "j-1", "s3cr3t")
    assert "s3cr3t" not in repr(settings) + repr(request)
