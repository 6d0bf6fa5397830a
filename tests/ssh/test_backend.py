"""The backend of the terminal UI over real ssh: hosts of the demo, runs it starts, attaches to, stops and prunes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from distui import config
from distui.cli.console import Console
from distui.cli.demo.demo_job import demo_inventory
from distui.cli.demo.demo_ui import COUNTING
from distui.cli.printing.printer import LogView
from distui.cli.runs import opening
from distui.cli.runs.launching import How
from distui.cli.settings import Settings
from distui.cluster.attach import ending
from distui.cluster.attach import places as places_module
from distui.cluster.attach.places import Places
from distui.cluster.backend import backend as backend_module
from distui.cluster.backend.backend import ClusterBackend
from distui.cluster.backend.values import LiveRun
from distui.cluster.start.request import RunRequest
from distui.errors import CheckFailed, NotFound, UsageError
from distui.plan.model import NoPlan, RunPlan
from distui.remote.demo.demo import DemoHosts
from distui.runs.ending import next_attempt
from distui.runs.hosts.discover import FoundRun, FoundRuns
from distui.runs.hosts.reuse import reusing
from distui.runs.insight.asking import watching
from distui.runs.lines.events import LogLines, Notice, PhaseBegun, RunEnded
from distui.runs.store.journal import Journal
from distui.runs.store.runs import AlreadyFollowed, StoredRun
from distui.runs.store.secret_checks import others
from distui.runs.store.why_records import kept
from distui.session import Connector
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Job
from distui.tui.launch import drafting

JOB = """\
version: 1
name: counting
hosts: [demo1, demo2]
ranks: {{per_host: 1}}
gpus_per_host: 0
fabric: {{kind: tcp}}
command: ["{python}", "{program}", "{steps}"]
stop_grace: 2s
"""


@pytest.fixture
async def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterBackend]:
    """A backend over two hosts made in this process."""
    work = tmp_path / "work"
    (work / "jobs").mkdir(parents=True)
    monkeypatch.chdir(work)
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    settings = Settings(environ, work, config.load({}, environ, work))
    async with DemoHosts(2, root=tmp_path / "demo") as demo:

        def connected(hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
            return reusing(demo.connector())

        found = demo_inventory(demo, docker=False)
        async with ClusterBackend(settings.places, found, found.hosts, title="demo", connect=connected) as opened:
            yield opened


def write_job(backend: ClusterBackend, steps: int) -> str:
    program = backend.places.selection.cwd / "counting.py"
    program.write_text(COUNTING.replace("0.2", "0.02"))
    text = JOB.format(python=sys.executable, program=program, steps=steps)
    (backend.places.selection.cwd / "jobs" / "counting.yaml").write_text(text)
    return text


async def planned(backend: ClusterBackend, steps: int, name: str) -> tuple[object, RunPlan]:
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    job = backend.draft(write_job(backend, steps), "counting.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ()), run_id=name)
    assert isinstance(made, RunPlan), made
    return job, made


async def test_probe_news_and_jobs(backend: ClusterBackend) -> None:
    """Probes are kept as facts, samples come without any run, job files are found with their problems."""
    heard: list[str] = []
    await backend.probe(["demo1", "demo2"], lambda name, result: heard.append(name))
    assert sorted(heard) == ["demo1", "demo2"]
    assert set(backend.facts) == {"demo1", "demo2"}
    stream = backend.news()
    seen: set[str] = set()
    async with asyncio.timeout(60):
        async for news in stream:
            seen |= {news.host} if news.sample is not None else set()
            if seen == {"demo1", "demo2"}:
                break
    await stream.aclose()  # type: ignore[attr-defined]
    write_job(backend, 3)
    with (backend.places.selection.cwd / "jobs" / "huge.yaml").open("wb") as file:
        file.truncate(65 << 20)
    assert await backend.images() == {}  # no job names one; what can't be read is in the list of jobs
    (backend.places.selection.cwd / "jobs" / "huge.yaml").unlink()
    (backend.places.selection.cwd / "jobs" / "bad.yaml").write_text("version: 1\nnam: x\n")
    (backend.places.selection.cwd / "compose.yaml").write_text("services: {}\n")
    jobs = {job.name: job for job in backend.jobs()}
    assert set(jobs) == {"bad", "counting"}
    assert jobs["bad"].problems
    assert not jobs["counting"].problems


async def test_a_run_is_drained_though_nobody_looks_and_can_be_replayed(backend: ClusterBackend) -> None:
    """A run ends by itself without a reader; then it is a row of the history, and plays again from its folder."""
    job, made = await planned(backend, 5, "count-1")
    live = await backend.launch(job, made)  # type: ignore[arg-type]
    assert "count-1" in backend.following
    async with asyncio.timeout(60):
        async for _ in live.batches():
            pass
    assert live.state.summary == "succeeded"
    assert "step 5/5 loss" in live.stored.rank_log(0).read_text()
    rows, _ = await backend.runs()
    assert [(r.run, r.state, r.live, r.recorded) for r in rows] == [("count-1", "succeeded", False, True)]
    again = backend.replay("count-1")
    assert again.state.summary == "succeeded"
    assert [e async for batch in again.batches() for e in batch][-1] == live.state.ended
    with pytest.raises(UsageError, match="already recorded"):
        await backend.launch(job, made)  # type: ignore[arg-type]
    await backend.prune("count-1")
    assert (await backend.runs())[0] == ()
    with pytest.raises(NotFound):
        backend.replay("count-1")


async def until_running(live: Any) -> None:
    """Follow a run until all its ranks run."""
    async with asyncio.timeout(60):
        async for _ in live.batches():
            if live.state.summary == "running":
                return


async def test_leaving_detaches_and_another_backend_stops(backend: ClusterBackend) -> None:
    """Leaving the backend leaves the run alone; another backend finds it on the hosts, attaches, and stops it."""
    job, made = await planned(backend, 100_000, "count-2")
    second = ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect)
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        first.know(backend.facts)
        live = await first.launch(job, made)  # type: ignore[arg-type]
        await until_running(live)
    assert live.state.summary == "detached"
    async with second:
        rows, found = await second.runs()
        assert [(r.run, r.state, r.live) for r in rows] == [("count-2", "running", True)]
        assert found.get("count-2") is not None
        with pytest.raises(UsageError, match="still runs"):
            await second.prune("count-2")
        attached = await second.attach("count-2")
        assert await second.attach("count-2") is attached
        attached.request_stop("user")
        async with asyncio.timeout(60):
            async for _ in attached.batches():
                pass
        assert attached.state.summary == "stopped"
        assert not (await second.runs())[1].runs


async def test_ranks_are_asked_why_by_who_follows_them_and_beside(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the run's own connections, else over others; what they tell is kept, but for a read-only backend."""
    monkeypatch.setattr(watching, "SECONDS", 0.2)
    job, made = await planned(backend, 100_000, "count-5")
    live = await backend.launch(job, made)  # type: ignore[arg-type]
    await until_running(live)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "_connect", None)  # it has no need of other connections
        own = await backend.why("count-5", stacks=True)
    assert (own.run, own.record.found.kind, own.record.by) == ("count-5", "unseen", "user")
    assert [seen.process is not None for seen in own.ranks] == [True, True]
    assert [one.at for one in kept(live.stored)] == [pytest.approx(own.record.at, abs=0.01)]

    settings = dataclasses.replace(backend.places.settings, readonly=True)
    places = dataclasses.replace(backend.places, settings=settings)
    async with ClusterBackend(places, backend.inventory, backend.hosts, connect=backend._connect) as beside:
        assert (await beside.attach("count-5")).plan.run_id == "count-5"
        reported = await beside.why("count-5")
        assert [place.rank for place in reported.record.found.ranks] == [0, 1]
    assert len(kept(live.stored)) == 1
    live.request_stop("user")
    async for _ in live.batches():
        pass
    with pytest.raises(NotFound, match="none of 2 hosts has it"):
        await backend.why("count-5")


async def test_a_name_that_was_used_again_elsewhere_is_of_the_run_that_lives(
    backend: ClusterBackend, tmp_path: Path
) -> None:
    """A backend with another folder of records started it; what is recorded here of the older one is kept apart."""
    job, made = await planned(backend, 5, "count-4")
    async for _ in (await backend.launch(job, made)).batches():  # type: ignore[arg-type]
        pass
    environ = {**backend.settings.environ, "XDG_STATE_HOME": str(tmp_path / "elsewhere")}
    settings = Settings(environ, backend.places.selection.cwd, config.load({}, environ, backend.places.selection.cwd))
    async with ClusterBackend(settings.places, backend.inventory, backend.hosts, connect=backend._connect) as other:
        job, made = await planned(other, 100_000, "count-4")
        await until_running(await other.launch(job, made))  # type: ignore[arg-type]
    assert [(r.run, r.state, r.recorded) for r in (await backend.runs())[0]] == [
        ("count-4", "running", False),
        ("count-4", "succeeded", True),
    ]
    attached = await backend.attach("count-4")
    assert attached.state.summary != "succeeded"
    assert await backend.stop("count-4") == ()
    async with asyncio.timeout(60):
        async for _ in attached.batches():
            pass
    assert [(r.run, r.state) for r in (await backend.runs())[0]] == [("count-4", "stopped"), ("count-4~1", "succeeded")]
    assert backend.replay("count-4~1").state.summary == "succeeded"


async def test_a_run_is_stopped_from_afar_and_drained(backend: ClusterBackend) -> None:
    """Stopping a run that nobody follows reads its logs to the end, cleans up, and says what is left: nothing."""
    job, made = await planned(backend, 100_000, "count-3")
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        first.know(backend.facts)
        await until_running(await first.launch(job, made))  # type: ignore[arg-type]
    assert await backend.stop("count-3") == ()
    (row,) = (await backend.runs())[0]
    assert (row.state, row.exit) == ("stopped", 143)
    assert await backend.stop("count-3") == ()
    with pytest.raises(NotFound, match="none of"):
        await backend.stop("count-9")


async def test_a_stop_waits_until_whoever_follows_the_run_here_has_cleaned_up(backend: ClusterBackend) -> None:
    """By the time that nothing is said to be left, its logs are read to the end and no host has anything of it."""
    job, made = await planned(backend, 100_000, "halt-1")
    said: list[str] = []
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        first.know(backend.facts)
        live = await first.launch(job, made)  # type: ignore[arg-type]
        await until_running(live)
        assert await backend.stop("halt-1", say=said.append) == ()
        assert not live.stored.is_followed
        assert (await backend.runs())[1].runs == ()
    assert said == ["stopping halt-1; the distui that follows it here cleans up", "halt-1 is stopped"]
    assert [(row.state, row.exit) for row in (await backend.runs())[0]] == [("stopped", 143)]


async def test_a_stop_takes_over_from_a_follower_that_dies(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes too long is named as what is left; once it is gone, the run is read to its end and removed."""
    job, made = await planned(backend, 100_000, "halt-2")
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        first.know(backend.facts)
        await until_running(await first.launch(job, made))  # type: ignore[arg-type]
    stored = backend.settings.store.need("halt-2")
    with contextlib.ExitStack() as follower:
        follower.enter_context(stored.followed())
        with monkeypatch.context() as patch:
            patch.setattr(ending, "DRAIN_SECONDS", 0.0)
            assert await backend.stop("halt-2", grace=0) == ("halt-2 is still being read to its end",)
        assert [run.run for run in (await backend.runs())[1].runs] == ["halt-2"]
        assert stored.stop_asked() is not None
        stop = asyncio.create_task(backend.stop("halt-2"))
        await until(lambda: (stored.path / "stop").exists() or stop.done())
        assert not stop.done()
        follower.close()
        assert await stop == ()
    assert (await backend.runs())[1].runs == ()
    (row,) = (await backend.runs())[0]
    assert (row.state, row.over) == ("stopped", True)


def plant(backend: ClusterBackend, run: str, whose: str) -> list[Path]:
    """What a launch that was killed leaves on both hosts: folders that say whose they are."""
    folders = []
    for host in ("demo1", "demo2"):
        root = backend.places.selection.cwd.parent / "demo" / host
        folder = root / f".local/state/distui/hosts/{host}/{run}"
        folder.mkdir(parents=True)
        (folder / "launched").write_text(f"{whose}\n2026-01-02 03:04:05 UTC\nbeef-1\n")
        folders.append(folder)
    return folders


@pytest.mark.parametrize("left", [None, (), ("demo2: not reached",)], ids=["killed", "whole", "not whole"])
async def test_a_stop_of_a_run_without_a_task_that_another_distui_here_has(
    backend: ClusterBackend, left: tuple[str, ...] | None
) -> None:
    """It is being started: its end is waited for, with what it could not remove; ended from here when it is killed."""
    stored = backend.settings.store.create("early")
    with contextlib.ExitStack() as starter:
        starter.enter_context(stored.followed())
        folders = plant(backend, "early", backend.owner)
        stop = asyncio.create_task(backend.stop("early"))
        await until(lambda: (stored.path / "stop").exists() or stop.done())
        assert not stop.done()
        if left is not None:
            for folder in folders:
                shutil.rmtree(folder)
            with contextlib.closing(Journal(stored)) as journal:
                journal.write([RunEnded(9.0, "stopped", 143, leftovers=left)])
        starter.close()
        assert await stop == (left or ())
    assert not any(folder.exists() for folder in folders)


async def test_a_launch_that_was_killed_elsewhere_is_removed_but_not_somebody_else_s(backend: ClusterBackend) -> None:
    """Nothing is recorded of it here. Who was asked about one owner's run does not end another's."""
    mine, theirs = plant(backend, "mine", backend.owner), plant(backend, "theirs", "bob@desk")
    said: list[str] = []
    assert await backend.stop("mine", say=said.append) == ()
    assert said == ["removed what a launch of mine had left on demo[1-2]"]
    with pytest.raises(UsageError, match="theirs belongs to bob@desk by now; nothing was stopped"):
        await backend.stop("theirs")
    assert [folder.exists() for folder in (*mine, *theirs)] == [False, False, True, True]
    assert await backend.stop("theirs", of="bob@desk") == ()
    assert [folder.exists() for folder in theirs] == [False, False]


async def test_a_read_only_backend_stops_nothing(backend: ClusterBackend) -> None:
    """Also where another distui here follows the run, and could be asked."""
    settings = dataclasses.replace(backend.places.settings, readonly=True)
    places = dataclasses.replace(backend.places, settings=settings)
    stored = backend.settings.store.create("early")
    with stored.followed():
        async with ClusterBackend(places, backend.inventory, backend.hosts, connect=backend._connect) as looking:
            with pytest.raises(UsageError, match="to stop early is refused: read-only"):
                await looking.stop("early")
    assert stored.stop_asked() is None


async def test_a_stop_of_a_part_of_a_run_is_not_said_to_be_all(backend: ClusterBackend, tmp_path: Path) -> None:
    """`distui -H demo1` where the run is not recorded: what demo2 has of it goes on."""
    job, made = await planned(backend, 100_000, "part-1")
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        await until_running(await first.launch(job, made))  # type: ignore[arg-type]
    cwd = backend.places.selection.cwd
    environ = {**backend.settings.environ, "XDG_STATE_HOME": str(tmp_path / "elsewhere")}
    flags = config.load({}, environ, cwd)
    places = Settings(environ, cwd, flags).places
    selection = dataclasses.replace(places.selection, hosts=("demo1",), known=backend.inventory)
    places = dataclasses.replace(places, selection=selection)
    some = [host for host in backend.hosts if host.name == "demo1"]
    async with ClusterBackend(places, backend.inventory, some, connect=backend._connect) as other:
        assert other.leaves_out
        assert "1 of its 2 tasks may be on hosts that were not asked" in "".join(await other.stop("part-1"))
    assert await backend.stop("part-1") == ()


async def test_a_run_on_a_host_that_the_app_was_not_opened_for_may_live(backend: ClusterBackend) -> None:
    """`distui -H demo2` does not ask demo1, and so can't say that the run there is gone; it stops it all the same."""
    await backend.probe(["demo1", "demo2"], lambda name, result: None)
    job = backend.draft(write_job(backend, 100_000), "counting.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ("demo1",)), run_id="count-8")
    assert isinstance(made, RunPlan)
    async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as first:
        await until_running(await first.launch(job, made))
    selection = dataclasses.replace(backend.places.selection, hosts=("demo2",))
    narrow = dataclasses.replace(backend.places, selection=selection)
    async with ClusterBackend(narrow, backend.inventory, backend.hosts[1:], connect=backend._connect) as second:
        ((row,), found) = await second.runs()
        assert (row.run, row.state, row.live, row.may_run) == ("count-8", "detached", False, True)
        assert found.answered == {"demo2"}
        assert await second.stop("count-8") == ()
        assert [(row.state, row.may_run) for row in (await second.runs())[0]] == [("stopped", False)]


async def test_processes_are_looked_at_and_ended_but_never_another_one(backend: ClusterBackend) -> None:
    """A pid whose start time is another one's is left alone; SIGKILL ends what SIGTERM does not."""
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(300)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    await child.stdout.readline()
    try:
        seen = await backend.process("demo1", child.pid)
        assert (seen.pid, seen.command.split()[:2]) == (child.pid, [sys.executable, "-c"])
        assert await backend.signal(dataclasses.replace(seen, start="1"), kill=True) == "gone"
        assert await backend.signal(dataclasses.replace(seen, boot="another"), kill=True) == "gone"
        assert child.returncode is None
        assert await backend.signal(seen) == "lives"
        assert await backend.signal(seen, kill=True) == "ended"
        assert await child.wait() == -9
        assert await backend.signal(seen, kill=True) == "gone"
        with pytest.raises(NotFound, match="no process"):
            await backend.process("demo1", child.pid)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def test_tasks_of_hosts_without_an_engine_are_their_containers(backend: ClusterBackend) -> None:
    """Each with its run and its log, which is followed to the task's end."""
    job, made = await planned(backend, 100_000, "count-3")
    live = await backend.launch(job, made)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        async for _ in live.batches():
            if live.state.summary == "running":
                break
        (found,) = await backend.containers("demo1")
        assert found.running
        assert found.task is not None
        assert (found.task.run, found.task.ranks) == ("count-3", (0,))
        output = b""
        async with contextlib.aclosing(backend.container_log(found)) as stream:
            async for data in stream:
                output += data
                if b"step 3/" in output:
                    break
        live.request_stop("user")
        async for _ in live.batches():
            pass
    assert output.startswith(b"[rank0]")
    assert await backend.containers("demo1") == ()


async def test_a_shell_on_a_host_of_the_demo(backend: ClusterBackend, tmp_path: Path) -> None:
    """Real hosts are reached by the user's own ssh; those of the demo are this machine."""
    assert (await backend.ssh_argv("demo1"))[:3] == ("ssh", "-p", str(backend.hosts[0].port))
    assert (await backend.ssh_argv("demo1"))[-2:] == ("--", "demo1")
    demo = DemoHosts(1, root=tmp_path / "other")
    own = ClusterBackend(backend.places, backend.inventory, backend.hosts, login=demo.shell_argv)
    demo.hosts["demo1"].home.mkdir(parents=True)
    argv = await own.ssh_argv("demo1")
    assert argv[-2:] == ("/bin/sh", "-i")
    done = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await done.communicate(b"pwd; echo $USER\n")
    assert said.decode().split() == [str(tmp_path / "other" / "demo1"), "demo"]


async def test_values_of_an_env_file_go_to_ranks_and_are_hidden(backend: ClusterBackend) -> None:
    """`tui --env-file` starts a job with them; a replay of what another distui recorded hides them, too."""
    backend.settings = dataclasses.replace(backend.settings, secrets={"TOKEN": "hunter2-hunter2"})
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    text = json.dumps(
        {"version": 1, "name": "tells", "hosts": ["demo1"], "command": ["printenv", "TOKEN"], "secrets": ["TOKEN"]}
    )
    job = backend.draft(text, "tells.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ()), run_id="tells-1")
    assert isinstance(made, RunPlan), made
    live = await backend.launch(job, made)
    async with asyncio.timeout(60):
        async for _ in live.batches():
            pass
    assert live.stored.rank_log(0).read_text() == "***\n"
    assert backend.replay("tells-1").mask.text("hunter2-hunter2") == "***"
    assert others(live.stored, {"TOKEN": "another-value"}) == ("TOKEN",)


async def text_kept(backend: ClusterBackend, text: str, name: str) -> str | None:
    """What the run's folder has of a job's text once it was launched with it and has ended."""
    job = backend.draft(text, "tells.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ()), run_id=name)
    assert isinstance(made, RunPlan), made
    live = await backend.launch(job, made, text=text)
    async with asyncio.timeout(60):
        async for _ in live.batches():
            pass
    recorded = backend.recorded_job(name)
    assert recorded is not None
    kept = live.stored.path / "job.yaml"
    assert recorded.text == (kept.read_text() if kept.exists() else "")
    if kept.exists():
        assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    return recorded.text or None


async def test_the_text_of_a_job_is_kept_with_its_run_without_a_secret(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was written, `${VAR}` too; none in which a value stands of the job's secrets, its token, or --env-file.

    No file of the run's folder has one then.
    """
    values = {"TOKEN": "hunter2-hunter2", "GIT": "tok-of-the-code", "OTHER": "more-of-the-file", "N": "1"}
    backend.settings = dataclasses.replace(backend.settings, secrets=values)
    monkeypatch.setattr(backend_module, "code_token", lambda job, variables: (job, variables["GIT"]))
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    text = (
        "version: 1  # größer\nname: tells\nhosts: [demo1]\nsecrets: [TOKEN]\nenv: {A: '${HOME}'}\ncommand: ['true']\n"
        "gpus_per_host: 0\n"
    )
    assert await text_kept(backend, text, "tells-0") == text
    folder = backend.replay("tells-0").stored.path.parent
    for number, value in enumerate(value for name, value in values.items() if name != "N"):
        assert await text_kept(backend, f"{text}# {value}\n", f"tells-{number + 1}") is None
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in kept for value in list(values.values())[:3] if value.encode() in path.read_bytes()]


async def test_run_again_starts_what_was_started(backend: ClusterBackend) -> None:
    """The recorded job comes back though its file has changed, and the newest run is the one that counts."""
    job, made = await planned(backend, 3, "count-4")
    first = await backend.launch(job, made)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        async for _ in first.batches():
            pass
    write_job(backend, 9)
    recorded = backend.recorded_job("count-4")
    assert recorded is not None
    assert (recorded.job, recorded.picks) == (job, backend.pick(recorded.job, ()))
    again = backend.preview(recorded.job, recorded.picks, run_id="count-5")
    assert isinstance(again, RunPlan)
    second = await backend.launch(recorded.job, again, rerun_of="count-4")
    async with asyncio.timeout(60):
        async for _ in second.batches():
            pass
    assert "step 3/3 loss" in second.stored.rank_log(0).read_text()
    assert "step 9" not in second.stored.rank_log(0).read_text()
    assert backend.newest(first) is second
    assert backend.newest(second) is second


async def test_run_exits_as_the_last_run_of_its_view(backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run fails, is run again in the app and succeeds, and the first one is pruned: exit 0, and its name is said.

    The app has all hosts of the inventory, not only those of the job: else another's run would be stopped in part.
    """
    marker = backend.places.selection.cwd / "was-here"
    program = backend.places.selection.cwd / "once.py"
    program.write_text(f"import os, sys\np = {str(marker)!r}\nsys.exit(0 if os.path.exists(p) else 3)\n")
    text = JOB.replace('"{steps}"', '"x"').format(python=sys.executable, program=program)
    job = backend.draft(text.replace("demo1, demo2", "demo1"), "once.yaml").job
    assert job is not None

    async def ended(live: LiveRun) -> None:
        async with asyncio.timeout(60):
            async for _ in live.batches():
                pass

    environ, cwd = backend.settings.environ, backend.places.selection.cwd
    settings = Settings(environ, cwd, config.load({}, environ, cwd))

    async def show(settings: Settings, opened: ClusterBackend, start: LiveRun) -> int:
        assert [host.name for host in opened.hosts] == ["demo1", "demo2"]
        await ended(start)
        assert start.state.summary == "failed"
        marker.touch()
        recorded = opened.recorded_job("once-1")
        assert recorded is not None
        again = opened.preview(recorded.job, recorded.picks, run_id="once-2")
        assert isinstance(again, RunPlan)
        await ended(await opened.launch(recorded.job, again, rerun_of="once-1"))
        await opened.prune("once-1")
        return 0

    def made(places: Places, inventory: Inventory, hosts: Sequence[Host], **more: Any) -> ClusterBackend:
        return ClusterBackend(places, inventory, hosts, connect=backend._connect, **more)

    monkeypatch.setattr(opening, "show", show)
    monkeypatch.setattr(opening, "ClusterBackend", made)
    said = io.StringIO()
    out = Console(said, said, out_colour=False, err_colour=False, width=0)
    order = RunRequest(job, backend.inventory, backend.pick(job, ()), run_id="once-1")
    assert await opening.launch(settings, out, order, How(LogView())) == 0
    assert "once-2: succeeded" in said.getvalue()


async def test_a_run_of_another_terminal_is_opened_between_two_attempts(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on no host then; whoever opens it goes on with the next attempt, and has all that one says."""
    program, go, planned_next = backend.places.selection.cwd / "once.py", asyncio.Event(), next_attempt._planned
    marker = str(program.with_name("was-here"))
    program.write_text(f"import os, sys\nif os.path.exists({marker!r}): print('again'); sys.exit()\n"
                       f"open({marker!r}, 'w').close()\nprint('a long first word')\nsys.exit(3)\n")  # fmt: skip

    async def held(*given: Any) -> Any:
        await go.wait()
        return await planned_next(*given)

    monkeypatch.setattr(next_attempt, "_planned", held)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    text = JOB.replace('"{steps}"', '"x"').format(python=sys.executable, program=program)
    job = backend.draft(text.replace("demo1, demo2", "demo1") + "retries: 1\n", "once.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ()), run_id="once")
    assert isinstance(made, RunPlan), made
    live = await backend.launch(job, made)
    async with asyncio.timeout(60):
        await until(lambda: live.state.summary == "retrying")
        async with ClusterBackend(backend.places, backend.inventory, backend.hosts, connect=backend._connect) as other:
            assert [(r.run, r.state, r.live) for r in (await other.runs())[0]] == [("once", "retrying", False)]
            opened = await other.attach("once")
            await until(lambda: opened.state.summary == "retrying")
            go.set()
            events = [event async for batch in opened.batches() for event in batch]
            assert (opened.state.summary, opened.state.attempt) == ("succeeded", 2)
            assert [line.text for e in events if isinstance(e, LogLines) for line in e.lines] == ["again"]
        async for _ in live.batches():
            pass
    assert (await backend.runs())[0][0].state == "succeeded"


async def test_leaving_says_what_it_waits_for(backend: ClusterBackend) -> None:
    """A run that is being started when the backend is left: nobody waits without a word."""
    said: list[str] = []
    job, made = await planned(backend, 3, "count-6")
    async with ClusterBackend(
        backend.places, backend.inventory, backend.hosts, connect=backend._connect, say=said.append
    ) as first:
        first.know(backend.facts)
        await first.launch(job, made)  # type: ignore[arg-type]
    assert said == ["distui: count-6 is being started on 2 hosts: leaving when that is done; Ctrl-C undoes it"]


async def test_a_preflight_finds_what_a_launch_would_and_starts_nothing(backend: ClusterBackend) -> None:
    """Every pair is proved; once a run of that name is on the hosts, it says whose that is."""
    job, made = await planned(backend, 1000, "pre")
    found = await backend.preflight(made)
    rows = {row.check.id: row for row in found.rows}
    assert rows["run_name"].verdict == "ok"
    assert [f.saw.split(",")[0] for f in rows["reach"].findings] == ["reaches 1 other"] * 2
    assert set(found.results) == {"demo1", "demo2"}
    assert (await backend.runs())[1].runs == ()
    live = await backend.launch(job, made)  # type: ignore[arg-type]
    await until(lambda: live.state.summary == "running")
    again = await backend.preflight(made)
    (name, *_) = again.rows
    assert name.verdict == "fail"
    assert "a run named pre is there already" in name.findings[0].saw
    live.request_stop("user", grace=0)
    async for _ in live.batches():
        pass


async def test_a_preflight_has_a_row_for_the_image_of_a_plan_that_has_one(backend: ClusterBackend) -> None:
    """Hosts without a container engine are not asked for it."""
    _, made = await planned(backend, 2, "pre")
    without = await backend.preflight(made)
    found = await backend.preflight(dataclasses.replace(made, image="none/such:1"))
    assert not [row for row in without.rows if row.check.id.startswith("image:")]
    (row,) = [row for row in found.rows if row.check.id == "image:none/such:1"]
    assert [finding.host for finding in row.findings] == ["demo1", "demo2"] and row.verdict == "skip"


async def test_a_full_disk_starts_nothing_and_leaves_the_name_free(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app says so in words, as `distui run` does; once there is space, the same plan is started."""
    job, made = await planned(backend, 2, "full")

    def full(stored: StoredRun, plan: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(StoredRun, "write_plan", full)
        with pytest.raises(CheckFailed, match="No space left on device; nothing was started"):
            await backend.launch(job, made)  # type: ignore[arg-type]
    live = await backend.launch(job, made)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        async for _ in live.batches():
            pass
    assert live.state.ended is not None and live.state.ended.outcome == "succeeded"


async def test_a_start_that_did_not_begin_leaves_its_name_free(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the app is left while its hosts are connected to."""
    job, made = await planned(backend, 2, "early")

    @contextlib.asynccontextmanager
    async def left(hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        raise asyncio.CancelledError
        yield

    with monkeypatch.context() as patch:
        patch.setattr(backend, "_connect", left)
        with pytest.raises(asyncio.CancelledError):
            await backend.launch(job, made)  # type: ignore[arg-type]
    assert backend.settings.store.get("early") is None


async def test_a_run_that_another_process_took_up_meanwhile_stays(
    backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is that one's by now."""
    job, made = await planned(backend, 2, "taken")
    connect = backend._connect

    @contextlib.asynccontextmanager
    async def taken(hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        with backend.settings.store.need("taken").followed():
            async with connect(hosts) as connector:
                yield connector

    monkeypatch.setattr(backend, "_connect", taken)
    with pytest.raises(AlreadyFollowed):
        await backend.launch(job, made)  # type: ignore[arg-type]
    assert backend.settings.store.get("taken") is not None


async def test_what_is_left_of_a_run_is_reported_before_it_goes(backend: ClusterBackend) -> None:
    """Folders on the hosts with their bytes, the folder here with its files; after pruning nothing."""
    job, made = await planned(backend, 2, "gone")
    assert isinstance(job, Job)
    tasks = (dataclasses.replace(task, labels={**task.labels, "distui.keep": "yes"}) for task in made.tasks)
    live = await backend.launch(job, dataclasses.replace(made, tasks=tuple(tasks)))
    async with asyncio.timeout(60):
        async for _ in live.batches():
            pass
    left = await backend.remains("gone")
    places = {item.host: item.what for item in left.items}
    assert places["demo1"] == "~/.local/state/distui/hosts/demo1/gone"
    assert "runs/gone, " in places["here"]
    assert left.unreachable == {} and left.ranks == ()
    backend.settings.store.remove("gone")
    assert (await backend.remains("gone")).ranks == (0, 1), "logs that were never read here are named before they go"
    asked = places_module.find_runs

    async def with_stranger(*given: Any, **more: Any) -> FoundRuns:
        """A run of somebody else that has the name, too, and began later."""
        found = await asked(*given, **more)
        task = found.runs[0].tasks[0]
        labels = dataclasses.replace(task.labels, owner="eve@elsewhere", launch="beef", ranks=(7,), world_size=8)
        other = FoundRun("gone", (dataclasses.replace(task, labels=labels),))
        return dataclasses.replace(found, runs=(other, *found.runs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places_module, "find_runs", with_stranger)
        assert (await backend.remains("gone")).ranks == (0, 1), "what another has under that name does not go"
    await backend.prune("gone")
    assert (await backend.remains("gone")).items == ()


async def test_closing_the_backend_ends_a_smoke_and_leaves_nothing(backend: ClusterBackend, tmp_path: Path) -> None:
    """The test's ranks hang; leaving kills them and removes their folders before the connections are closed."""
    (tmp_path / "torch.py").write_text("import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(600)\n")
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    job = dataclasses.replace(await drafted(backend), env={"PYTHONPATH": str(tmp_path)})
    trying = asyncio.create_task(backend.smoke(job, lambda pair: None))
    homes = tmp_path / "demo"
    await until(lambda: sum("pid" in text for text in logs_of_smokes(homes)) == 2)
    pids = [int(text.split()[1]) for text in logs_of_smokes(homes)]
    await backend.__aexit__(None, None, None)
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert not [pid for pid in pids if alive(pid)]
    assert logs_of_smokes(homes) == []


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something, half a minute at most."""
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came")


async def drafted(backend: ClusterBackend) -> Any:
    """The counting job."""
    return backend.draft(write_job(backend, 1), "counting.yaml").job


def logs_of_smokes(folder: Path) -> list[str]:
    """What the ranks of smokes that are on the hosts printed."""
    return [path.read_text() for path in folder.rglob("smoke-*/task-*/log")]


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_the_launch_form_takes_nothing_that_was_not_allowed(backend: ClusterBackend, tmp_path: Path) -> None:
    """A folder outside the job's stands there as a problem of the plan, with the command that allows it."""
    folder = tmp_path.parent / f"{tmp_path.name}-private"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine\n")
    text = JOB.format(python=sys.executable, program="hello.py", steps="1") + f"code: {folder}\n"
    found = drafting.drafted(backend, text, "counting.yaml", None, "")
    assert isinstance(found.made, NoPlan)
    (problem,) = found.made.problems
    assert f"files of {folder}, which is outside the job's folder" in problem.message
    assert problem.hint.startswith(f"distui config allow folder {folder} ")


async def test_a_run_s_code_is_sent_and_thrown_away(backend: ClusterBackend) -> None:
    """The job's folder is where a task without a container starts; what it writes there is gone with the run."""
    folder = backend.places.selection.cwd / "code"
    folder.mkdir()
    (folder / "hello.py").write_text("import os\nopen('written', 'w').close()\nprint('from', os.getcwd())\n")
    text = JOB.format(python=sys.executable, program="hello.py", steps="1") + "code: ./code\n"
    await backend.probe([h.name for h in backend.hosts], lambda name, result: None)
    job = backend.draft(text, "counting.yaml").job
    assert job is not None
    made = backend.preview(job, backend.pick(job, ()), run_id="code-1")
    assert isinstance(made, RunPlan), made
    assert made.code is not None
    assert (made.code.source, made.code.files, made.code.to) == ("./code", 1, "/work")
    live = await backend.launch(job, made)
    async with asyncio.timeout(60):
        output = [event async for batch in live.batches() for event in batch]
    assert live.state.summary == "succeeded"
    assert f"from {made.tasks[0].run_dir}/code" in live.stored.rank_log(0).read_text()
    said = [e.detail for e in output if isinstance(e, PhaseBegun) and e.phase == "code"]
    assert said == ["1 file, 66 B", "1 file, 66 B sent to each"]
    assert not Path(made.tasks[0].run_dir).exists()  # noqa: ASYNC240
    recorded = backend.recorded_job("code-1")
    assert recorded is not None
    assert recorded.job.code is not None
    assert recorded.job.code.path == str(folder)
    (folder / "hello.py").write_text("second\n")
    again = backend.preview(job, backend.pick(job, ()), run_id="code-2")
    assert isinstance(again, RunPlan)
    (folder / "hello.py").write_text("changed")
    refused = await backend.launch(job, again)
    async with asyncio.timeout(60):
        words = [e.text async for batch in refused.batches() for e in batch if isinstance(e, Notice)]
    assert any("hello.py changed since the plan was made" in text for text in words)
    assert refused.state.summary == "launch_failed"
