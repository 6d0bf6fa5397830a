"""Looking on at a run (`attach --view`): on from its hosts when its owner leaves, and into its next attempts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.cli.printing.words import report
from distui.cluster.attach import beside, leftover, live_run
from distui.cluster.attach.places import RunLocation
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, PlanProblem
from distui.plan.model import NoPlan, RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.replan import NextAttempt
from distui.runs.control.controller import RunController
from distui.runs.ending import ask_ranks, next_attempt, others
from distui.runs.hosts.readers import reader_id
from distui.runs.insight.seen.answers import Collective, Group, Process
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    LogLines,
    Notice,
    PhaseBegun,
    RankChanged,
    RankSilent,
    RanksMoved,
    RunEnded,
    RunOpened,
    RunStalled,
)
from distui.runs.store.runs import AlreadyFollowed, StoredRun
from distui.runs.task.host_run import HostRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster, facts_of, plan_for, two_probed_hosts, until

HOSTS = (Host("h1"), Host("h2"))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; nothing is waited for long."""
    made = two_probed_hosts(tmp_path / "state" / "distui", monkeypatch)
    monkeypatch.setattr(beside, "HANDED_OVER_SECONDS", 0.0)
    monkeypatch.setattr(leftover, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(others, "LOOK_SECONDS", 0.01)
    return made


@pytest.fixture
def settings(tmp_path: Path) -> ClusterSettings:
    """Of somebody who only looks on."""
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    return ClusterSettings(environ, readonly=True)


def contents(stored: StoredRun) -> dict[str, bytes]:
    """All that is recorded of a run here."""
    return {str(path.relative_to(stored.path)): path.read_bytes() for path in stored.path.rglob("*") if path.is_file()}


def said(events: Sequence[Event]) -> list[str]:
    """The lines in them."""
    return [line.text for event in events if isinstance(event, LogLines) for line in event.lines]


def seen_beside(
    cluster: Cluster, settings: ClusterSettings, plan: RunPlan, stored: StoredRun, folder: Path
) -> beside.Beside:
    """Somebody who looks on at a run that another distui here has."""

    @contextlib.asynccontextmanager
    async def connected(hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        yield cluster.connector

    def made() -> Path:
        folder.mkdir()
        return folder

    place = RunLocation("r1", stored, HOSTS)
    reader = live_run.reader_of(settings, place)
    return live_run.beside(settings, place, plan, reader, connected, made)


async def test_a_view_goes_on_from_the_hosts_when_the_owner_has_left(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line once, the end as it is, and what is recorded here stays as the owner left it. That one was killed:
    though its marks are there nothing is waited for, nor for another view.
    """
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan, detach=True)
    owner.stored.write_plan(to_json(plan))
    await cluster.drive(owner)
    owner.stored.rank_log(0).write_text("early\n")  # written, and not yet in a checkpoint
    before = contents(owner.stored)
    monkeypatch.setattr(others, "OTHERS_SECONDS", 1000.0)
    for number, host in enumerate(cluster.hosts):
        host.files[f"/home/u/.local/state/distui/hosts/{host.name}/r1/reader-{reader_id(owner.stored)}"] = b""
        host.files[f"/home/u/.local/state/distui/hosts/{host.name}/r1/reader-aa-wait"] = b""
        host.files[f"log-{number}"] = b"early\nlate\n"
    events: list[Event] = []
    async with asyncio.timeout(60), seen_beside(cluster, settings, plan, owner.stored, tmp_path / "copy") as view:
        ending = asyncio.create_task(_end_when_followed(cluster, view))
        async for batch in view.batches():
            events += batch
        await ending
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.exit, ended.log_dir) == ("succeeded", 0, "")
    ranks = {event.rank: event.state for event in events if isinstance(event, RankChanged)}
    assert ranks == {0: "exited", 1: "exited"}
    assert sorted(said(events)) == ["early", "late", "late"]
    assert view.stored.path == tmp_path / "copy" / "runs" / "r1"
    assert contents(owner.stored) == before
    assert cluster.left() != []


async def _end_when_followed(cluster: Cluster, view: beside.Beside) -> None:
    await until(lambda: view.owner is not None and view.owner.state.phase == "follow")
    for host in cluster.hosts:
        host.containers[0].end(0)


async def test_a_view_ends_when_neither_an_owner_nor_the_hosts_tell(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the hosts said is in its last words."""

    async def gone(*_: object) -> None:
        raise ContactLost("run r1 is on no host that answers")

    monkeypatch.setattr(live_run, "attach", gone)
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan, detach=True)
    owner.stored.write_plan(to_json(plan))
    await cluster.drive(owner)
    view = seen_beside(cluster, settings, plan, owner.stored, tmp_path / "copy")
    events = [event async for batch in view.batches() for event in batch]
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    words = "nobody here follows r1 any more, and its hosts don't tell: run r1 is on no host that answers"
    assert ended.warnings == (words,)
    assert "may still run" in "\n".join(line for line, _ in report(ended, view.state))


class Attempts:
    """A run with one retry: rank 1 ends with 3, then all is well at once, or `lasts`, or no other attempt `begins`."""

    def __init__(self, cluster: Cluster, *, begins: bool = True, lasts: bool = False) -> None:
        self.cluster = cluster
        self.begins = begins
        self.exits = {} if lasts else {0: 0, 1: 0}
        self.first = plan_for(*cluster.names, retries=1, launch="beef")

    async def __call__(self, attempt: int, spent: float, taken: object = None) -> NextAttempt | NoPlan:
        """See AttemptPlanner."""
        if not self.begins:
            return NoPlan((PlanProblem("hosts", None, "no host is left"),))
        for number, host in enumerate(self.cluster.hosts):
            host.engine.exits = dict(self.exits)
            host.files[f"log-{number}"] = b"again\n"
        facts = {name: facts_of(name, 11 + n) for n, name in enumerate(self.cluster.names)}
        return NextAttempt(plan_for(*self.cluster.names, attempt=attempt, facts=facts, retries=1, launch="beef"), facts)


BOTH = pytest.mark.parametrize("looks", [True, False], ids=["view", "attach"])
"""Who comes from another machine: one that only looks on, one that takes the run up."""


async def from_elsewhere(cluster: Cluster, folder: Path, *, looks: bool) -> RunController:
    """Somebody on another machine than the run's owner."""
    settings = ClusterSettings({"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}, readonly=looks)
    place = RunLocation("r1", None, HOSTS)
    live = await live_run.attach(settings, cluster.connector, place)
    if looks:
        return live_run.view(settings, cluster.connector, place, live, folder)
    return live_run.adopt(settings, cluster.connector, place, live)


async def read(reader: RunController, events: list[Event]) -> None:
    """Follow it to the end."""
    async with reader:
        async for batch in reader.batches():
            events += batch


def marked(cluster: Cluster, readers: int) -> bool:
    """Whether as many have left their mark on each host."""
    return all(sum("/reader-" in path for path in host.files) >= readers for host in cluster.hosts)


@BOTH
async def test_who_comes_from_elsewhere_goes_on_with_the_next_attempt(
    cluster: Cluster, tmp_path: Path, *, looks: bool
) -> None:
    """Though that one is over at once: its owner waits until they have read it."""
    again, events = Attempts(cluster), list[Event]()
    owner = cluster.controller(again.first, planner=again)

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow")
        reader = await from_elsewhere(cluster, tmp_path / "elsewhere", looks=looks)
        reading = asyncio.create_task(read(reader, events))
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events) and marked(cluster, 2))
        cluster.hosts[1].containers[0].end(3)
        await reading

    ended = await cluster.drive(owner, followed())
    seen = events[-1]
    assert isinstance(seen, RunEnded)
    assert (seen.outcome, seen.exit, seen.attempt) == (ended.outcome, ended.exit, ended.attempt) == ("succeeded", 0, 2)
    assert [event.attempt for event in events if isinstance(event, RunOpened)] == [1, 2]
    (past,) = (event for event in events if isinstance(event, AttemptEnded))
    assert (past.attempt, past.log_dir == "") == (1, looks)
    assert said(events).count("again") == 2
    assert cluster.left() == []


async def test_a_stop_asked_for_as_the_next_attempt_is_taken_up_ends_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no stop of the one before, whose hosts are let go of meanwhile."""
    again, events = Attempts(cluster, lasts=True), list[Event]()
    owner, close = cluster.controller(again.first, planner=again), Attempt.close

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow")
        reader = await from_elsewhere(cluster, tmp_path / "elsewhere", looks=False)

        async def closing(attempt: Attempt) -> None:
            await close(attempt)
            if attempt is first:
                reader.request_stop("user")

        first = reader.attempt
        monkeypatch.setattr(Attempt, "close", closing)
        reading = asyncio.create_task(read(reader, events))
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events) and marked(cluster, 2))
        cluster.hosts[1].containers[0].end(3)
        await reading

    ended = await cluster.drive(owner, followed())
    assert (ended.outcome, ended.attempt) == ("stopped", 2)
    assert cluster.left() == []


async def failed_under(
    cluster: Cluster, folder: Path, again: Attempts, *, looks: bool, leaves: bool = False
) -> list[Event]:
    """The events of somebody elsewhere while the first attempt of a run fails that its owner follows."""
    owner, events = cluster.controller(again.first, planner=again), list[Event]()

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow")
        reader = await from_elsewhere(cluster, folder, looks=looks)
        reading = asyncio.create_task(read(reader, events))
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events) and marked(cluster, 2))
        cluster.hosts[0].containers[0].end(0)
        cluster.hosts[1].containers[0].end(3)
        await until(lambda: any(isinstance(e, AttemptEnded) for e in events))
        if leaves:
            reader.request_detach()
        await reading

    await cluster.drive(owner, followed())
    return events


def notices(events: Sequence[Event]) -> list[str]:
    """What was said in words."""
    return [event.text for event in events if isinstance(event, Notice)]


@BOTH
async def test_a_next_attempt_that_is_not_begun_is_not_waited_for_without_end(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool
) -> None:
    """The run ends as its attempt did, and why no other is seen is said."""
    monkeypatch.setattr(leftover, "REST_SECONDS", 0.0)
    events = await failed_under(cluster, tmp_path / "elsewhere", Attempts(cluster, begins=False), looks=looks)
    ended = events[-1]
    assert isinstance(ended, RunEnded) and (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 1)
    assert "attempt 2 is not there: the distui that started the run has not begun it in time" in notices(events)


@BOTH
async def test_who_leaves_while_the_next_attempt_is_waited_for_has_seen_no_end(
    cluster: Cluster, tmp_path: Path, *, looks: bool
) -> None:
    """It was asked for: exit 0."""
    again = Attempts(cluster, begins=False)
    events = await failed_under(cluster, tmp_path / "elsewhere", again, looks=looks, leaves=True)
    ended = events[-1]
    assert isinstance(ended, RunEnded) and (ended.outcome, ended.exit) == ("detached", 0)


async def test_who_goes_on_where_the_run_was_started_waits_for_no_other_attempt(
    cluster: Cluster, settings: ClusterSettings
) -> None:
    """Whatever marks are left: the distui that could begin one is gone."""
    first = Attempts(cluster).first
    await cluster.run(first, detach=True)
    for host in cluster.hosts:
        host.files[f"/home/u/.local/state/distui/hosts/{host.name}/r1/begins-aa"] = b""
        host.containers[0].end(3)
    place = RunLocation("r1", settings.store.need("r1"), HOSTS)
    live = await live_run.attach(settings, cluster.connector, place)
    events: list[Event] = []
    async with asyncio.timeout(60):
        await read(live_run.adopt(replace(settings, readonly=False), cluster.connector, place, live), events)
    assert isinstance(events[-1], RunEnded) and (events[-1].outcome, events[-1].attempt) == ("failed", 1)
    assert not any(isinstance(event, AttemptEnded) for event in events)


async def test_whoever_has_the_run_by_now_keeps_what_it_records(cluster: Cluster, settings: ClusterSettings) -> None:
    """Two take the run up as its second attempt runs, of which nothing is recorded here: the one that comes last moved
    the other's plan and logs to those of the first attempt.
    """
    first = Attempts(cluster).first
    await cluster.run(first, detach=True)
    stored, place = settings.store.need("r1"), RunLocation("r1", settings.store.need("r1"), HOSTS)
    live = await live_run.attach(settings, cluster.connector, place)
    live = replace(live, plan=replace(live.plan, attempt=2))
    stored.rank_log(0).write_text("of the other one\n")
    before = contents(stored)
    with stored.followed(), pytest.raises(AlreadyFollowed):
        live_run.adopt(replace(settings, readonly=False), cluster.connector, place, live)
    assert {**contents(stored), "lock": b""} == {**before, "lock": b""}


@BOTH
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "detached"])
async def test_no_attempt_is_waited_for_that_nobody_is_left_to_begin(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool, killed: bool
) -> None:
    """Its owner left the run, or was killed a moment ago and has its marks there: it does not say how it ended."""
    monkeypatch.setattr(others, "OTHERS_SECONDS", 0.5)
    monkeypatch.setattr(others, "READING_SECONDS", 0.5)
    await cluster.run(Attempts(cluster).first, detach=True)
    for host in cluster.hosts if killed else ():
        host.files |= {f"/home/u/.local/state/distui/hosts/{host.name}/r1/{m}-aa": b"" for m in ("reader", "begins")}
    events: list[Event] = []
    reading = asyncio.create_task(read(await from_elsewhere(cluster, tmp_path / "elsewhere", looks=looks), events))
    async with asyncio.timeout(60):
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events))
        cluster.hosts[0].containers[0].end(0)
        cluster.hosts[1].containers[0].end(3)
        await reading
    ended = events[-1]
    assert isinstance(ended, RunEnded) and (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 1)
    words = "only the distui that started the run begins the next attempt, and that one follows it no more"
    assert f"attempt 1 of 2 failed; {words}" in notices(events)
    assert not any(isinstance(event, AttemptEnded) for event in events)


@pytest.mark.parametrize("goes_on", [True, False])
async def test_who_looks_on_from_elsewhere_sees_ranks_go_on_that_say_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool
) -> None:
    """They begin collectives, as the run's owner knows: neither they nor it are said to stand still."""
    owner, events = cluster.controller(plan_for(*cluster.names, launch="beef", stall_after=3.0)), list[Event]()

    async def ask_hosts(*_: Any, **__: Any) -> dict[str, Any]:
        return {}

    def ranks_of(*_: Any) -> list[RankSeen]:
        now = time.time()
        newest = Collective(7, "gloo:all_reduce", "10", "Float", int(now * 1e9), over=True)
        process = Process(7, 1, "python", "R", 1.0, groups={"0": Group("0", "default_pg", (newest,), 7)})
        return [RankSeen(rank, f"h{rank + 1}", process, at=now) for rank in (0, 1) if goes_on]

    monkeypatch.setattr(ask_ranks, "ask_hosts", ask_hosts)
    monkeypatch.setattr(ask_ranks, "ranks_of", ranks_of)

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow")
        reader = await from_elsewhere(cluster, tmp_path / "elsewhere", looks=True)
        reading = asyncio.create_task(read(reader, events))
        wanted = RanksMoved if goes_on else RankSilent
        await until(lambda: any(isinstance(event, wanted) for event in events))
        await asyncio.sleep(1.5)
        for host in cluster.hosts:
            host.containers[0].end(0)
        await reading

    await cluster.drive(owner, followed())
    said = any(isinstance(event, RankSilent | RunStalled) for event in events)
    assert said is not goes_on


@BOTH
async def test_a_run_that_ends_as_somebody_comes_waits_for_that_one(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool
) -> None:
    """Over a slow link it takes a while to find its tasks: by then a mark is there, and each line is read."""
    owner, events, find = cluster.controller(cluster.plan(launch="beef")), list[Event](), HostRun.find
    elsewhere = asyncio.Event()

    async def slow(host: HostRun) -> frozenset[int]:
        elsewhere.set()
        await asyncio.sleep(1.5)
        return frozenset(await find(host))

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow")
        reader = await from_elsewhere(cluster, tmp_path / "elsewhere", looks=looks)
        monkeypatch.setattr(HostRun, "find", slow)
        reading = asyncio.create_task(read(reader, events))
        await elsewhere.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.7):
                await until(lambda: marked(cluster, 2))
        for number, host in enumerate(cluster.hosts):
            host.files[f"log-{number}"] = b"last words\n"
            host.containers[0].end(0)
        await reading

    ended = await cluster.drive(owner, followed())
    seen = events[-1]
    assert isinstance(seen, RunEnded)
    assert (seen.outcome, ended.outcome) == ("succeeded", "succeeded")
    assert said(events).count("last words") == 2
    assert cluster.left() == []


@BOTH
async def test_who_leaves_before_the_tasks_are_found_leaves_no_mark(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool
) -> None:
    """Nobody is waited for then."""
    owner, find = cluster.controller(cluster.plan(launch="beef")), HostRun.find

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow" and marked(cluster, 1))
        reader = await from_elsewhere(cluster, tmp_path / "elsewhere", looks=looks)

        async def leaves(host: HostRun) -> frozenset[int]:
            await until(lambda: marked(cluster, 2))
            reader.request_detach()
            return frozenset(await find(host))

        monkeypatch.setattr(HostRun, "find", leaves)
        await read(reader, [])
        assert not marked(cluster, 2)
        for host in cluster.hosts:
            host.containers[0].end(0)

    await cluster.drive(owner, followed())


@BOTH
async def test_who_is_closed_before_the_tasks_are_found_leaves_no_mark(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool
) -> None:
    """An app or a program that lets go of the run then is not waited for, either."""
    owner, find = cluster.controller(cluster.plan(launch="beef")), HostRun.find

    async def hangs(host: HostRun) -> frozenset[int]:
        await asyncio.sleep(60)
        return frozenset(await find(host))

    async def followed() -> None:
        await until(lambda: owner.state.phase == "follow" and marked(cluster, 1))
        monkeypatch.setattr(HostRun, "find", hangs)
        async with await from_elsewhere(cluster, tmp_path / "elsewhere", looks=looks):
            await until(lambda: marked(cluster, 2))
        assert not marked(cluster, 2)
        monkeypatch.setattr(HostRun, "find", find)
        for host in cluster.hosts:
            host.containers[0].end(0)

    await cluster.drive(owner, followed())
