"""What a launch that was killed leaves, found and removed by its own token, with this machine's shell as the host."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import distui
from distui.cli.actions import ps
from distui.errors import HostCommandError
from distui.runs.hosts.claims import lease, marks
from distui.runs.hosts.claims.folder import Claim, holds, take
from distui.runs.hosts.claims.launches import Launch, ended, find_launches, list_launches
from distui.runs.hosts.discover import FoundTask
from distui.runs.hosts.readers import visit
from distui.runs.launch.sweep import Swept, sweep
from distui.runs.lines.events import RankChanged, RunEnded
from distui.runs.report import history
from distui.runs.store.end_record import MOST_BYTES, EndRecord
from distui.runs.task.host_access import REMOVE_SECONDS
from distui.runs.task.host_run import HostRun
from distui.session import ByteChannel, Completed
from distui.spec.hosts.inventory import EngineName, Host
from fakehosts.runs import facts_of, plan_for

ANN, BOB = Claim("ann@desk", 0.0, "a-1"), Claim("bob@desk", 60.0, "b-1")
SINCE = "1970-01-01 00:00:00 UTC"


class Here:
    """Session and Connector in one: every host is this machine, with a home of its own unless they share one."""

    host = "h1"
    connected_ms = 0.0

    def __init__(self, home: Path) -> None:
        self.home = home

    async def connect(self, host: str) -> Here:
        return self

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        env = {**os.environ, "HOME": str(self.home)}
        process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1, env=env)
        out, err = await process.communicate()
        return Completed(tuple(argv), process.returncode or 0, out, err)

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        raise AssertionError(script)

    async def open(self, argv: Sequence[str]) -> ByteChannel:
        raise AssertionError(argv)

    async def open_unix(self, path: str) -> ByteChannel:
        raise AssertionError(path)

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        raise AssertionError(path)

    async def close(self) -> None:
        pass


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


async def launched(here: Here, run: str, claim: Claim, host: str = "h1") -> Path:
    """The folder that a launch has on a host, with an env file."""
    folder = here.home / f".local/state/distui/hosts/{host}/{run}"
    assert (await take(here.run, host, str(folder), claim)).state == "taken"
    (folder / "env-0").write_text("TOKEN=secret\n")
    return folder


async def test_launches_are_listed_with_whose_and_how_old(here: Here) -> None:
    """Those of one run or of all; a folder without a claim, and a claim that is cut off, are none."""
    old = await launched(here, "old", ANN)
    await launched(here, "new*", BOB)
    over = await launched(here, "over", ANN)
    await holds(here.run, "h1", str(over), ANN.token, over=True)
    (here.home / ".local/state/distui/hosts/h1/none").mkdir()
    torn = await launched(here, "torn", ANN)
    (torn / "launch").write_text("ann@desk\n1970")
    then = time.time() - 3600
    os.utime(old, (then, then))

    found = {one.run: one for one in await list_launches(here.run)}
    assert found == {
        "old": Launch("old", "h1", "a-1", "ann@desk", SINCE, begun=False, aged=True),
        "new*": Launch("new*", "h1", "b-1", "bob@desk", "1970-01-01 00:01:00 UTC", begun=False, aged=False),
        "over": Launch("over", "h1", "a-1", "ann@desk", SINCE, begun=True, aged=False),
    }
    assert {run: one.dead for run, one in found.items()} == {"old": True, "new*": False, "over": True}
    assert [one.run for one in await list_launches(here.run, "new*")] == ["new*"]
    assert await list_launches(here.run, "*") == ()


@pytest.mark.parametrize("name", ["launch", "launched"])
async def test_a_claim_that_is_no_file_is_none(here: Here, name: str) -> None:
    """Opening a FIFO waits for its other end; a rank without a container may make one in its run's folder."""
    await launched(here, "good", ANN)
    folder = await launched(here, "bad", BOB)
    (folder / "launch").unlink()
    os.mkfifo(folder / name)
    async with asyncio.timeout(20):
        assert [one.run for one in await list_launches(here.run)] == ["good"]


@pytest.mark.parametrize(("ahead", "aged"), [(30, False), (3600, True)])
async def test_a_launch_that_is_dated_in_the_future_is_stale(here: Here, ahead: int, aged: bool) -> None:
    """It would never be otherwise; clocks may be set back a little."""
    folder = await launched(here, "r", ANN)
    then = time.time() + ahead
    os.utime(folder, (then, then))
    (found,) = await list_launches(here.run)
    assert found.aged is aged
    assert (await take(here.run, "h1", str(folder), BOB)).state == ("stale" if aged else "held"), "one rule for both"


async def test_a_home_that_hosts_share_counts_once(here: Here) -> None:
    """Each host tells of the folders of both."""
    await launched(here, "r", ANN, "h1")
    await launched(here, "r", ANN, "h2")
    found = await find_launches(here, (Host("h1"), Host("h2")), "r")
    assert sorted(one.host for one in found) == ["h1", "h2"]


async def test_a_run_of_another_engine_than_that_of_hosts_yaml_here_is_no_launch_that_was_killed(here: Here) -> None:
    """Nobody sees its tasks from here: its claim has which engine they are of."""
    folder = here.home / ".local/state/distui/hosts/h1/r"
    assert (await take(here.run, "h1", str(folder), ANN, engine="podman")).state == "taken"
    assert (await take(here.run, "h1", str(folder), ANN, engine="podman")).state == "taken", "safe to repeat"
    await holds(here.run, "h1", str(folder), ANN.token, over=True)

    async def row(engine: EngineName) -> tuple[str, str]:
        found = await find_launches(here, (Host("h1", engine=engine),), "r")
        (listed,) = history.with_launches((), found, {}, answered=["h1"])
        return listed.state, listed.unlisted

    assert await row("docker") == ("unknown", "podman")
    assert await row("podman") == ("left", "")


async def test_only_by_its_token(here: Here, tmp_path: Path) -> None:
    """Under whatever name its host had; never another launch's, another run's, or a process's. Repeatable."""
    ours = await launched(here, "r", ANN, "h1"), await launched(here, "r", ANN, "old-name")
    others = await launched(here, "r", BOB, "h2"), await launched(here, "r2", ANN, "h1")
    process = await launched(here, "r", ANN, "h3")
    (process / "task-0").mkdir()
    (process / "task-0/labels.json").write_text("{}")
    mine, foreign = tmp_path / "rendezvous", tmp_path / "theirs"
    mine.touch(), foreign.touch()

    done = await sweep(here, (Host("h1"),), "r", ANN.token, (("h1", str(mine)), ("h9", str(foreign))))

    assert done == Swept(("h1",))
    assert not any(folder.exists() for folder in ours)
    assert not ours[1].parent.exists(), "folders above that are empty go too"
    assert all((folder / "env-0").exists() for folder in (*others, process))
    assert (mine.exists(), foreign.exists()) == (False, True)
    assert await sweep(here, (Host("h1"),), "r", ANN.token) == Swept()
    assert await sweep(here, (Host("h1"),), "r", "") == Swept(), "a run without a token is nobody's to sweep"


async def test_a_lease_that_can_not_be_given_back_is_reported(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is removed all the same."""

    async def never(*_: object) -> None:
        raise HostCommandError("h1", "h1: no end within 60 s", code="command_timeout")

    monkeypatch.setattr(lease, "free", never)
    mine = tmp_path / "rendezvous"
    mine.touch()
    ours = await launched(here, "r", ANN, "h1")
    done = await sweep(here, (Host("h1"),), "r", ANN.token, (("h1", str(mine)),))

    assert done == Swept(failed={"h1": "h1: no end within 60 s"})
    assert (ours.exists(), mine.exists()) == (False, False)


async def test_what_may_run_out_of_reach_keeps_its_folder(here: Here) -> None:
    """Hosts that share a home: the one that answers does not remove what the other's tasks may use."""
    ours, other = await launched(here, "r", ANN, "h1"), await launched(here, "r", ANN, "h2")
    assert await sweep(here, (Host("h1"),), "r", ANN.token, spare=("h2", "h3")) == Swept(("h1",))
    assert (ours.exists(), other.exists()) == (False, True)


async def test_a_run_that_had_begun_keeps_its_folder_where_nobody_asked(here: Here, tmp_path: Path) -> None:
    """With `-H h1` a home shared with h2 shows that folder, too: the run may live there, which is said."""
    ours, other = await launched(here, "r", ANN, "h1"), await launched(here, "r", ANN, "h2")
    for folder in (ours, other):
        await holds(here.run, "h1", str(folder), ANN.token, over=True)
    file = tmp_path / "rendezvous"
    file.touch()
    done = await sweep(here, (Host("h1"),), "r", ANN.token, (("h1", str(file)),))
    assert (done.hosts, list(done.kept), "not asked" in done.kept["h2"]) == (("h1",), ["h2"], True)
    assert (ours.exists(), (other / "env-0").exists(), file.exists()) == (False, True, True)
    both = await sweep(here, (Host("h1"), Host("h2")), "r", ANN.token)
    assert both in (Swept(("h1",)), Swept(("h2",)), Swept(("h1", "h2"))), "whichever of them comes first"
    assert not other.exists()


async def test_a_task_that_only_its_mark_tells_of_keeps_its_folder(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host answers, but lists none: another engine or login has the task. Its mark and its lease stay, too."""
    ours, other = await launched(here, "r", ANN, "h1"), await launched(here, "r", ANN, "h2")
    labels = {**plan_for("h1", run_id="r").tasks[0].labels, "distui.launch": "a"}
    marked, removed = marks.parse("0 " + json.dumps(labels), "h1"), []

    async def read(*_: object, own: bool) -> tuple[FoundTask, ...]:
        return marked

    async def remove(_: object, token: str) -> None:
        removed.append(token)

    monkeypatch.setattr(marks, "read", read)
    monkeypatch.setattr(marks, "remove", remove)
    done = await sweep(here, (Host("h1"),), "r", ANN.token)
    assert (done.hosts, list(done.kept), "mark" in done.kept["h1"]) == (("h1",), ["h1"], True)
    assert ((ours / "env-0").exists(), other.exists(), removed) == (True, False, [])
    marked = ()
    assert await sweep(here, (Host("h1"),), "r", ANN.token) == Swept(("h1",))
    assert (ours.exists(), removed) == (False, [ANN.token])


async def test_what_could_not_be_removed_is_found_again(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container wrote into the code as root: the claim stays with it, so the next stop says it again."""
    folder = await launched(here, "r", ANN)
    await holds(here.run, "h1", str(folder), ANN.token, over=True)
    (folder / "code").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/rm"
    program.write_text(
        """#!/bin/sh
        for one do case $one in -* | */code) ;; *) find "$one" ! -path '*/code' ! -type d -delete;; esac; done
        """
    )
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(program.parent), prepend=os.pathsep)
        for _ in range(2):
            assert await sweep(here, (Host("h1"),), "r", ANN.token) == Swept(left={"h1": str(folder)})
    assert sorted(path.name for path in folder.iterdir()) == ["code", "launched"]
    assert await sweep(here, (Host("h1"),), "r", ANN.token) == Swept(("h1",))
    assert not folder.exists()


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("taken", [False, True])
async def test_a_folder_that_another_launch_has_by_now_stays(here: Here, over: bool, taken: bool) -> None:
    """A run stopped from elsewhere and started again under its name: who had it before removes nothing of it."""
    host = HostRun("h1", plan_for("h1", run_id="r", facts={"h1": replace(facts_of("h1"), home=str(here.home))}), here)
    folder = here.home / ".local/state/distui/hosts/h1/r"
    assert await host.claim.take(ANN) == ""
    await sweep(here, (Host("h1"),), "r", ANN.token)
    assert not folder.exists()
    await launched(here, "r", BOB)
    await holds(here.run, "h1", str(folder), BOB.token, over=over)
    host.claim.taken = taken
    with patch.object(HostRun, "all_tasks", return_value=[]):
        await host._remove_folder()
        assert (folder / "env-0").exists()
        await sweep(here, (Host("h1"),), "r", BOB.token)
        assert await host.claim.take(ANN) == ""
        await host._remove_folder()
    assert not folder.exists()


async def test_removing_a_folder_may_take_as_long_as_all_that_is_removed(here: Here) -> None:
    """A copy of the code with many files on NFS takes more than a minute; what a container removes there, too."""
    host = HostRun("h1", plan_for("h1", run_id="r", facts={"h1": replace(facts_of("h1"), home=str(here.home))}), here)
    limits: dict[str, list[float | None]] = {"sh": [], "docker": []}

    async def run(argv: Sequence[str], *, timeout: float | None = 60.0, **_: Any) -> Completed:
        limits[argv[0]].append(timeout)
        return Completed(tuple(argv), 0, b"left\n", b"")

    host.claim.taken, host._image = True, "image"
    with patch.object(host.link, "run", run):
        assert not await host._remove_folder()
    assert limits == {"sh": [REMOVE_SECONDS] * 2, "docker": [REMOVE_SECONDS]}


async def test_sweeping_a_folder_may_take_as_long(here: Here) -> None:
    """What a killed launch has left may be as much; it was given up after half of that."""
    limits = list[float | None]()

    async def run(argv: Sequence[str], *, timeout: float | None = 60.0, **_: Any) -> Completed:
        limits.extend([timeout] if "distui-sweep" in argv else [])
        return Completed(tuple(argv), 0, b"", b"")

    with patch.object(here, "run", run):
        await sweep(here, (Host("h1"),), "r", ANN.token)
    assert limits == [REMOVE_SECONDS]


@pytest.mark.parametrize("begins", ["before", "after the first command", "while a command is sent again"])
async def test_a_process_in_the_place_of_ours_that_is_another_launch_s_lives_on(here: Here, begins: str) -> None:
    """The next attempt's processes have the places of this one's: whoever ends or removes those ends no other."""
    planned = plan_for("h1", run_id="r", facts={"h1": replace(facts_of("h1"), home=str(here.home))})
    host = HostRun("h1", replace(planned, tasks=tuple(replace(t, engine="process") for t in planned.tasks)), here)
    folder = here.home / ".local/state/distui/hosts/h1/r"
    gone: Any = SimpleNamespace(labels=SimpleNamespace(task=0))
    others: list[asyncio.subprocess.Process] = []

    async def next_attempt() -> None:
        if not others:
            await sweep(here, (Host("h1"),), "r", ANN.token)
            await launched(here, "r", BOB)
            env = {**os.environ, "DISTUI_TASK_DIR": f"{folder}/task-0"}
            others.append(await asyncio.create_subprocess_exec("sleep", "60", env=env))

    async def run(argv: Sequence[str], **options: Any) -> Completed:
        if begins == "before":
            await next_attempt()
        done = await here.run(argv)
        await next_attempt()
        return await here.run(argv) if begins == "while a command is sent again" else done

    for work in (
        host._kill_without_folder,
        lambda: host._delete([gone]),
        lambda: host.stop(host.tasks, 0),
        lambda: host.stop(host.tasks, 2),
    ):
        assert await host.claim.take(ANN) == ""
        host.missing, host.ids = frozenset({0}), {0: "task-0"}
        with patch.object(host.link, "run", run):
            await work()
        other = others.pop()
        assert other.returncode is None
        other.kill()
        await other.wait()
        await sweep(here, (Host("h1"),), "r", BOB.token)


async def test_who_waits_for_the_next_attempt_leaves_the_folder_to_whoever_begins_it(here: Here) -> None:
    """That one learns from it who waits; where its mark is old, or it has left, nobody else removes the folder."""
    host = HostRun("h1", plan_for("h1", run_id="r", facts={"h1": replace(facts_of("h1"), home=str(here.home))}), here)
    folder = here.home / ".local/state/distui/hosts/h1/r"
    begins = folder / "begins-b0b"
    with patch.object(HostRun, "all_tasks", return_value=[]):
        for leave in (lambda: os.utime(begins, (time.time() - 100,) * 2), begins.unlink):
            assert await host.claim.take(ANN) == ""
            (folder / "next-abc").touch()
            begins.touch()
            assert await host._remove_folder("abc")
            assert host.left_to_starter and (folder / "next-abc").exists()
            leave()
            assert await host._remove_folder("abc")
            assert not host.left_to_starter and not folder.exists()
        assert await host.claim.take(ANN) == ""
        (folder / "next-abc").touch()
        begins.touch()
        host.waiters = frozenset()
        assert await host._remove_folder()
    assert not folder.exists() and host.waiters == {"abc"}


async def test_a_launch_knows_when_its_folder_was_taken_away(here: Here) -> None:
    """It has it until it is swept, also when all has started, and asking twice changes nothing."""
    folder = await launched(here, "r", ANN)
    assert await holds(here.run, "h1", str(folder), ANN.token)
    assert not await holds(here.run, "h1", str(folder), BOB.token)
    for _ in range(2):
        assert await holds(here.run, "h1", str(folder), ANN.token, over=True)
        assert sorted(path.name for path in folder.iterdir()) == ["env-0", "launched"]
    await sweep(here, (Host("h1"),), "r", ANN.token)
    assert not await holds(here.run, "h1", str(folder), ANN.token, over=True)


def test_a_row_for_a_run_that_only_a_launch_tells_of() -> None:
    """Elsewhere a young one may be alive; here it is known; what was found as tasks stays as it is."""
    young = Launch("r", "h1", "a-1", "ann@desk", SINCE, begun=False, aged=False)
    aged = Launch("o", "h1", "a-1", "ann@desk", SINCE, begun=False, aged=True)
    recorded = history.RunRow("r", "j", "unknown", ("h1", "h2"), 2, recorded=True)
    found = history.RunRow("r", "j", "running", ("h1", "h2"), 2, live=True)

    def states(rows: Sequence[history.RunRow], here: Mapping[str, bool]) -> dict[str, str]:
        return {row.run: row.state for row in history.with_launches(rows, (young, aged), here, answered=())}

    assert states((), {}) == {"r": "starting", "o": "left"}
    assert states((recorded,), {"a-1": False}) == {"r": "left", "o": "left"}
    assert states((recorded,), {"a-1": True}) == {"r": "starting", "o": "starting"}
    assert states((recorded,), {"b-1": False})["r"] == "starting", "what is recorded here is another run of that name"
    assert states((found,), {}) == {"r": "running", "o": "left"}
    (row, _) = history.with_launches((), (young, aged), {}, answered=())
    assert (row.started, row.owner, row.hosts, row.live) == (0.0, "ann@desk", ("h1",), True)


def test_a_run_that_had_begun_is_left_only_where_its_host_says_so() -> None:
    """The folder of a host that did not answer, or was not asked, is seen by way of one that shares its home."""
    begun = Launch("r", "h2", "a-1", "ann@desk", SINCE, begun=True, aged=True)
    recorded = history.RunRow("r", "j", "unknown", ("h2",), 1, recorded=True)

    def states(answered: Sequence[str], *rows: history.RunRow, followed: bool = False) -> list[str]:
        here = {"a-1": followed} if rows else {}
        return [row.state for row in history.with_launches(rows, (begun,), here, answered=answered)]

    assert states(["h1"]) == []
    assert states(["h1"], recorded) == ["unknown"]
    assert states(["h1", "h2"]) == ["left"]
    assert states(["h1", "h2"], recorded) == ["left"]
    assert states(["h1", "h2"], recorded, followed=True) == ["unknown"]
    (row,) = history.with_launches((), [begun], {}, answered=["h2"])
    gone = "r had started, and left its folder, but no container or process, on h2; "
    assert ps._next_step(row, [row], chosen=False) == f"{gone}`distui stop r` removes it"
    assert ps._next_step(row, [row], chosen=True) == f"{gone}`distui ps` asks all hosts", "it may go on elsewhere"
    (row,) = history.with_launches((), [replace(begun, begun=False)], {}, answered=["h2"])
    assert "a launch of r was killed" in ps._next_step(row, [row], chosen=False)


def test_a_run_whose_end_is_recorded_here_is_no_launch_that_was_killed() -> None:
    """Its folder could not be removed, nor its verdict written there: the home of the host had become read-only."""
    begun = Launch("r", "h2", "a-1", "ann@desk", SINCE, begun=True, aged=True)
    recorded = history.RunRow("r", "j", "succeeded", ("h1", "h2"), 2, recorded=True, launch="a-1", exit=0)

    def row(launch: Launch) -> history.RunRow:
        (found,) = history.with_launches([recorded], [launch], {"a-1": False}, answered=["h1", "h2"])
        return found

    assert (row(begun).state, row(begun).left, row(begun).exit, row(begun).live) == ("succeeded", ("h2",), 0, True)
    assert row(replace(begun, token="a-2")).state == "left", "the next attempt was killed"


def test_no_script_for_a_host_takes_the_silence_of_sed_for_an_answer() -> None:
    """A tool that is missing prints nothing; whose a folder or a GPU is, the shell itself reads."""
    for path in Path(distui.__file__).parent.rglob("*.py"):
        assert "sed -n" not in path.read_text(), path


async def test_a_claim_that_can_not_be_read_is_no_claim_of_somebody_else(here: Here) -> None:
    """`stopped from elsewhere` is said only where the host says so: else that it can't tell."""
    folder = await launched(here, "r", ANN)

    async def fails(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 127, b"", b"sh: not found")

    for ask in (
        lambda: holds(fails, "h1", str(folder), ANN.token),
        lambda: visit(fails, "h1", str(folder), ANN.token, "me"),
        lambda: list_launches(fails, host="h1"),
    ):
        with pytest.raises(HostCommandError, match="h1"):
            await ask()


def verdict(folder: Path, token: str) -> EndRecord:
    """A verdict in the folder, as it is written there."""
    record = EndRecord(token, "ann@desk", RunEnded(9.0, "failed", 1), (RankChanged(9.0, 0, "h1", "exited", 1),))
    (folder / "verdict").write_text(record.text("r"))
    return record


async def test_a_verdict_is_handed_out_with_the_launch_it_belongs_to(here: Here) -> None:
    """One launch's is no other's; where it is written no launch is under way any more."""
    record = verdict(await launched(here, "r", ANN), ANN.token)
    verdict(await launched(here, "s", BOB), ANN.token)
    found = {one.run: one for one in await list_launches(here.run)}
    assert {run: (one.record, one.dead) for run, one in found.items()} == {"r": (record, True), "s": (None, False)}


async def test_a_verdict_of_another_owner_than_the_folder_s_is_none(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that has the home mounted may write there as somebody else."""
    verdict(await launched(here, "r", ANN), ANN.token)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "stat").write_text('#!/bin/sh\ncase "$*" in *verdict) echo 4711 "$(wc -c <"$4")" ;; *) echo 0 ;; esac\n')
    (tools / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert [one.record for one in await list_launches(here.run)] == [None]


async def test_verdicts_of_many_folders_are_bounded(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that share a home have one each, and an answer is read whole or not at all."""
    for name in ("h1", "h2"):
        folder = await launched(here, "r", ANN, name)
        verdict(folder, ANN.token)
        with (folder / "verdict").open("a") as file:
            file.write(" " * (MOST_BYTES * 2 // 3))
    assert [one.record is not None for one in await list_launches(here.run)] == [True, False]


def a_launch(token: str, since: str = SINCE, owner: str = "ann@desk", *, record: bool = True) -> Launch:
    """A launch with a folder on one host."""
    end = EndRecord(token, owner, RunEnded(9.0, "failed", 1)) if record else None
    return Launch("r", "h1", token, owner, since, begun=record, aged=False, record=end)


@pytest.mark.parametrize(
    ("launches", "token", "chosen"),
    [
        ([a_launch("a-1")], "", "a-1"),
        ([a_launch("a-1", record=False)], "", None),
        ([a_launch("a-1"), a_launch("a-2", record=False)], "", None),
        ([a_launch("a-1"), a_launch("a-2")], "", "a-2"),
        ([a_launch("a-1"), a_launch("b-1", "1971")], "", "b-1"),
        ([a_launch("a-1"), a_launch("b-1", "1971", "bob@desk")], "", "a-1"),
        ([a_launch("b-1", "1971", "bob@desk")], "", "b-1"),
        ([a_launch("a-1"), a_launch("b-1", "1971")], "a-1", "a-1"),
        ([a_launch("a-2"), a_launch("b-1", "1971")], "a-1", "a-2"),
        ([a_launch("a-1"), a_launch("c-1", record=False)], "", None),
        ([a_launch("a-1"), a_launch("c-1", owner="bob@desk", record=False)], "", "a-1"),
        ([a_launch("a-99999999999")], "", "a-99999999999"),
    ],
)
def test_which_folder_tells_how_a_run_ended(launches: list[Launch], token: str, chosen: str | None) -> None:
    """Only that of a run without a later attempt; of several our own and newest, unless one is recorded here."""
    found = ended(launches, token=token, owner="ann@desk")
    assert (found.token if found is not None else None) == chosen
    rows = [history.RunRow("r", "j", "unknown", ("h1",), 1, recorded=True, launch=token)] if token else []
    (row,) = history.with_launches(rows, launches, {}, answered=["h1"], owner="ann@desk")
    assert (row.launch if row.state == "failed" else None) == chosen, "a list tells the same"


@pytest.mark.parametrize("state", ["unknown", "failed"])
def test_a_run_of_another_launch_is_no_launch_that_was_killed(state: str) -> None:
    """It runs, started elsewhere under the name of one that is recorded here; its folder is its own."""
    recorded = history.RunRow("r", "j", state, ("h1",), 1, recorded=True, launch="a-1")
    running = history.RunRow("r", "k", "running", ("h1",), 1, live=True, launch="b-1")
    for one in (a_launch("b-1", record=False), replace(a_launch("b-1", record=False), begun=True)):
        listed = history.with_launches([running, recorded], [one], {}, answered=["h1"], owner="ann@desk")
        assert listed == [running, recorded]


@pytest.mark.parametrize("state", ["unknown", "failed"])
def test_what_is_left_of_another_launch_has_a_row_of_its_own(state: str) -> None:
    """Whatever is recorded here under its name."""
    recorded = history.RunRow("r", "j", state, ("h1",), 1, recorded=True, launch="a-1")
    listed = history.with_launches([recorded], [a_launch("b-1")], {}, answered=["h1"], owner="ann@desk")
    assert [(row.launch, row.state, row.job) for row in listed] == [("b-1", "failed", ""), ("a-1", state, "j")]
    starting = replace(a_launch("b-1", record=False), owner="bob@desk")
    listed = history.with_launches([recorded], [starting], {}, answered=["h1"], owner="ann@desk")
    assert [(row.state, row.job, row.owner) for row in listed] == [("starting", "", "bob@desk"), (state, "j", "")]


def test_the_list_has_another_s_run_of_the_name_beside_what_is_left() -> None:
    """Bob's runs; of ours, recorded here, only the folder is left."""
    recorded = history.RunRow("r", "j", "unknown", ("h1",), 1, recorded=True, launch="a-1")
    running = history.RunRow("r", "j", "running", ("h1",), 1, owner="bob@desk", live=True, launch="b-1")
    launches = [a_launch("a-1"), a_launch("b-1", owner="bob@desk", record=False)]
    listed = history.with_launches([running, recorded], launches, {}, answered=["h1"], owner="ann@desk")
    assert [(row.launch, row.state) for row in listed] == [("a-1", "failed"), ("b-1", "running")]


def test_a_row_for_a_run_whose_end_is_reported_by_what_is_left() -> None:
    """Here as elsewhere; one that this machine has in its hands, and one that is started again, are as they were."""
    over, again = a_launch("a-1"), a_launch("b-1", "1971", record=False)
    recorded = history.RunRow("r", "j", "unknown", ("h1", "h2"), 2, recorded=True, launch="a-1")

    def row(*launches: Launch, rows: Sequence[history.RunRow] = (), **here: bool) -> history.RunRow:
        (found,) = history.with_launches(rows, launches, here, answered=())
        return found

    assert (row(over).state, row(over).exit, row(over).left, row(over).may_live) == ("failed", 1, ("h1",), True)
    told_here = row(over, rows=[recorded], **{"a-1": False})
    assert (told_here.state, told_here.job, told_here.hosts) == ("failed", "j", ("h1", "h2"))
    assert row(over, rows=[recorded], **{"a-1": True}).state == "unknown"
    assert row(over, again).state == "starting"
    other = replace(recorded, launch="c-1", state="succeeded")
    listed = history.with_launches([other], [over], {}, answered=())
    assert [(row.state, row.job) for row in listed] == [("failed", ""), ("succeeded", "j")]


def test_a_run_whose_tasks_are_still_there_is_listed_with_its_verdict() -> None:
    """Of that launch and attempt, once it has ended, where its end is not recorded here."""
    over = a_launch("a-1")
    row = history.RunRow("r", "j", "ended", ("h1",), 1, live=True, exit=0, launch="a-1")

    def state(row: history.RunRow) -> str:
        (found,) = history.with_launches([row], [over], {}, answered=["h1"])
        return found.state

    assert [state(replace(row, state=each)) for each in ("ended", "succeeded", "unknown")] == ["failed"] * 3
    assert state(replace(row, state="running")) == "running", "a forged verdict ends nothing"
    assert state(replace(row, launch="a-2")) == "ended"
    assert state(replace(row, state="stopped", collected=True)) == "stopped"
