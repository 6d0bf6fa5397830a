"""Somebody else who goes on reading a run that has ended: its containers wait for that one, not for who is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from distui.plan.serialize import to_json
from distui.runs.attempt.replan import NextAttempt
from distui.runs.control.controller import RunController
from distui.runs.ending import finish, others, visits
from distui.runs.ending.finish import ended
from distui.runs.ending.review import Review
from distui.runs.follow.followed import FollowEvent
from distui.runs.hosts.claims.folder import Claim, take
from distui.runs.hosts.readers import Act, Visit, record, visit
from distui.runs.lines import event_json
from distui.runs.lines.events import RanksRestarted, RunEnded
from distui.runs.store.end_record import FILE
from distui.session import Completed
from fakehosts.runs import Cluster, two_hosts, until

FOLDER = "/home/u/.local/state/distui/hosts/{}/r1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; who reads is soon waited for no longer."""
    made = two_hosts(tmp_path, monkeypatch)
    monkeypatch.setattr(others, "OTHERS_SECONDS", 0.5)
    return made


def two(cluster: Cluster, folder: Path, **options: object) -> tuple[RunController, Cluster, RunController]:
    """Who follows the run here, and somebody on another machine."""
    elsewhere = Cluster(folder / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    plan = cluster.plan(launch="beef")
    here = cluster.controller(plan, adopted=True, **options)
    return here, elsewhere, elsewhere.controller(plan, adopted=True, stopped_as="bob@laptop")


async def started(cluster: Cluster) -> None:
    """The run goes on, and nobody follows it."""
    plan = cluster.plan(launch="beef")
    controller = cluster.controller(plan, detach=True)
    controller.stored.write_plan(to_json(plan))
    await cluster.drive(controller)


def slow(reader: RunController) -> asyncio.Event:
    """What it reads comes once the event is set."""
    take_in, let = reader.attempt.watch.take, asyncio.Event()

    async def later(host: str, event: FollowEvent) -> None:
        await let.wait()
        await take_in(host, event)

    reader.attempt.watch.take = later  # type: ignore[method-assign]
    return let


async def end_beside(cluster: Cluster, *readers: RunController) -> None:
    """The ranks end once all read."""
    marks = [f"{FOLDER.format('h1')}/reader-{reader.attempt.run.reader}" for reader in readers]
    await until(lambda: all(mark in cluster.hosts[0].files for mark in marks))
    for host in cluster.hosts:
        host.containers[0].end(0)


async def test_containers_are_kept_for_a_reader_that_is_behind_and_removed_by_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It has each line, gives the verdict that is recorded, and leaves nothing. Who it is is said."""
    await started(cluster)
    here, elsewhere, behind = two(cluster, tmp_path)
    cluster.hosts[1].files["log-1"] = b"late\n"
    let = slow(behind)
    reading = asyncio.create_task(elsewhere.drive(behind))
    ended = await cluster.drive(here, end_beside(cluster, here, behind))

    assert (ended.outcome, [len(host.containers) for host in cluster.hosts]) == ("succeeded", [1, 1])
    assert ended.leftovers == (
        "h1: distui-r1-0, kept for its log, which bob@laptop still reads",
        "h2: distui-r1-1, kept for its log, which bob@laptop still reads",
    )
    assert "bob@laptop still reads r1, so its containers are kept, and removed there when all is read" in cluster.said()
    let.set()
    seen = await reading
    assert (seen.outcome, seen.leftovers, cluster.left()) == ("succeeded", (), [])
    assert behind.stored.rank_log(1).read_bytes() == b"late\n"


async def test_who_stops_the_run_keeps_nothing_for_a_reader(cluster: Cluster, tmp_path: Path) -> None:
    """`distui stop` is what removes it all the same."""
    await started(cluster)
    here, elsewhere, behind = two(cluster, tmp_path, keep=False)
    let = slow(behind)
    reading = asyncio.create_task(elsewhere.drive(behind))
    ended = await cluster.drive(here, end_beside(cluster, here, behind))
    assert (ended.outcome, ended.leftovers, [host.containers for host in cluster.hosts]) == ("succeeded", (), [[], []])
    let.set()
    await reading


async def test_a_stop_waits_no_minute_for_a_reader_that_was_killed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mark grows old in a minute; nothing would be kept for it if it did go on."""
    await started(cluster)
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True, keep=False)
    cluster.hosts[0].files[f"{FOLDER.format('h1')}/reader-another"] = b""
    monkeypatch.setattr(others, "READING_SECONDS", 1000.0)
    ended = await asyncio.wait_for(cluster.drive(here, end_beside(cluster, here)), 60)
    assert (ended.outcome, ended.leftovers, cluster.left()) == ("succeeded", (), [])


async def test_a_reader_that_was_killed_keeps_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mark is not touched any more after the end is recorded: it is waited for until that is old."""
    await started(cluster)
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    killed = f"{FOLDER.format('h1')}/reader-another"
    cluster.hosts[0].files[killed] = b""
    asked: list[float] = []
    looks = others._looks

    async def grows_old(attempt: object, done: object, seconds: float, **options: float) -> list[Visit]:
        asked.append(seconds)
        if seconds == others.READING_SECONDS:
            cluster.hosts[0].files.pop(killed)
        return await looks(attempt, done, seconds, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(others, "_looks", grows_old)
    ended = await cluster.drive(here, end_beside(cluster, here))
    assert asked == [others.OTHERS_SECONDS, others.READING_SECONDS]
    assert (ended.outcome, ended.leftovers, cluster.left()) == ("succeeded", (), [])
    assert others.READING_SECONDS <= 120.0, "nobody is waited for without end"


async def test_a_home_that_hangs_keeps_nobody_from_following(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """`attach` waited 10 seconds for its mark there, when the tasks were found."""
    monkeypatch.setattr(visits, "EARLY_SECONDS", 0.1)
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    host = here.attempt.hosts["h1"]
    await host.connect()
    cluster.hosts[0].hold("visit")
    async with asyncio.timeout(8), visits.marked_early(here.attempt, host):
        pass
    await host.link.close()


async def test_the_result_counts_torchrun_s_own_restarts(cluster: Cluster) -> None:
    """Only events did."""
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    assert ended(here.attempt, "failed", 1).restarts == 0
    await here.attempt.emit(RanksRestarted(3.0, 0, 0, "h1", 1, 1, 3))
    (result,) = event_json.to_json(ended(here.attempt, "failed", 1), "r1")
    assert (result["type"], result["restarts"]) == ("result", 1)


async def test_it_is_said_who_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clean-up began a minute later, without a word."""
    await started(cluster)
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    killed = f"{FOLDER.format('h1')}/reader-another"
    cluster.hosts[0].files[killed] = b"bob@laptop"
    monkeypatch.setattr(others, "OTHERS_SECONDS", 20.0)
    monkeypatch.setattr(others, "SAY_SECONDS", 0.1)

    async def grows_old() -> None:
        await end_beside(cluster, here)
        await until(lambda: "is waited for" in cluster.said())
        cluster.hosts[0].files.pop(killed)

    ended = await cluster.drive(here, grows_old())
    assert cluster.said().count("bob@laptop reads r1, too, and is waited for") == 1
    assert (ended.outcome, ended.leftovers, cluster.left()) == ("succeeded", (), [])


async def test_another_attempt_waits_for_no_reader_of_the_one_before(cluster: Cluster) -> None:
    """What is tried again needs its hosts."""
    others: list[bool] = []
    plan = cluster.plan(launch="beef", retries=1, on_fail="wait")
    controller = cluster.controller(plan, planner=never_asked)
    controller.stored.write_plan(to_json(plan))

    async def fail() -> None:
        await until(lambda: controller.state.phase == "follow")
        for host in cluster.hosts:
            host.files[f"{FOLDER.format(host.name)}/reader-another"] = b"bob@laptop"
            host.containers[0].end(3)
        await until(lambda: (controller.stored.path / FILE).exists())
        others.append(True)
        await until(lambda: not any(host.containers for host in cluster.hosts))
        controller.request_detach()

    ended: RunEnded = await cluster.drive(controller, fail())
    assert (others, ended.leftovers, "still reads" in cluster.said()) == ([True], (), False)


async def never_asked(attempt: int, spent: float, taken: object = None) -> NextAttempt:
    """The run is left in the pause before."""
    raise AssertionError


async def here(argv: Sequence[str], data: bytes = b"") -> Completed:
    """Run a command on this machine, which may not take long."""
    process = await asyncio.create_subprocess_exec("timeout", "10", *argv, stdin=-1, stdout=-1, stderr=-1)
    out, err = await process.communicate(data)
    assert process.returncode != 124
    return Completed(tuple(argv), process.returncode or 0, out, err)


async def test_a_mark_says_who_reads_and_whether_that_goes_on_after_the_end(tmp_path: Path) -> None:
    """By its time; who only waits is not among them, what is no plain file says nothing, no name steers a terminal."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))

    async def seen(reader: str, act: Act = "look", who: str = "") -> tuple[int, set[str], str]:
        found = await visit(here, "h1", str(folder), "beef-1", reader, act, who=who)
        return found.reading, set(found.names), found.verdict

    await seen("aa", "mark", "bob@laptop")
    await seen("cc-wait", "mark", "eve@there")
    assert (folder / "reader-cc-wait").read_text() == ""
    os.utime(folder / "reader-aa", (folder.stat().st_mtime - 5,) * 2)
    recorded = await record(here, "h1", str(folder), "beef-1", "bb", b"{}\n")
    assert (recorded.reading, recorded.names, recorded.verdict) == (0, {"bob@laptop"}, "{}\n")
    await seen("aa", "begins", "bob@laptop")
    await seen("cc-wait", "mark", "eve@there")
    assert await seen("bb") == (1, {"bob@laptop"}, "{}\n")
    (folder / "reader-dd").write_text("x\x1b[2J\n\ty\n{}\n")
    os.mkfifo(folder / "reader-ee")
    (folder / "reader-ff").write_text("")
    reading, names, verdict = await seen("bb")
    assert (reading, verdict, "bob@laptop" in names, len(names)) == (4, "{}\n", True, 2)
    assert not any(character in "".join(names) for character in "\x1b\n\t")
    assert (await seen("aa"))[1] == names - {"bob@laptop"}


async def test_a_mark_stays_fresh_while_it_is_judged_how_the_run_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For two minutes, where `success.regex` is looked for in long logs: others counted us as killed after one."""
    await started(cluster)
    monkeypatch.setattr(visits, "MARK_SECONDS", 0.05)
    here = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    files, mark = cluster.hosts[0].files, f"{FOLDER.format('h1')}/reader-{here.attempt.run.reader}"
    touched: list[bool] = []

    async def judge(_: object) -> Review:
        del files[mark]
        await until(lambda: mark in files)
        touched.append(mark in files)
        return Review()

    monkeypatch.setattr(finish, "review", judge)
    ended = await cluster.drive(here, end_beside(cluster, here))
    assert (ended.outcome, touched, cluster.left()) == ("succeeded", [True], [])
