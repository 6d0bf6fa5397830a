"""Who was away over the end of a run that somebody else has cleaned up: it doesn't know how that ended, and says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui.plan.serialize import to_json
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.replan import NextAttempt
from distui.runs.control import supervise
from distui.runs.control.controller import RunController
from distui.runs.ending import next_attempt
from distui.runs.ending.ask_ranks import AskTurns
from distui.runs.ending.cleanup import _lost
from distui.runs.ending.conclude import CLEANED_UP
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    FailureFound,
    Notice,
    RankChanged,
    RunEnded,
    RunOpened,
    StopAsked,
)
from distui.runs.store.end_record import FINAL, end_here, record_of
from distui.runs.watch.ends import EndsBefore
from distui.session import Completed
from distui.spec.hosts.inventory import EngineName
from fakehosts.hosts import FakeHost
from fakehosts.runs import Cluster, facts_of, plan_for, two_hosts, until


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; between attempts nobody rests."""
    made = two_hosts(tmp_path, monkeypatch)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    return made


def forget(host: FakeHost) -> None:
    """The run's folder goes."""
    for path in [path for path in host.files if "/r1/" in path]:
        del host.files[path]


def folder_first(host: FakeHost) -> None:
    """Both are gone when anybody looks."""
    forget(host)


def folder_later(host: FakeHost) -> None:
    """The containers are gone, and the folder goes right after it was looked for."""

    def look(argv: tuple[str, ...]) -> Completed | None:
        if argv[6]:
            return None
        forget(host)
        return Completed(argv, 0, b"0 0 0 0 0\n\n\n", b"")

    host.fails["visit"] = look  # type: ignore[assignment]


async def cleaned_up(cluster: Cluster, controller: RunController, how: object = folder_first) -> None:
    """Somebody else ends the run on all hosts while the controller is out of reach."""
    await until(lambda: controller.state.phase == "follow")
    assert callable(how)
    for host in cluster.hosts:
        how(host)
    for host in cluster.hosts:
        host.engine.drop(host.containers[0])


class Asked:
    """Plans another attempt, and remembers that it was asked to."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.attempts: list[int] = []

    async def __call__(self, attempt: int, spent: float, taken: object = None) -> NextAttempt:
        """See AttemptPlanner."""
        self.attempts.append(attempt)
        facts = {name: facts_of(name, 11 + n) for n, name in enumerate(self.cluster.names)}
        for host in self.cluster.hosts:
            host.engine.exits = dict.fromkeys((0, 1), 0)
        return NextAttempt(plan_for(*self.cluster.names, attempt=attempt, facts=facts, retries=2, launch="beef"), facts)


@pytest.mark.parametrize("how", [folder_first, folder_later])
async def test_who_was_away_over_the_end_calls_it_no_failure_and_starts_nothing(cluster: Cluster, how: object) -> None:
    """Though it started the run, and has attempts left."""
    asked = Asked(cluster)
    controller = cluster.controller(cluster.plan(launch="beef", retries=2), planner=asked)
    ended = await cluster.drive(controller, cleaned_up(cluster, controller, how))

    assert (ended.outcome, ended.exit, ended.failure, ended.attempt) == ("unknown", 6, None, 1)
    assert CLEANED_UP in ended.warnings
    assert (asked.attempts, cluster.of(AttemptEnded), cluster.of(FailureFound)) == ([], [], [])
    record = end_here(controller.stored)
    assert record is None or record.ended.outcome not in FINAL
    assert cluster.left() == []


async def test_ranks_that_somebody_else_has_cleaned_up_are_nobodys_failure_and_stop_nothing(cluster: Cluster) -> None:
    """Which of their lines are missing is said."""
    controller = cluster.controller(cluster.plan(launch="beef"))
    await cluster.drive(controller, cleaned_up(cluster, controller))

    last = {event.rank: event for event in cluster.of(RankChanged)}
    words = "its container was removed before its end was seen and its log read"
    assert {rank: (event.state, event.words) for rank, event in last.items()} == {
        0: ("removed", words), 1: ("removed", words)
    }  # fmt: skip
    assert cluster.of(StopAsked) == []
    assert cluster.said().count("nothing that it said is here") == 2


async def test_who_comes_back_while_it_is_cleaned_up_tells_the_recorded_end(cluster: Cluster) -> None:
    """The verdict is on the hosts until the last container is gone."""
    controller = cluster.controller(cluster.plan(launch="beef", retries=2), planner=Asked(cluster))

    def record(host: FakeHost) -> None:
        end = RunEnded(1.0, "succeeded", 0)
        text = record_of(controller.attempt.token, "bob@desk", end, controller.state).text("r1")
        host.files[f"/home/u/.local/state/distui/hosts/{host.name}/r1/verdict"] = text.encode()

    ended = await cluster.drive(controller, cleaned_up(cluster, controller, record))
    assert (ended.outcome, ended.exit, ended.attempt) == ("succeeded", 0, 1)
    assert cluster.of(FailureFound) == []


async def test_an_end_that_was_seen_before_does_not_start_another_attempt_either(cluster: Cluster) -> None:
    """Rank 1 had failed; whoever cleaned up knows whether the run was stopped, and who was first."""
    asked = Asked(cluster)
    controller = cluster.controller(cluster.plan(launch="beef", retries=2, on_fail="continue"), planner=asked)

    async def away() -> None:
        await until(lambda: controller.state.phase == "follow")
        cluster.hosts[1].containers[0].end(3)
        await until(lambda: bool(cluster.of(FailureFound)))
        forget(cluster.hosts[1])
        forget(cluster.hosts[0])
        cluster.hosts[0].engine.drop(cluster.hosts[0].containers[0])

    ended = await cluster.drive(controller, away())
    assert (ended.outcome, ended.exit, asked.attempts) == ("unknown", 6, [])
    assert ended.failure is not None and (ended.failure.rank, ended.failure.exit) == (1, 3)


@pytest.mark.parametrize("failed", [False, True])
async def test_who_slept_over_a_stop_and_hears_of_it_late_starts_nothing(cluster: Cluster, failed: bool) -> None:
    """The connections live on, and what the engines had told waits in them; the word of the stop is gone by then."""
    asked = Asked(cluster)
    controller = cluster.controller(cluster.plan(launch="beef", retries=2), planner=asked)

    async def asleep() -> None:
        await until(lambda: controller.state.phase == "follow")
        for host in cluster.hosts:
            forget(host)
        cluster.hosts[1].containers[0].end(3 if failed else 143)
        cluster.hosts[0].containers[0].end(143)

    ended = await cluster.drive(controller, asleep())
    assert (ended.outcome, ended.exit, asked.attempts) == ("unknown", 6, [])
    assert CLEANED_UP in ended.warnings
    assert (ended.failure is not None) is failed
    assert bool(cluster.of(FailureFound)) is failed
    assert controller.state.ranks[0].state == "removed"


async def test_a_failure_that_was_seen_from_here_before_is_shown_by_who_comes_back(cluster: Cluster) -> None:
    """A distui that was killed had said it; another one that came later called the end unknown, and named nobody."""
    owner = cluster.controller(cluster.plan(launch="beef", on_fail="continue"))
    owner.stored.write_plan(to_json(owner.plan))

    async def leave() -> None:
        await until(lambda: owner.state.phase == "follow")
        cluster.hosts[1].containers[0].end(3)
        await until(lambda: bool(cluster.of(FailureFound)))
        owner.request_detach()

    await cluster.drive(owner, leave())
    cluster.events.clear()
    back = cluster.controller(owner.plan, adopted=True)
    for host in cluster.hosts:
        forget(host)
        host.engine.drop(host.containers[0])
    ended = await cluster.drive(back)
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert ended.failure is not None and (ended.failure.rank, ended.failure.exit) == (1, 3)
    assert CLEANED_UP in ended.warnings


async def test_a_removal_that_was_taken_for_a_failure_is_none_once_all_was_cleaned_up(cluster: Cluster) -> None:
    """One container was seen to be gone before its host's folder was, and was said to have failed first when another
    rank had been read to its end; the same words were read back at the end.
    """
    third = FakeHost("h3")
    cluster.hosts.append(third)
    cluster.connector.hosts["h3"] = third
    controller = cluster.controller(cluster.plan(launch="beef", on_fail="continue"))
    controller.stored.write_plan(to_json(controller.plan))

    async def away() -> None:
        await until(lambda: controller.state.phase == "follow")
        cluster.hosts[1].engine.drop(cluster.hosts[1].containers[0])
        await until(lambda: controller.state.ranks[1].state == "removed")
        cluster.hosts[0].containers[0].end(0)
        await until(lambda: bool(cluster.of(FailureFound)))
        for host in cluster.hosts:
            forget(host)
        third.engine.drop(third.containers[0])

    ended = await cluster.drive(controller, away())
    assert [event.failure.words for event in cluster.of(FailureFound)] == [
        "its container was removed by somebody else"
    ], "as it was known then"
    assert (ended.outcome, ended.exit, ended.failure) == ("unknown", 6, None)
    assert CLEANED_UP in ended.warnings


async def test_who_looks_on_and_was_away_calls_it_no_failure(cluster: Cluster, tmp_path: Path) -> None:
    """Nor does it say that nobody has recorded the end."""
    owner = cluster.controller(cluster.plan(launch="beef"), detach=True)
    await cluster.drive(owner)
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    view = elsewhere.controller(owner.plan, adopted=True, views=True)
    ended = await elsewhere.drive(view, cleaned_up(cluster, view))
    assert (ended.outcome, ended.exit, ended.failure, ended.warnings) == ("unknown", 6, None, (CLEANED_UP,))


async def test_who_looks_on_for_weeks_keeps_no_task_of_each_look(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ranks that seem to be still; nor is a bug in one kept until the end."""
    owner = cluster.controller(cluster.plan(launch="beef"), detach=True)
    await cluster.drive(owner)
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    view = elsewhere.controller(owner.plan, adopted=True, views=True)
    looks, kept, until_over = [0], [0], supervise._until_over

    async def look(attempt: Attempt) -> None:
        looks[0] += 1
        attempt.tracker.changed.set()

    async def watched(attempt: Attempt, stops: list[asyncio.Task[None]]) -> None:
        await until_over(attempt, stops)
        kept[0] = len(stops)

    monkeypatch.setattr(supervise, "see_moved", look)
    monkeypatch.setattr(supervise, "overdue", lambda *_: 1.0)
    monkeypatch.setattr(AskTurns, "due", lambda *_, **__: True)
    monkeypatch.setattr(supervise, "_until_over", watched)

    async def leave() -> None:
        await until(lambda: looks[0] > 30)
        view.request_detach()

    await elsewhere.drive(view, leave())
    assert kept[0] < 10


async def test_who_looks_on_at_a_run_found_in_part_calls_it_no_success(cluster: Cluster, tmp_path: Path) -> None:
    """The host of the other rank did not answer: nobody saw that rank end."""
    owner = cluster.controller(cluster.plan(launch="beef"), detach=True)
    await cluster.drive(owner)
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector
    part = replace(owner.plan, tasks=owner.plan.tasks[:1], networks=owner.plan.networks[:1])
    view = elsewhere.controller(part, adopted=True, views=True)

    async def end() -> None:
        await until(lambda: view.state.phase == "follow")
        cluster.hosts[0].containers[0].end(0)

    ended = await elsewhere.drive(view, end())
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert any("1 of the run's tasks was not found" in words for words in ended.warnings)


@pytest.mark.parametrize("views", [False, True])
async def test_who_was_away_goes_on_with_the_attempt_that_was_begun_meanwhile(
    cluster: Cluster, tmp_path: Path, views: bool
) -> None:
    """By the distui that started the run, elsewhere."""
    asked = Asked(cluster)
    owner = cluster.controller(cluster.plan(launch="beef", retries=2), detach=True)
    await cluster.drive(owner)
    elsewhere = Cluster(tmp_path / "elsewhere", 0)
    elsewhere.hosts, elsewhere.connector = cluster.hosts, cluster.connector

    async def begun(attempt: int, spent: float, taken: object = None) -> NextAttempt:
        found = await asked(attempt, spent)
        await cluster.run(found.plan, detach=True)
        return found

    reader = elsewhere.controller(owner.plan, adopted=True, views=views, planner=begun)
    ended = await elsewhere.drive(reader, cleaned_up(cluster, reader))
    assert (ended.outcome, ended.exit, ended.attempt, asked.attempts) == ("succeeded", 0, 2, [2])
    assert [event.attempt for event in elsewhere.of(RunOpened)] == [1, 2]
    (past,) = elsewhere.of(AttemptEnded)
    assert (past.attempt, past.failure) == (1, None)


async def test_a_container_that_a_stranger_removed_is_still_a_failure(cluster: Cluster) -> None:
    """`docker rm -f` leaves the run's folder, in which nobody has written a verdict."""
    controller = cluster.controller(cluster.plan(launch="beef"))

    async def remove() -> None:
        await until(lambda: controller.state.phase == "follow")
        cluster.hosts[1].engine.drop(cluster.hosts[1].containers[0])

    ended = await cluster.drive(controller, remove())
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and ended.failure.words == "its container was removed by somebody else"


@pytest.mark.parametrize(("engine", "its"), [("docker", "its container"), ("process", "its folder")])
async def test_what_was_removed_is_called_what_it_is(engine: EngineName, its: str) -> None:
    """A process has no container."""
    (task, *_) = plan_for("h1").tasks
    task, said = replace(task, engine=engine), list[Event]()

    async def emit(event: Event) -> None:
        said.append(event)

    log = SimpleNamespace(read_before=lambda: False, lines_before=lambda: {0: 5})
    tracker = SimpleNamespace(clock=lambda: 1.0, changed=asyncio.Event())
    track = cast(Any, SimpleNamespace(task=task, log=log, cut_off=False))
    await EndsBefore(cast(Any, tracker), emit).removed(track, read=False)
    words = f"rank 0 on h1: {its} was removed before its log was read here: what it said after line 5 is missing"
    assert [event.text for event in said if isinstance(event, Notice)] == [words]
    assert f"is lost: {its} was removed before it could be read" in _lost(task)
