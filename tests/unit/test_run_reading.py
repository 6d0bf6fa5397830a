"""Reading a run as a program does: every event once, whoever reads next, and always an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from distui.cluster.runs.run import Run
from distui.cluster.runs.run_events import RunEvents
from distui.cluster.start.unusable import HostsUnreachable
from distui.errors import CheckFailed, DistuiError, HostCommandError, HostUnreachable, LaunchFailed, UsageError
from distui.runs.attempt.outbox import Outbox
from distui.runs.lines.events import Event, Notice, PhaseBegun, RunEnded, RunOpened
from distui.runs.store.runs import StoredRun
from fakehosts.runs import LIMIT_S, Cluster, until, use_fake_follower

END = RunEnded(9.0, "succeeded", 0)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts, whose tasks succeed."""
    made = Cluster(tmp_path)
    use_fake_follower(monkeypatch, made.connector)
    for task, host in enumerate(made.hosts):
        host.engine.exits[task] = 0
    return made


def run_of(cluster: Cluster) -> Run:
    """A run that is not begun yet."""
    return Run(cluster.controller(cluster.plan()))


async def test_waiting_after_everything_was_read(cluster: Cluster) -> None:
    """The result is there at once, inside the block and after it; there is nothing more to read."""
    async with asyncio.timeout(LIMIT_S):
        async with run_of(cluster) as run:
            seen = [event async for event in run.events()]
            assert await run.wait() is run.result is seen[-1]
            assert [event async for event in run.events()] == []
        assert await run.wait() is seen[-1]


async def test_what_a_reader_leaves_is_read_by_the_next(cluster: Cluster) -> None:
    """Also where the end had come together with what it has read."""
    async with asyncio.timeout(LIMIT_S), run_of(cluster) as run:
        await until(lambda: run.state.ended is not None)
        async for event in run.events():
            assert isinstance(event, RunOpened)
            break
        assert run.result is None
        async for event in run.events():
            assert isinstance(event, PhaseBegun)
            break
        assert (await run.wait()).outcome == "succeeded"


async def test_two_readers_at_once_both_come_to_the_end(cluster: Cluster) -> None:
    """Each event is for one of them, the result for both."""
    async with asyncio.timeout(LIMIT_S), run_of(cluster) as run:
        first, second = await asyncio.gather(run.wait(), run.wait())
    assert first is second is run.result


async def test_a_run_that_was_left_is_not_waited_for(cluster: Cluster) -> None:
    """It lives on, and nobody here hears of it."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    async with asyncio.timeout(LIMIT_S):
        async with run_of(cluster) as run:
            async for event in run.events():
                if isinstance(event, PhaseBegun) and event.phase == "follow":
                    break
        assert run.result is None
        with pytest.raises(UsageError, match="r1 was left before its end"):
            await run.wait()


async def test_who_reads_while_another_task_leaves_the_run_is_reported(cluster: Cluster) -> None:
    """As whoever reads afterwards: nobody cancelled the task that reads."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    async with asyncio.timeout(LIMIT_S):
        async with run_of(cluster) as run:
            reading = asyncio.create_task(run.wait())
            await until(lambda: run.state.phase == "follow")
        with pytest.raises(UsageError, match="r1 was left before its end"):
            await reading


async def test_a_run_that_is_left_at_once_is_free_for_others(cluster: Cluster) -> None:
    """Also before anything of it was done: who stops it then would wait for this process."""
    async with run_of(cluster) as run:
        assert StoredRun(run.folder).is_followed
    assert not StoredRun(run.folder).is_followed


async def test_an_end_that_nobody_has_read_is_the_result(cluster: Cluster) -> None:
    """A program that has left the block knows how the run ended, where it had."""
    async with asyncio.timeout(LIMIT_S):
        async with run_of(cluster) as run:
            await until(lambda: run.state.ended is not None)
        assert run.result is not None and run.result.outcome == "succeeded"
        assert await run.wait() is run.result


def lacks_its_image(cluster: Cluster) -> None:
    """A check fails."""
    cluster.hosts[1].engine.images = {}


def goes_away(cluster: Cluster) -> None:
    """A host is out of reach once it was planned."""
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 is gone")


def has_a_full_disk(cluster: Cluster) -> None:
    """The start fails part way."""
    cluster.hosts[1].fails["put"] = HostCommandError("h2", "no space left on device")


@pytest.mark.parametrize(
    ("breaks", "kind", "words"),
    [
        (lacks_its_image, CheckFailed, "image img:1 is not on h2"),
        (goes_away, HostsUnreachable, "h2 is gone"),
        (has_a_full_disk, LaunchFailed, "no space left on device"),
    ],
)
async def test_a_run_that_was_not_started_raises_why(
    cluster: Cluster, breaks: Callable[[Cluster], None], kind: type[DistuiError], words: str
) -> None:
    """After its last event, and to whoever waits then."""
    breaks(cluster)
    seen: list[Event] = []
    async with asyncio.timeout(LIMIT_S):
        async with Run(cluster.controller(cluster.plan(pull="never"))) as run:
            with pytest.raises(kind, match=words):
                async for event in run.events():
                    seen.append(event)
            with pytest.raises(kind, match=words):
                await run.wait()
        with pytest.raises(kind, match=words):
            await run.wait()
    assert seen[-1] is run.result
    assert run.result is not None and (run.result.outcome, run.result.exit) == ("launch_failed", kind.exit_code)


async def test_a_batch_is_not_lost_with_who_waits_for_it() -> None:
    """As with `asyncio.timeout` around a wait."""
    asked, come = asyncio.Event(), asyncio.Event()

    async def batches() -> AsyncIterator[tuple[Event, ...]]:
        asked.set()
        await come.wait()
        yield (Notice(1.0, "info", "one"), END)

    events = RunEvents(batches)
    hasty = asyncio.create_task(events.take())
    await asked.wait()
    hasty.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hasty
    come.set()
    assert [await events.take() for _ in range(3)] == [Notice(1.0, "info", "one"), END, None]


async def test_an_error_is_told_to_every_reader() -> None:
    """None of them waits for what can't come."""

    async def batches() -> AsyncIterator[tuple[Event, ...]]:
        yield (Notice(1.0, "info", "one"),)
        raise CheckFailed("it is gone")

    events = RunEvents(batches)
    assert await events.take() == Notice(1.0, "info", "one")
    for _ in range(2):
        with pytest.raises(CheckFailed, match="it is gone"):
            await events.take()


async def test_nothing_is_read_once_it_is_closed() -> None:
    """Who waits gets nothing, as whoever comes later: nobody cancelled it."""

    async def batches() -> AsyncIterator[tuple[Event, ...]]:
        yield (Notice(1.0, "info", "one"),)
        asked.set()
        await asyncio.Event().wait()

    asked, events = asyncio.Event(), RunEvents(batches)
    assert await events.take() == Notice(1.0, "info", "one")
    waiting = asyncio.create_task(events.take())
    await asked.wait()
    await events.close()
    assert await waiting is None
    assert await events.take() is None


async def test_the_last_event_is_the_last_for_every_reader() -> None:
    """Batches that are asked for once more end at once."""
    outbox = Outbox()
    outbox.put_nowait(END)
    assert [batch async for batch in outbox.batches()] == [(END,)]
    async with asyncio.timeout(LIMIT_S):
        assert [batch async for batch in outbox.batches()] == []
