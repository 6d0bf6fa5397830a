"""Looking on at a run (`attach --view`): on from its hosts when its owner leaves, and into its next attempts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from distui.cli.printing.words import report
from distui.cluster import beside
from distui.cluster.attach import leftover, taking_up
from distui.cluster.attach.places import RunLocation
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost
from distui.facts.host import HostFacts
from distui.plan.model import NoPlan, RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.replan import NextAttempt
from distui.runs.control.controller import RunController
from distui.runs.ending import conclude, next_attempt
from distui.runs.lines.events import AttemptEnded, Event, LogLines, Notice, PhaseBegun, RankChanged, RunEnded, RunOpened
from distui.runs.store.runs import StoredRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster, facts_of, plan_for, until, use_fake_follower

HOSTS = (Host("h1"), Host("h2"))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; nothing is waited for long."""
    made = Cluster(tmp_path / "state" / "distui", 2)
    use_fake_follower(monkeypatch, made.connector)

    async def probed(connector: Connector, hosts: Sequence[Host], *, parallel: int) -> dict[str, HostFacts]:
        return {host.name: facts_of(host.name) for host in hosts}

    monkeypatch.setattr(taking_up, "probe_all", probed)
    monkeypatch.setattr(beside, "HANDED_OVER_SECONDS", 0.0)
    monkeypatch.setattr(leftover, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(conclude, "LOOK_SECONDS", 0.01)
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
    reader = taking_up.reader_of(settings, place)
    return taking_up.beside(settings, place, plan, reader, connected, made)


async def test_a_view_goes_on_from_the_hosts_when_the_owner_has_left(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path
) -> None:
    """Each line once, the end as it is, and what is recorded here stays as the owner left it."""
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan, detach=True)
    owner.stored.write_plan(to_json(plan))
    await cluster.drive(owner)
    owner.stored.rank_log(0).write_text("early\n")  # written, and not yet in a checkpoint
    before = contents(owner.stored)
    for number, host in enumerate(cluster.hosts):
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

    monkeypatch.setattr(taking_up, "take_up", gone)
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
    """A run with one retry: rank 1 ends with 3, then all is well at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.first = plan_for(*cluster.names, retries=1, launch="beef")

    async def __call__(self, attempt: int, spent: float, taken: object = None) -> NextAttempt | NoPlan:
        """See AttemptPlanner."""
        for number, host in enumerate(self.cluster.hosts):
            host.engine.exits = dict.fromkeys((0, 1), 0)
            host.files[f"log-{number}"] = b"again\n"
        facts = {name: facts_of(name, 11 + n) for n, name in enumerate(self.cluster.names)}
        return NextAttempt(plan_for(*self.cluster.names, attempt=attempt, facts=facts, retries=1, launch="beef"), facts)


async def looking_from_elsewhere(cluster: Cluster, settings: ClusterSettings, folder: Path) -> RunController:
    """Somebody who looks on at a run whose owner is on another machine."""
    place = RunLocation("r1", None, HOSTS)
    live = await taking_up.take_up(settings, cluster.connector, place)
    return taking_up.view(settings, cluster.connector, place, live, folder)


async def read(view: RunController, events: list[Event]) -> None:
    """Look on to the end."""
    async with view:
        async for batch in view.batches():
            events += batch


async def test_a_view_from_elsewhere_goes_on_with_the_next_attempt(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path
) -> None:
    """Though that one is over at once: its owner waits until the view has read it."""
    again, events = Attempts(cluster), list[Event]()
    owner = cluster.controller(again.first, planner=again)

    async def looked() -> None:
        await until(lambda: owner.state.phase == "follow")
        view = await looking_from_elsewhere(cluster, settings, tmp_path / "view")
        reading = asyncio.create_task(read(view, events))
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events))
        await until(lambda: all(any("/reader-" in path for path in host.files) for host in cluster.hosts))
        cluster.hosts[1].containers[0].end(3)
        await reading

    ended = await cluster.drive(owner, looked())
    seen = events[-1]
    assert isinstance(seen, RunEnded)
    assert (seen.outcome, seen.exit, seen.attempt) == (ended.outcome, ended.exit, ended.attempt) == ("succeeded", 0, 2)
    assert [event.attempt for event in events if isinstance(event, RunOpened)] == [1, 2]
    (past,) = (event for event in events if isinstance(event, AttemptEnded))
    assert (past.attempt, past.log_dir) == (1, "")
    assert said(events).count("again") == 2
    assert cluster.left() == []


async def failed_while_looked_at(
    cluster: Cluster, settings: ClusterSettings, folder: Path, *, leaves: bool
) -> list[Event]:
    """The events of who looks on at a run that nobody has, whose first attempt fails."""
    again, events = Attempts(cluster), list[Event]()
    await cluster.run(again.first, detach=True)
    view = await looking_from_elsewhere(cluster, settings, folder)
    reading = asyncio.create_task(read(view, events))
    async with asyncio.timeout(60):
        await until(lambda: any(isinstance(e, PhaseBegun) for e in events))
        cluster.hosts[0].containers[0].end(0)
        cluster.hosts[1].containers[0].end(3)
        await until(lambda: any(isinstance(e, AttemptEnded) for e in events))
        if leaves:
            view.request_detach()
        await reading
    return events


async def test_a_next_attempt_that_nobody_begins_is_not_waited_for_without_end(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends as its attempt did, and why no other is seen is said."""
    monkeypatch.setattr(leftover, "REST_SECONDS", 0.0)
    events = await failed_while_looked_at(cluster, settings, tmp_path / "view", leaves=False)
    ended = events[-1]
    assert isinstance(ended, RunEnded) and (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 1)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert "there is no plan for attempt 2: whoever has the run has not begun it" in notices


async def test_who_leaves_while_the_next_attempt_is_waited_for_has_seen_no_end(
    cluster: Cluster, settings: ClusterSettings, tmp_path: Path
) -> None:
    """It was asked for: exit 0."""
    events = await failed_while_looked_at(cluster, settings, tmp_path / "view", leaves=True)
    ended = events[-1]
    assert isinstance(ended, RunEnded) and (ended.outcome, ended.exit) == ("detached", 0)
