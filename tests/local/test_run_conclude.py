"""The recorded end of a run: written before anything is removed, found again by whoever comes next, never changed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.errors import ExitCode, HostCommandError, HostUnreachable, SessionLost
from distui.facts.host import Trouble
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.limits import Limits
from distui.runs.control.controller import RunController
from distui.runs.ending import cleanup, conclude, others, visits
from distui.runs.ending.review import _COPIED
from distui.runs.follow.followed import Back, FollowEvent, Lost
from distui.runs.hosts.claims.folder import Claim, take
from distui.runs.hosts.discover import find_runs
from distui.runs.hosts.readers import WAITERS_IN, Act, Visit, record, visit, waiters_of
from distui.runs.lines.events import HostChanged, RankChanged, RunEnded, RunOpened
from distui.runs.report import history
from distui.runs.report.found import plan_of
from distui.runs.store.end_record import FILE, end_here, keep_here, record_of
from distui.runs.store.runs import StoredRun
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Success
from fakehosts.runs import Cluster, until, use_fake_follower

FOLDER = "/home/u/.local/state/distui/hosts/{}/r1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    return made


def started(cluster: Cluster, plan: RunPlan | None = None, **options: Any) -> RunController:
    """A run of two ranks with a launch of its own, recorded here."""
    plan = plan or cluster.plan(launch="beef")
    controller = cluster.controller(plan, **options)
    controller.stored.write_plan(to_json(plan))
    return controller


async def end_all(cluster: Cluster, *codes: int) -> None:
    """Wait for the ranks and let them end."""
    await until(lambda: all(host.containers for host in cluster.hosts))
    for host, code in zip(cluster.hosts, codes, strict=True):
        host.containers[0].end(code)


async def again(cluster: Cluster, controller: RunController, **options: object) -> RunEnded:
    """Another distui here takes the run up."""
    cluster.events.clear()
    return await cluster.run(controller.plan, adopted=True, **options)


def two_readers(
    cluster: Cluster, folder: Path, controller: RunController, found: frozenset[int] = frozenset()
) -> tuple[Cluster, RunController, RunController]:
    """The same hosts as another machine sees them, and who takes the run up here, and there, where some tasks were
    `found` before.
    """
    elsewhere = Cluster(folder / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    here = cluster.controller(controller.plan, adopted=True)
    return elsewhere, here, elsewhere.controller(controller.plan, adopted=True, found=found)


async def killed_at(cluster: Cluster, controller: RunController, verb: str, code: int) -> None:
    """The controller goes away, without a word, when a host is about to do `verb` in the clean-up."""
    reached = [host.hold(verb) for host in cluster.hosts]

    async def drive() -> None:
        async for _ in controller.batches():
            pass

    await controller.__aenter__()
    driving = asyncio.create_task(drive())
    await end_all(cluster, 0, code)
    await asyncio.wait([asyncio.create_task(event.wait()) for event in reached], return_when=asyncio.FIRST_COMPLETED)
    before = (controller.stored.path / "events.ndjson").read_bytes()
    assert controller._driver is not None
    controller._driver.cancel()
    driving.cancel()
    await asyncio.gather(controller._driver, driving, return_exceptions=True)
    await asyncio.gather(*(host.link.close() for host in controller.hosts.values()))
    (controller.stored.path / "events.ndjson").write_bytes(before)  # a killed one writes nothing more
    for host in cluster.hosts:
        host.gates.clear()


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("verb", ["visit", "record", "rm", "unmark", "folder"])
async def test_a_clean_up_that_was_killed_is_finished_with_the_same_verdict(
    cluster: Cluster, verb: str, code: int
) -> None:
    """At every step that removes something the verdict is on the disk; before that, all is there to judge by."""
    controller = await _started_first(cluster) if verb == "visit" else started(cluster)
    await killed_at(cluster, controller, verb, code)
    row = history.stored_row(controller.stored)
    if verb not in ("visit", "record"):
        assert (row.state, row.exit, row.cleaned) == (("failed", 1, False) if code else ("succeeded", 0, False))
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.exit, ended.leftovers) == (("failed", 1, ()) if code else ("succeeded", 0, ()))
    assert (ended.failure is not None and (ended.failure.rank, ended.failure.exit)) == ((1, 3) if code else False)
    assert cluster.left() == []
    row = history.stored_row(controller.stored)
    assert (row.state, row.over) == ("failed" if code else "succeeded", True)


async def _started_first(cluster: Cluster, plan: RunPlan | None = None) -> RunController:
    """The launch uses these verbs too: they are held up only after it."""
    first = started(cluster, plan, detach=True)
    await cluster.drive(first)
    return cluster.controller(first.plan, facts=first.attempt.facts, adopted=True)


async def test_the_verdict_is_written_before_the_first_removal(cluster: Cluster) -> None:
    """Here and on both hosts, with how each rank ended."""
    controller = started(cluster)
    seen: list[tuple[StoredRun, list[bool]]] = []
    written: list[str] = []

    def look(argv: tuple[str, ...]) -> None:
        written.extend(h.files[f"{FOLDER.format(h.name)}/verdict"].decode() for h in cluster.hosts)
        seen.append((controller.stored, [f"{FOLDER.format(h.name)}/verdict" in h.files for h in cluster.hosts]))

    for host in cluster.hosts:
        host.fails["rm"] = look  # type: ignore[assignment]
    ended = await cluster.drive(controller, end_all(cluster, 0, 7))
    (stored, there), *_ = seen
    assert there == [True, True]
    value = json.loads((stored.path / FILE).read_text())
    assert [(r["rank"], r["state"], r["exit"]) for r in value["ranks"]] == [(0, "exited", 0), (1, "exited", 7)]
    assert (value["result"]["state"], value["result"]["first_failure"]["rank"]) == ("failed", 1)
    assert not any(str(stored.path) in text for text in written), "where the logs are here is nothing to other machines"
    assert ended.log_dir == str(stored.log_dir)
    record = end_here(stored)
    assert record is not None and record.ended.log_dir == str(stored.log_dir)


async def test_a_stop_of_a_run_that_has_ended_changes_nothing(cluster: Cluster) -> None:
    """It was kept; one of its containers is gone by now; a stop removes the rest."""
    controller = started(cluster, keep=True)
    first = await cluster.drive(controller, end_all(cluster, 0, 3))
    assert first.outcome == "failed"
    cluster.hosts[1].containers.clear()
    stopping = cluster.controller(controller.plan, adopted=True, keep=False)
    stopping.request_stop("user")
    cluster.events.clear()
    ended = await cluster.drive(stopping)
    assert (ended.outcome, ended.exit, ended.failure) == ("failed", 1, first.failure)
    assert (ended.took, cluster.left()) == (first.took, [])


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("verb", ["unmark", "forget"])
async def test_a_clean_up_that_was_killed_is_finished_with_the_containers_kept(
    cluster: Cluster, tmp_path: Path, verb: str, code: int
) -> None:
    """As it was asked for when the run was started: whoever finishes it here, or follows it from another machine, which
    has labels only; a stop removes them.
    """
    plan = cluster.plan(launch="beef", keep=True)
    controller = await _started_first(cluster, plan) if verb == "forget" else started(cluster, plan)
    await killed_at(cluster, controller, verb, code)
    outcome = "failed" if code else "succeeded"
    kept = ["h1: distui-r1-0", "h2: distui-r1-1"]
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.leftovers) == (outcome, ())
    assert [words for words in cluster.left() if "distui-r1-" in words] == kept
    found = (await find_runs(cluster.connector, [Host(name) for name in cluster.names])).named("r1")
    elsewhere = Cluster(tmp_path / "elsewhere", 2)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    rebuilt = plan_of(found[0], None, [Host(name) for name in cluster.names])
    ended = await elsewhere.run(rebuilt, adopted=True)
    assert (ended.outcome, ended.leftovers) == (outcome, ())
    assert [words for words in cluster.left() if "distui-r1-" in words] == kept
    stopping = cluster.controller(plan, adopted=True, keep=False)
    stopping.request_stop("user")
    ended = await cluster.drive(stopping)
    assert (ended.outcome, cluster.left()) == (outcome, [])


async def test_the_file_of_a_success_is_asked_of_our_container(cluster: Cluster) -> None:
    """Not of one that somebody else made afterwards and gave the name of ours."""
    copied: list[str] = []

    def copy(argv: tuple[str, ...]) -> Completed | None:
        if argv[2:3] != (_COPIED,):
            return None
        copied.append(argv[6].removesuffix(":/o"))
        return Completed(argv, 1 if copied[-1] in ids else 0, b"", b"")

    ids: list[str] = []
    for host in cluster.hosts:
        host.fails["home"] = copy  # type: ignore[assignment]

    async def end() -> None:
        await end_all(cluster, 0, 0)
        ids.extend(host.containers[0].id for host in cluster.hosts)

    ended = await cluster.run(cluster.plan(launch="beef", success=Success(file="/o")), end())
    assert (copied, ended.outcome) == (ids, "failed")


async def test_a_stop_that_finds_nothing_running_is_not_why_the_run_ended(cluster: Cluster) -> None:
    """Nobody followed it; a rank had failed by itself."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    await end_all(cluster, 0, 3)
    stopping = cluster.controller(controller.plan, adopted=True)
    stopping.request_stop("user")
    cluster.events.clear()
    ended = await cluster.drive(stopping)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and ended.failure.rank == 1


async def test_another_machine_gives_the_verdict_that_the_hosts_have(cluster: Cluster, tmp_path: Path) -> None:
    """Its own folder knows nothing; half of the containers are gone already."""
    controller = started(cluster)
    await killed_at(cluster, controller, "rm", 3)
    cluster.hosts[0].containers.clear()
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    ended = await elsewhere.run(controller.plan, adopted=True)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and (ended.failure.rank, ended.failure.exit) == (1, 3)
    assert ended.log_dir == str(elsewhere.store.need("r1").log_dir)
    assert str(controller.stored.path) not in (elsewhere.store.need("r1").path / FILE).read_text()
    assert cluster.left() == []


async def test_who_is_slower_is_waited_for_and_gives_the_same_verdict(cluster: Cluster, tmp_path: Path) -> None:
    """Two machines follow one run: the containers stay until both have read them."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    elsewhere, first, second = two_readers(cluster, tmp_path, controller)

    async def both_read() -> None:
        marks = [f"{FOLDER.format('h1')}/reader-{run.attempt.run.reader}" for run in (first, second)]
        await until(lambda: all(mark in cluster.hosts[0].files for mark in marks))
        await end_all(cluster, 0, 3)

    one, other, _ = await asyncio.gather(cluster.drive(first), elsewhere.drive(second), both_read())
    assert (one.outcome, one.exit, one.failure) == (other.outcome, other.exit, other.failure)
    assert (one.outcome, one.exit) == ("failed", 1)
    assert cluster.left() == []


async def test_a_host_that_is_lost_keeps_nobody_from_a_verdict(cluster: Cluster) -> None:
    """It is recorded here and where it can be; what may be left there is named."""
    controller = started(cluster)
    for verb in ("visit", "ps"):
        cluster.hosts[0].gates.pop(verb, None)

    async def lose() -> None:
        await end_all(cluster, 0, 0)
        cluster.hosts[0].fails["rm"] = SessionLost("h1", "h1: closed")
        cluster.connector.down["h1"] = SessionLost("h1", "h1: away")  # type: ignore[assignment]

    controller.hosts["h1"].reconnect_timeout = 0.0
    ended = await cluster.drive(controller, lose())
    assert (ended.outcome, bool(ended.leftovers)) == ("succeeded", True)
    record = end_here(controller.stored)
    assert record is not None and record.ended.outcome == "succeeded"


async def test_who_is_asked_to_leave_waits_for_no_other_reader(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third Ctrl-C: at once, though a host hangs that is asked who reads; the verdict is recorded, and whoever
    comes next cleans up.
    """
    monkeypatch.setattr(others, "OTHERS_SECONDS", 1000.0)
    monkeypatch.setattr(visits, "VISIT_SECONDS", 1000.0)
    controller = started(cluster)
    other = f"{FOLDER.format('h1')}/reader-another"

    async def leave() -> None:
        await until(lambda: controller.state.phase == "follow")
        cluster.hosts[0].files[other] = b""
        await end_all(cluster, 0, 3)
        await until(lambda: (controller.stored.path / FILE).exists())
        await cluster.hosts[1].hold("visit").wait()
        controller.request_stop("user")
        controller.request_stop("user", grace=0)
        controller.request_detach()

    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit) == ("detached", 130)
    assert [len(host.containers) for host in cluster.hosts] == [1, 1]
    row = history.stored_row(controller.stored)
    assert (row.state, row.exit, row.cleaned) == ("failed", 1, False)
    cluster.hosts[1].gates.clear()
    del cluster.hosts[0].files[other]
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.exit, cluster.left()) == ("failed", 1, [])


async def test_who_leaves_a_run_that_nobody_else_reads_cleans_up(cluster: Cluster) -> None:
    """A terminal that is closed when the run has just ended: that takes a moment, and nobody else would do it."""
    controller = started(cluster)

    async def leave() -> None:
        await until(lambda: controller.state.phase == "follow")
        await end_all(cluster, 0, 3)
        await until(lambda: (controller.stored.path / FILE).exists())
        controller.request_detach()

    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert cluster.left() == []


async def test_who_leaves_while_another_is_to_judge_records_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all that the job asks for is known here; the mark of the one who leaves is gone."""
    monkeypatch.setattr(others, "OTHERS_SECONDS", 1000.0)
    controller = started(cluster)
    controller.attempt.plan = replace(controller.plan, unchecked=("same",))
    folder = FOLDER.format("h1")

    async def leave() -> None:
        await until(lambda: f"{folder}/reader-{controller.attempt.run.reader}" in cluster.hosts[0].files)
        cluster.hosts[0].files[f"{folder}/reader-another"] = b""
        await end_all(cluster, 0, 0)
        await until(lambda: controller.tracker.all_in)
        controller.request_detach()

    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit, controller.recorded) == ("detached", 0, None)
    assert f"{folder}/reader-{controller.attempt.run.reader}" not in cluster.hosts[0].files
    assert not (controller.stored.path / FILE).exists()
    assert [len(host.containers) for host in cluster.hosts] == [1, 1]


@pytest.mark.parametrize(("verb", "hung", "there"), [("visit", 8, True), ("record", 2, True), ("record", 8, False)])
async def test_hosts_that_hang_are_not_waited_for_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, hung: int, there: bool
) -> None:
    """The verdict is offered to those that answer; where many hang only when they are to write it, to few."""
    many = Cluster(tmp_path, 9)
    use_fake_follower(monkeypatch, many.connector)
    monkeypatch.setattr(visits, "VISIT_SECONDS", 0.4)
    monkeypatch.setattr(conclude, "RECORD_SECONDS", 0.4)
    monkeypatch.setattr(conclude, "OFFER_SECONDS", 60.0 if there else 1.0)
    controller = started(many)
    last = many.hosts[-1]
    seen: list[bool] = []
    last.fails["rm"] = lambda _: seen.append(f"{FOLDER.format(last.name)}/verdict" in last.files)  # type: ignore[assignment, func-returns-value, return-value]

    async def end() -> None:
        await until(lambda: controller.state.phase == "follow")
        for host in many.hosts[:hung]:
            host.hold(verb)
        await end_all(many, *[0] * 9)

    ended = await many.drive(controller, end())
    assert (ended.outcome, seen) == ("succeeded", [there])
    asked = [host.at[verb].is_set() for host in many.hosts[:hung]]
    assert sum(asked) == hung if verb == "visit" else 1 <= sum(asked) <= 3


async def test_containers_removed_while_nobody_followed_are_said_and_blamed_on_nobody(cluster: Cluster) -> None:
    """`docker container prune`: how they ended is not known, and that what they said is missing is said."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    await end_all(cluster, 0, 0)
    cluster.hosts[0].containers.clear()
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.exit, ended.failure) == ("unknown", 6, None)
    assert "rank 0 on h1: its container was removed before its end was seen" in cluster.said()
    assert "nothing that it said is here" in cluster.said()
    assert "rank 1" not in cluster.said()


async def test_an_end_that_nobody_can_know_any_more_stays_with_the_failure_it_names(cluster: Cluster) -> None:
    """A container was removed unread, and the other rank failed: whoever comes after the clean-up says the same."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    await end_all(cluster, 0, 3)
    cluster.hosts[0].containers.clear()
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert ended.failure is not None and ended.failure.rank == 1
    assert cluster.left() == []
    later = await again(cluster, controller)
    assert (later.outcome, later.exit, later.failure) == (ended.outcome, ended.exit, ended.failure)


async def test_the_duration_is_the_run_s_and_not_that_of_the_attach(cluster: Cluster) -> None:
    """It began long before it was taken up."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    await end_all(cluster, 0, 0)
    ended = await again(cluster, controller, began=controller.attempt.run.began - 100.0)
    assert 100.0 <= ended.took < 200.0
    assert cluster.of(RunOpened)[0].began == controller.attempt.run.began - 100.0


async def test_a_roll_back_that_was_killed_is_finished_as_what_it_was(cluster: Cluster) -> None:
    """A launch that failed on one host: nothing outside distui is blamed, and no task is called lost that never was."""
    controller = started(cluster)
    cluster.hosts[1].fails["run"] = Completed((), 125, b"", b"docker: no such runtime\n")
    reached = cluster.hosts[0].hold("rm")

    async def drive() -> None:
        async for _ in controller.batches():
            pass

    await controller.__aenter__()
    driving = asyncio.create_task(drive())
    await reached.wait()
    before = (controller.stored.path / "events.ndjson").read_bytes()
    assert controller._driver is not None
    controller._driver.cancel()
    driving.cancel()
    cluster.hosts[0].gates.clear()
    cluster.hosts[0].fails["rm"] = SessionLost("h1", "h1: closed")
    await asyncio.gather(controller._driver, driving, return_exceptions=True)
    await asyncio.gather(*(host.link.close() for host in controller.hosts.values()))
    (controller.stored.path / "events.ndjson").write_bytes(before)
    del cluster.hosts[0].fails["rm"]
    stopping = cluster.controller(controller.plan, adopted=True)
    stopping.request_stop("user")
    cluster.events.clear()
    ended = await cluster.drive(stopping)
    assert (ended.outcome, ended.exit, ended.failure, ended.leftovers) == ("launch_failed", 5, None, ())
    assert "removed" not in cluster.said() and "not found" not in cluster.said()
    assert cluster.left() == []


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize("verb", ["record", "rm"])
async def test_what_is_recorded_has_no_value_of_a_secret(cluster: Cluster, verb: str) -> None:
    """A distui that did not know the value wrote the log, and was killed before the verdict, or wrote that, too."""
    plan = cluster.plan(launch="beef", secrets=("HF_TOKEN",))
    starting = cluster.controller(plan, secrets={"HF_TOKEN": SECRET}, detach=True)
    starting.stored.write_plan(to_json(plan))
    await cluster.drive(starting)
    cluster.hosts[1].files["log-1"] = f"ValueError: no such user: {SECRET}\n".encode()
    await killed_at(cluster, cluster.controller(plan, adopted=True), verb, 3)
    assert SECRET in starting.stored.rank_log(1).read_text()
    (starting.stored.path / FILE).unlink(missing_ok=True)  # as on another machine: what the hosts have counts
    del cluster.hosts[1].files["log-1"]
    ended = await cluster.run(plan, adopted=True, secrets={"HF_TOKEN": SECRET})
    assert ended.failure is not None and ended.failure.rank == 1
    recorded = (starting.stored.path / FILE).read_text()
    assert SECRET not in recorded and "no such user: ***" in recorded


async def test_a_host_that_comes_back_brings_no_rank_of_an_ended_run_to_life(cluster: Cluster) -> None:
    """It was out of reach when the run was taken up, to be cleaned up: its ranks ended as it is recorded."""
    controller = started(cluster)
    await killed_at(cluster, controller, "rm", 3)
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 does not answer")

    async def back() -> None:
        await until(lambda: any(e.host == "h2" and e.state == "lost" for e in cluster.of(HostChanged)))
        await until(lambda: any(e.rank == 1 and e.exit == 3 for e in cluster.of(RankChanged)))
        del cluster.connector.down["h2"]
        await cluster.hosts[1].news.put(Back("host"))

    ended = await _again_with(cluster, controller, back())
    assert (ended.outcome, ended.exit, ended.leftovers) == ("failed", 1, ())
    assert [(e.state, e.exit) for e in cluster.of(RankChanged) if e.rank == 1][-1] == ("exited", 3)


async def _again_with(cluster: Cluster, controller: RunController, meanwhile: Awaitable[None]) -> RunEnded:
    cluster.events.clear()
    return await cluster.run(controller.plan, meanwhile, adopted=True)


async def test_what_outlived_a_run_on_a_host_out_of_reach_is_stopped(cluster: Cluster) -> None:
    """torchrun could do without that node, and the run succeeded: who cleans up does not wait for it to end."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    cluster.hosts[0].containers[0].end(0)
    result = RunEnded(time.time(), "succeeded", 0)
    assert keep_here(controller.stored, record_of(controller.attempt.token, "ann@desk", result, controller.state))
    ended = await again(cluster, controller)
    assert (ended.outcome, ended.exit, ended.leftovers) == ("succeeded", 0, ())
    assert cluster.left() == []


async def test_a_log_that_somebody_else_has_not_got_keeps_its_container(cluster: Cluster, tmp_path: Path) -> None:
    """Here the log of rank 1 was emptied: a reader elsewhere that is done leaves its container. Who stops the run
    removes all.
    """
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    elsewhere, first, second = two_readers(cluster, tmp_path, controller)
    first.tracker.unread_tasks = lambda: frozenset({1})  # type: ignore[method-assign]

    async def both_read() -> None:
        held = cluster.hosts[1].files
        await until(
            lambda: all(f"{FOLDER.format('h2')}/reader-{run.attempt.run.reader}" in held for run in (first, second))
        )
        await end_all(cluster, 0, 0)

    await asyncio.gather(cluster.drive(first), elsewhere.drive(second), both_read())
    assert [len(host.containers) for host in cluster.hosts] == [0, 1]
    assert "where somebody else reads it, so its container is kept" in elsewhere.said()

    later = await elsewhere.run(controller.plan, adopted=True)
    assert (later.outcome, [len(host.containers) for host in cluster.hosts]) == ("succeeded", [0, 1])
    assert [left.partition(", ")[2] for left in later.leftovers] == [
        "kept for its log, which somebody else has not got"
    ]
    ended = await elsewhere.run(controller.plan, adopted=True, keep=False)
    assert (ended.outcome, cluster.left()) == ("succeeded", [])


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "stopped"])
@pytest.mark.parametrize("back", [True, False], ids=["back", "away"])
async def test_who_attaches_after_a_host_was_given_up_tells_the_end_that_was_seen(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, fails: bool, back: bool
) -> None:
    """What was read and removed elsewhere was removed by nobody else: the first failure stays, or that it was stopped.
    What is left on the host is stopped; while that is still away nobody knows of it.
    """
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    host, other = cluster.hosts[1], cluster.hosts[0]
    gone = dict.fromkeys(("ps", "cat", "stop"), HostUnreachable("h2", "h2 does not answer"))
    controller = started(cluster, limits=Limits(lost=0.05))

    async def cut() -> None:
        await until(lambda: controller.state.phase == "follow")
        host.fails |= gone
        host.news.put_nowait(Lost("host", "h2: connection lost"))
        if fails:
            other.containers[0].end(3)

    first = await cluster.drive(controller, cut())
    assert (first.outcome, first.exit, other.containers) == ("unknown", 6, [])
    assert (first.failure.rank if first.failure is not None else None) == (0 if fails else None)
    if back:
        for name in gone:
            del host.fails[name]
    ended = await again(cluster, controller, limits=Limits(lost=0.05))

    outcome, code = (("failed", 1) if fails else ("stopped", 6)) if back else ("unknown", 6)
    assert (ended.outcome, ended.exit) == (outcome, code)
    assert (ended.failure and ended.failure.where) == (first.failure and first.failure.where)
    assert "removed by somebody else" not in cluster.said()
    ranks = {e.rank: e.state for e in cluster.of(RankChanged)}
    assert ranks == {0: "exited" if fails else "stopped", 1: "stopped" if back else "lost"}
    assert ((cluster.left() == []), end_here(controller.stored) is not None) == (back, back)


@pytest.mark.parametrize("asked", [True, False], ids=["stop", "attach"])
async def test_who_comes_after_a_stop_that_left_a_host_out_tells_that_stop(cluster: Cluster, asked: bool) -> None:
    """What the first stop read and removed has not disappeared, though nothing is left to stop on the host that is
    back: its engine had ended the rank there before it could be stopped.
    """
    host = cluster.hosts[1]
    gone = dict.fromkeys(("ps", "cat", "stop"), HostUnreachable("h2", "h2 does not answer"))
    controller = started(cluster, limits=Limits(lost=0.05))

    async def cut() -> None:
        await until(lambda: controller.state.phase == "follow")
        host.fails |= gone
        host.news.put_nowait(Lost("host", "h2: connection lost"))
        controller.request_stop("user")

    first = await cluster.drive(controller, cut())
    assert (first.outcome, first.exit, cluster.hosts[0].containers) == ("unknown", 6, [])
    host.containers[0].end(255)
    for name in gone:
        del host.fails[name]
    later = cluster.controller(controller.plan, adopted=True)
    if asked:
        later.request_stop("user")
    cluster.events.clear()
    ended = await cluster.drive(later)

    assert (ended.outcome, ended.exit, ended.failure, cluster.left()) == ("stopped", 143, None, [])
    assert "before its end was seen" not in cluster.said()
    ranks = {e.rank: e.state for e in cluster.of(RankChanged)}
    assert ranks == {0: "stopped", 1: "removed"}


async def test_a_task_that_was_not_found_by_the_first_stop_ended_out_of_reach(cluster: Cluster, tmp_path: Path) -> None:
    """Stopped from a machine that had no record of the run, while the engine of a host was down: once that is back no
    rank of it is left waiting, and nothing may still run.
    """
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    await until(lambda: all(host.containers for host in cluster.hosts))
    elsewhere, *_ = two_readers(cluster, tmp_path, controller)
    part = replace(controller.plan, tasks=controller.plan.tasks[:1])
    down = {"h2": Trouble("daemon", "the container engine's daemon does not run")}
    for plan, unreachable in ((part, down), (controller.plan, {})):
        stopping = elsewhere.controller(plan, adopted=True, unreachable=unreachable)
        stopping.stored.write_plan(to_json(plan))
        stopping.request_stop("user")
        ended = await elsewhere.drive(stopping)
        if plan is part:
            assert (ended.outcome, ended.exit) == ("unknown", 6)
            assert "may still be running" in ended.warnings[0]
            cluster.hosts[1].containers[0].end(255)

    assert (ended.outcome, ended.exit, ended.warnings, cluster.left()) == ("stopped", 143, (), [])
    assert {e.rank: e.state for e in elsewhere.of(RankChanged)} == {0: "stopped", 1: "removed"}


@pytest.mark.parametrize("verdict", [True, False])
async def test_who_comes_when_a_run_is_being_removed(cluster: Cluster, tmp_path: Path, verdict: bool) -> None:
    """The hosts had its containers when they were asked, and have none when they are read: its end is what is recorded
    there, else nobody's to tell. No line of it is here, which is said.
    """
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    elsewhere, here, late = two_readers(cluster, tmp_path, controller, frozenset({0, 1}))
    await asyncio.gather(cluster.drive(here), end_all(cluster, 0, 3))
    assert cluster.left() == []
    if verdict:
        record = end_here(here.stored)
        assert record is not None
        for host in cluster.hosts:
            files = {"launched": f"me@here\n1\n{controller.attempt.token}\n", "verdict": record.text("r1")}
            host.files |= {f"{FOLDER.format(host.name)}/{name}": text.encode() for name, text in files.items()}
    ended = await elsewhere.drive(late)
    assert (ended.outcome, ended.failure and ended.failure.rank) == (("failed", 1) if verdict else ("unknown", None))
    assert elsewhere.said().count("nothing that it said is here") == 2


@pytest.mark.parametrize("late", [False, True])
async def test_a_stop_asked_of_who_keeps_containers_removes_them(cluster: Cluster, late: bool) -> None:
    """`run --keep`, and `distui stop` beside it: while ranks run, and when the run has just ended."""
    plan = cluster.plan(launch="beef", keep=True)
    controller = cluster.controller(plan)
    controller.stored.write_plan(to_json(plan))
    other = f"{FOLDER.format('h1')}/reader-another"

    async def stop() -> None:
        await until(lambda: controller.state.phase == "follow")
        if late:
            cluster.hosts[0].files[other] = b""
            await end_all(cluster, 0, 0)
            await until(lambda: (controller.stored.path / FILE).exists())
        controller.stored.ask_stop()
        cluster.hosts[0].files.pop(other, None)

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, cluster.left()) == ("succeeded" if late else "stopped", [])


@pytest.mark.parametrize("seconds", [15.0, 0.5])
async def test_a_host_that_does_not_say_who_reads_keeps_its_container(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """It hangs, or the look at all hosts takes too long: the others are asked once more. A stop removes all."""
    monkeypatch.setattr(visits, "VISIT_SECONDS", 0.7)
    monkeypatch.setattr(others, "OTHERS_SECONDS", seconds)
    controller = started(cluster)

    async def hang() -> None:
        await until(lambda: controller.state.phase == "follow")
        cluster.hosts[1].hold("visit")
        await end_all(cluster, 0, 0)

    ended = await cluster.drive(controller, hang())
    assert (ended.outcome, [len(host.containers) for host in cluster.hosts]) == ("succeeded", [0, 1])
    assert ended.leftovers == ("h2: distui-r1-1, kept for its log, which somebody else may not have got",)
    assert "the log of rank 1 on h2 may not be complete where somebody else reads it, so its" in cluster.said()
    ended = await again(cluster, controller, keep=False)
    assert (ended.outcome, ended.leftovers, [len(host.containers) for host in cluster.hosts]) == (
        "succeeded",
        (),
        [0, 0],
    )


@pytest.mark.parametrize("marks", [{"unread-another": b"1"}, {"reader-another": b""}])
async def test_a_host_that_says_so_late_keeps_what_others_have_not_got(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, marks: dict[str, bytes]
) -> None:
    """It answers when something is about to be removed: a log of another reader is unread, or somebody reads."""
    monkeypatch.setattr(others, "OTHERS_SECONDS", 0.5)
    controller = started(cluster)
    cluster.hosts[1].files |= {f"{FOLDER.format('h2')}/{name}": data for name, data in marks.items()}
    looks = others._looks

    async def none_in_time(*given: Any, **options: float) -> list[Visit]:
        await looks(*given, **options)
        return []

    monkeypatch.setattr(others, "_looks", none_in_time)
    ended = await cluster.drive(controller, end_all(cluster, 0, 0))
    assert (ended.outcome, [len(host.containers) for host in cluster.hosts]) == ("succeeded", [0, 1])
    assert len(ended.leftovers) == 1


async def test_a_stop_of_a_run_that_is_taken_up_is_said_on_its_hosts(cluster: Cluster) -> None:
    """`distui stop` where nobody here follows it: before the ranks are stopped, for those who do elsewhere."""
    controller = started(cluster, detach=True)
    await cluster.drive(controller)
    stopping = cluster.controller(controller.plan, adopted=True, stopped_as="bob@laptop")
    stopping.request_stop("user", exit=ExitCode.TERMINATED)
    await cluster.drive(stopping)
    for host in cluster.hosts:
        said = [data for path, data, _ in host.puts if path.endswith("/stopped")]
        assert len(said) == 1
        assert said[0].startswith(f"bob@laptop\nuser 143 {controller.plan.stop_grace:g}\nmark ".encode())


async def test_a_rank_that_is_still_read_keeps_its_container(cluster: Cluster) -> None:
    """A host out of reach is given up while another's log is not read to its end."""
    controller = started(cluster)
    track = controller.tracker.tracks[0]
    assert controller.tracker.unread_tasks() == {0, 1}
    track.phase = "drained"
    assert controller.tracker.unread_tasks() == {1}
    words = cleanup._kept(controller, controller.plan.tasks[1])
    assert "is not complete here, so its container is kept: `distui stop r1` reads the rest" in words
    controller.tracker.lost_since["h2"] = 1.0
    assert controller.tracker.unread_tasks() == set()


async def test_who_can_not_check_all_leaves_the_verdict_to_who_can(cluster: Cluster, tmp_path: Path) -> None:
    """`success.regex` is known where the run was started; elsewhere only that there is one."""
    plan = cluster.plan(launch="beef", success=Success(regex="final loss"))
    starting = cluster.controller(plan, detach=True)
    starting.stored.write_plan(to_json(plan))
    await cluster.drive(starting)
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    owner = cluster.controller(plan, adopted=True)
    other = elsewhere.controller(replace(plan, success=None, unchecked=("success.regex",)), adopted=True)
    held = cluster.hosts[0].files

    async def first_done_elsewhere() -> None:
        marks = [f"{FOLDER.format('h1')}/reader-{run.attempt.run.reader}" for run in (owner, other)]
        await until(lambda: all(mark in held for mark in marks))
        owner.attempt.watch.take = _once(owner.attempt.watch.take, until(lambda: other.tracker.all_in))  # type: ignore[method-assign]
        await end_all(cluster, 0, 0)

    one, two, _ = await asyncio.gather(cluster.drive(owner), elsewhere.drive(other), first_done_elsewhere())
    assert (one.outcome, one.exit) == (two.outcome, two.exit) == ("failed", 1)
    assert one.failure is not None and "success.regex" in one.failure.words
    assert cluster.left() == []


def _once(take: Callable[[str, FollowEvent], Awaitable[None]], condition: Awaitable[None]) -> Any:
    """The same, held up until the condition holds."""
    waiting = asyncio.ensure_future(condition)

    async def later(host: str, event: FollowEvent) -> None:
        await waiting
        await take(host, event)

    return later


async def here(argv: Sequence[str], data: bytes = b"") -> Completed:
    """Run a command on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=-1, stdout=-1, stderr=-1)
    out, err = await process.communicate(data)
    return Completed(tuple(argv), process.returncode or 0, out, err)


async def test_files_of_the_job_are_no_marks_of_readers(tmp_path: Path) -> None:
    """The run's folder may hold a copy of its code, with files of any name."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))
    (folder / "code").mkdir()
    (folder / "code" / "reader-csv.py").write_text("pass\n")

    async def others(reader: str, act: Act) -> int:
        return (await visit(here, "h1", str(folder), "beef-1", reader, act)).others

    assert [await others("a", "mark"), await others("b", "mark"), await others("a", "look")] == [0, 1, 1]
    assert [await others("b", "leave"), await others("a", "look")] == [1, 0]


async def test_who_removes_the_folder_learns_who_waits_for_the_end(tmp_path: Path) -> None:
    """Marks of those who follow are not of them, nor old ones, nor those that were carried there and not touched."""
    folder = tmp_path / "home" / "h1" / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))
    marks: dict[str, tuple[Act, ...]] = {
        "aa": ("mark",),
        "bb-wait": ("mark",),
        "cc-wait": ("mark", "next"),
        "dd-wait": ("mark", "leave"),
        "ee-wait": ("carry",),
        "ff-wait": ("carry", "mark"),
        "0a-wait": ("mark", "carry"),
        "0b-wait": ("mark",),
        "0c-wait": ("mark", "next", "leave"),
        "0d": ("mark", "await"),
        "0e": ("mark", "await", "leave"),
        "0f": ("begins",),
    }
    for reader, acts in marks.items():
        for act in acts:
            await visit(here, "h1", str(folder), "beef-1", reader, act)
    os.utime(folder / "reader-0b-wait", (time.time() - 100,) * 2)
    (folder / "reader-x y;$(z)-wait").touch()
    said = (await here(("sh", "-c", f'{WAITERS_IN}waiters_in "$1"', "sh", str(folder)))).text

    assert waiters_of(said) == {"bb-wait", "cc-wait", "ff-wait", "0a-wait", "0d"}

    seen = await visit(here, "h1", str(folder), "beef-1", "aa")
    assert (seen.others, seen.judges) == (7, 2)
    assert (await visit(here, "h1", str(folder), "beef-1", "aa", gone="0f")).judges == 1
    await visit(here, "h1", str(folder), "beef-1", "10", "carry")
    assert (await visit(here, "h1", str(folder), "beef-1", "zz", "look")).names == frozenset(), "the word is no name"


@pytest.mark.parametrize("run", ["r", "reader-csv", "begins-csv"])
async def test_who_begins_the_next_attempt_has_a_mark_of_its_own(tmp_path: Path, run: str) -> None:
    """It outlives the reader's mark once the end is recorded; who goes on in its place, or leaves, takes it away. A run
    may be called as marks are.
    """
    folder = tmp_path / run
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))

    async def counts(reader: str, act: Act) -> tuple[int, int, int]:
        seen = await visit(here, "h1", str(folder), "beef-1", reader, act)
        return seen.others, seen.begins, seen.silent

    assert await counts("aa", "begins") == (0, 0, 0)
    assert await counts("bb", "mark") == (1, 1, 1)
    seen = await record(here, "h1", str(folder), "beef-1", "aa", b"{}\n")
    assert (seen.others, seen.begins, seen.silent) == (1, 0, 0)
    assert await counts("bb", "look") == (0, 1, 0)
    await counts("aa", "mark")
    assert await counts("bb", "look") == (1, 0, 0)
    await counts("aa", "begins")
    await counts("aa", "leave")
    assert await counts("bb", "look") == (0, 0, 0)
    await counts("aa", "begins")
    os.utime(folder / "begins-aa", (time.time() - 100,) * 2)
    assert await counts("bb", "look") == (1, 0, 0)


async def test_a_look_at_who_reads_starts_one_program(tmp_path: Path) -> None:
    """It is done at each begin and end of a run, and while others read: what the shell can count takes no process."""
    folder, programs = tmp_path / "r", tmp_path / "bin"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))
    programs.mkdir()
    for name in ("find", "wc", "grep", "rm", "dd", "tr", "cat", "ln", "stat", "sync"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} >>{tmp_path}/calls\nexec {shutil.which(name)} "$@"\n')
        (programs / name).chmod(0o755)

    async def noted(argv: Sequence[str]) -> Completed:
        return await here((shutil.which("env") or "env", f"PATH={programs}:/bin", *argv))

    for reader in ("aa", "bb-wait"):
        await visit(here, "h1", str(folder), "beef-1", reader, "mark")
    seen = await visit(noted, "h1", str(folder), "beef-1", "aa")
    assert (seen.others, seen.judges) == (1, 0)
    assert (tmp_path / "calls").read_text().split() == ["find"]


async def test_a_verdict_is_written_whole_or_not_at_all_and_once(tmp_path: Path) -> None:
    """A connection may break on the way; who was killed beside the first verdict changes nothing of it later."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))
    before = sorted(path.name for path in folder.iterdir())

    async def breaks(argv: Sequence[str], data: bytes) -> Completed:
        return await here(argv, data[:-1])

    with pytest.raises(HostCommandError):
        await record(breaks, "h1", str(folder), "beef-1", "aa", b"{1}\n")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (await record(here, "h1", str(folder), "beef-1", "aa", b"{1}\n")).verdict == "{1}\n"
    (folder / ".verdict-bb").hardlink_to(folder / "verdict")
    assert (await record(here, "h1", str(folder), "beef-1", "bb", b"{2}\n")).verdict == "{1}\n"
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "verdict"])
    assert not (await record(here, "h1", str(folder), "beef-2", "aa", b"{3}\n")).ours


async def test_who_can_not_record_the_end_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Where the disks of all hosts are full, two readers at the run's end waited for each other: both have read all."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))

    async def full(argv: Sequence[str], data: bytes) -> Completed:
        return await here(("sh", "-c", "ulimit -f 0; trap '' XFSZ; exec \"$@\"", "sh", *argv), data)

    await visit(here, "h1", str(folder), "beef-1", "aa", "mark")
    assert (await visit(here, "h1", str(folder), "beef-1", "bb", "mark")).others == 1
    with pytest.raises(HostCommandError):
        await record(full, "h1", str(folder), "beef-1", "aa", b"{1}\n")
    assert (await visit(here, "h1", str(folder), "beef-1", "bb")).others == 0


async def test_word_of_unread_logs_is_for_others_and_stays(tmp_path: Path) -> None:
    """Each reader's own; what is no task in such a file counts for nothing."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))

    async def seen(reader: str, act: Act = "look", tasks: Sequence[int] = ()) -> tuple[frozenset[int], str]:
        found = await visit(here, "h1", str(folder), "beef-1", reader, act, tasks)
        return found.unread, found.verdict

    assert await seen("a", "unread", (2, 11)) == (frozenset(), "")
    await seen("b", "unread", (5,))
    recorded = await record(here, "h1", str(folder), "beef-1", "a", b"{}\n")
    assert (recorded.unread, recorded.verdict) == ({5}, "{}\n")
    assert await seen("c", "leave") == ({2, 5, 11}, "{}\n")
    (folder / "unread-a").write_text("x -1 99999999 7\n8")
    assert (await seen("b"))[0] == {7}


def _pipe(verdict: Path) -> None:
    os.mkfifo(verdict)


def _huge(verdict: Path) -> None:
    with verdict.open("wb") as file:
        file.truncate(8 << 20)


def _link(verdict: Path) -> None:
    verdict.symlink_to("/etc/passwd")


@pytest.mark.parametrize("forge", [_pipe, _huge, _link])
async def test_what_is_no_verdict_is_not_read_and_keeps_nobody_waiting(
    tmp_path: Path, forge: Callable[[Path], None]
) -> None:
    """A pipe that nobody writes to, a file that is too long, a link."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), Claim("ann@desk", 0.0, "beef-1"))
    forge(folder / "verdict")

    async def soon(argv: Sequence[str]) -> Completed:
        done = await here(("timeout", "5", *argv))
        assert done.status != 124
        return done

    seen = await visit(soon, "h1", str(folder), "beef-1", "a", "unread", (2,))
    assert (seen.ours, seen.others, seen.verdict) == (True, 0, "")
    (folder / "verdict").unlink()
    assert (await record(here, "h1", str(folder), "beef-1", "a", b"{}\n")).verdict == "{}\n"
