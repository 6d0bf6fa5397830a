"""Runs that are there already, from Python, over real ssh: listed, followed, read and stopped from elsewhere."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from distui.cli.demo.demo_job import demo_inventory
from distui.cli.demo.demo_ui import COUNTING
from distui.cluster.cluster import Cluster
from distui.cluster.runs.run import Run
from distui.cluster.runs.unasked import Unasked
from distui.cluster.secret_warning import SecretWarning
from distui.cluster.settings import ClusterSettings
from distui.errors import NotFound, UsageError
from distui.remote.demo.demo import DemoHosts
from distui.runs.hosts.reuse import reusing
from distui.runs.lines.events import LogLines, RunEnded
from distui.runs.store.runs import StoredRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host

Open = Callable[..., Cluster]
LIMIT_S = 120


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens two hosts from a machine of that name, with records of its own."""
    async with DemoHosts(2, root=tmp_path / "demo") as demo:

        def connected(hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
            return reusing(demo.connector())

        def opened(name: str, *, readonly: bool = False, **more: str) -> Cluster:
            environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / name), **more}
            settings = ClusterSettings(environ, readonly=readonly)
            return Cluster(demo_inventory(demo, docker=False), settings=settings, connect=connected)

        yield opened


async def started(cluster: Cluster, folder: Path, steps: int, name: str) -> None:
    """Start a run that counts, and leave it alone."""
    program = folder / "counting.py"
    program.write_text(COUNTING.replace("0.2", "0.01"))
    job = {
        "name": "counting",
        "hosts": ["demo1", "demo2"],
        "command": [sys.executable, program, str(steps)],
        "stop_grace": "2s",
    }
    async with cluster.launch(await cluster.prepare(job, name=name), detach=True) as run:
        assert (await run.wait()).outcome == "detached"


async def test_a_run_of_another_machine_is_read_and_stopped(machine: Open, tmp_path: Path) -> None:
    """Also once more, when it is gone."""
    async with asyncio.timeout(LIMIT_S), machine("there") as there, machine("here") as here:
        await started(there, tmp_path, 100_000, "lives")
        async for lines in here.logs("lives", ranks=[1], follow=True):
            assert lines.rank == 1 and lines.host == "demo2"
            break
        with pytest.raises(UsageError, match="there is no rank 7: the run has ranks 0 to 1"):
            await anext(here.logs("lives", ranks=[7]))
        for grace in ("10s", -1, float("nan"), float("inf")):
            with pytest.raises(UsageError, match="grace is"):
                await here.stop("lives", grace=grace)  # type: ignore[arg-type]
        for ranks in ("0,1", 0, ["0"]):
            with pytest.raises(UsageError, match="are no ranks"):
                here.logs("nowhere", ranks=ranks)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="tail is -1"):
            here.logs("lives", tail=-1)
        assert await here.stop("lives", grace=0) == ()
        (last,) = [lines async for lines in here.logs("lives", ranks=[1], tail=1)]
        assert (last.rank, last.lines[0].text[:5]) == (1, "step ")
        assert await here.stop("lives") == ()
        with pytest.raises(NotFound):
            await there.stop("nosuch")
        with pytest.raises(NotFound):
            await anext(there.logs("nosuch"))


async def test_a_run_of_another_machine_is_listed_and_followed(machine: Open, tmp_path: Path) -> None:
    """Without anything of it being recorded here."""
    async with asyncio.timeout(LIMIT_S), machine("there") as there, machine("here") as here:
        assert len(await here.runs()) == 0
        await started(there, tmp_path, 100_000, "lives")
        listed = await here.runs()
        assert [(run.run, run.job, run.ranks, run.goes_on) for run in listed] == [("lives", "counting", 2, True)]
        assert listed.unreachable == {}

        async with here.attach("lives") as run:
            await lines_come(run)
        assert run.result is None and run.name == "lives"
        assert [run.goes_on for run in await here.runs()] == [True]

        assert await here.stop("lives") == ()
        assert [(run.run, run.state) for run in await here.runs()] == [("lives", "stopped")]
        with pytest.raises(NotFound):
            await there.stop("nosuch")


async def test_a_run_is_followed_to_its_end_and_its_logs_are_kept_here(machine: Open, tmp_path: Path) -> None:
    """Whoever attaches later still has its result."""
    async with asyncio.timeout(LIMIT_S), machine("there") as there, machine("here") as here:
        await started(there, tmp_path, 100, "ends")
        async with here.attach("ends") as run:
            result = await run.wait()
            assert any(line.startswith("step 1/") for line in run.log(1).read_text().splitlines())
        assert (result.outcome, result.exit) == ("succeeded", 0)

        async with here.attach("ends") as again:
            assert [event async for event in again.events()] == [again.result]
            assert sorted(again.state.ranks) == [0, 1]
        assert isinstance(again.result, RunEnded)
        assert (again.result.outcome, again.result.log_dir) == ("succeeded", result.log_dir)

        last = {lines.rank: lines.lines[-1].text async for lines in here.logs("ends", ranks=[1], tail=1)}
        assert set(last) == {1} and last[1].startswith("step 100/100 ")
        assert again.log(1).read_text().splitlines()[-1] == last[1]
        with pytest.raises(UsageError, match="there is no rank 7: the run has ranks 0 to 1"):
            await anext(here.logs("ends", ranks=[7]))
        with pytest.raises(NotFound):
            await anext(here.logs("nosuch"))


async def lines_come(run: Run) -> int:
    """Read until a rank has said something; which."""
    async for event in run.events():
        if isinstance(event, LogLines) and event.rank is not None:
            return event.rank
    raise AssertionError(f"{run.name} has ended: {run.result}")


async def test_a_run_that_another_here_follows_is_read_beside_it_and_taken_over(machine: Open, tmp_path: Path) -> None:
    """Whoever follows it stays its owner until that one leaves; then the other goes on with it to its end."""
    async with asyncio.timeout(LIMIT_S), machine("here") as here, machine("here") as beside:
        await started(here, tmp_path, 100_000, "lives")
        async with here.attach("lives") as owner:
            await lines_come(owner)
            async with machine("here", readonly=True) as looker, looker.attach("lives") as run:
                await lines_come(run)
                with pytest.raises(UsageError, match="a stop is refused"):
                    run.stop()
            assert owner.result is None
            async with beside.attach("lives") as run:
                await lines_come(run)
            assert run.result is None
            assert StoredRun(owner.folder).is_followed
            async with beside.attach("lives") as run:
                owner.detach()
                assert (await owner.wait()).outcome == "detached"
                await lines_come(run)
                run.stop(grace=0)
                assert (await run.wait()).outcome == "stopped"
        assert await here.stop("lives") == ()


async def test_who_may_only_look_on_at_a_run_keeps_nothing_of_it(machine: Open, tmp_path: Path) -> None:
    """It is read from its hosts, and lives on."""
    async with asyncio.timeout(LIMIT_S), machine("there") as there, machine("here", readonly=True) as here:
        await started(there, tmp_path, 100_000, "lives")
        async with here.attach("lives") as run:
            assert "step " in run.log(await lines_come(run)).read_text()
        assert not run.folder.exists()
        assert not (tmp_path / "here/distui/runs/lives").exists()
        assert [listed.goes_on for listed in await here.runs()] == [True]
        assert await there.stop("lives", grace=0) == ()


async def test_logs_are_read_from_the_hosts_as_they_are_written(machine: Open, tmp_path: Path) -> None:
    """Of a run that nobody follows here; nothing is recorded for that."""
    async with asyncio.timeout(LIMIT_S), machine("there") as there, machine("here", readonly=True) as here:
        await started(there, tmp_path, 200, "talks")
        said: dict[int | None, list[str]] = {}
        async for lines in here.logs("talks", follow=True):
            said.setdefault(lines.rank, []).extend(line.text for line in lines.lines)
        steps = {rank: [text.split()[1] for text in texts if text.startswith("step ")] for rank, texts in said.items()}
        counted = [f"{number}/200" for number in range(1, 201)]
        assert steps == {0: counted, 1: counted}
        assert not (tmp_path / "here/distui/runs/talks").exists()
        with pytest.raises(UsageError, match="read-only"):
            await here.stop("talks")
        assert await there.stop("talks") == ()


async def test_secrets_that_can_not_be_hidden_are_warned_of(machine: Open, tmp_path: Path) -> None:
    """By whoever reads or stops a run without knowing their values; by nobody who knows them."""
    async with asyncio.timeout(LIMIT_S), machine("there", TOKEN="hunter2-hunter2") as there, machine("here") as here:
        job = {"name": "tells", "hosts": ["demo1"], "secrets": ["TOKEN"], "stop_grace": "2s"}
        job["command"] = ["sh", "-c", "echo begun; printenv TOKEN; exec sleep 600"]
        async with there.launch(await there.prepare(job, name="tells"), detach=True) as run:
            assert (await run.wait()).outcome == "detached"
        with warnings.catch_warnings(action="error"):
            assert [text async for text in texts(there, "tells")] == ["begun", "***"]
        with pytest.warns(SecretWarning, match="the value of secret TOKEN is not set here"):
            assert [text async for text in texts(here, "tells")] == ["begun", "hunter2-hunter2"]
        with pytest.warns(SecretWarning, match="the value of secret TOKEN is not set here") as warned:
            assert await here.stop("tells", grace=0) == ()
        assert [one.filename for one in warned if one.category is SecretWarning] == [__file__]


async def texts(cluster: Cluster, run: str) -> AsyncIterator[str]:
    """The first two lines of a run, as soon as they are there."""
    count = 0
    async for lines in cluster.logs(run, follow=True):
        for line in lines.lines:
            yield line.text
            count += 1
        if count >= 2:
            return


async def test_somebody_else_s_run_is_stopped_where_that_was_meant() -> None:
    """Whose it is is said otherwise."""
    with pytest.raises(UsageError, match="r1 belongs to ann@a, bob@b; nothing was stopped") as caught:
        await Unasked("r1", others=False).agree("Stop it?", {"bob@b", "ann@a"})
    assert "others=True" in caught.value.hint
    assert await Unasked("r1", others=True).agree("Stop it?", {"bob@b"})
