"""Ranks that say nothing, and go on: they are asked in time, and their collectives count as much as a line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.moved import overdue, tell_moved
from distui.runs.insight.seen.answers import Collective, Group, Process
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.events import LogLine, LogLines, RankChanged, RanksMoved, RanksStepped, RankStep, RunOpened
from distui.runs.state.reducer import apply
from distui.runs.state.standstill import standstill
from distui.runs.watch.progress.silence import Silences
from fakehosts.runs import Cluster


class Asked:
    """An attempt of two ranks that run since 100 with a clock of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = 100.0
        self.attempt: Attempt = cluster.controller(cluster.plan(stall_after=60.0), clock=lambda: self.now).attempt
        self.take(RunOpened(90.0, "r1", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}))
        self.take(RankChanged(100.0, 0, "h1", "running"), RankChanged(100.0, 1, "h2", "running"))

    def take(self, *events: Any) -> None:
        """What happened."""
        for event in events:
            self.attempt.run.events.state = apply(self.attempt.state, event)

    async def ask(self, at: float, *begun: float) -> list[RanksMoved]:
        """What is said after ranks have answered when they began their newest collectives."""
        self.now, said = at, []

        async def emit(event: Any) -> None:
            said.append(event)
            self.take(event)

        self.attempt.emit = emit  # type: ignore[method-assign]
        await tell_moved(self.attempt, [seen(rank, at, moment) for rank, moment in enumerate(begun)])
        return said


def seen(rank: int, at: float, begun: float, *, ahead: float = 0.0) -> RankSeen:
    """A rank whose newest collective is over."""
    newest = Collective(7, "gloo:all_reduce", "10", "Float", int((begun + ahead) * 1e9), over=True)
    process = Process(7, 1, "python", "R", 1.0, groups={"0": Group("0", "default_pg", (newest,), 7)})
    return RankSeen(rank, f"h{rank + 1}", process, at=at, ahead=ahead)


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    made = Asked(Cluster(tmp_path))
    yield made
    await made.attempt.close()


def line(at: float, rank: int) -> LogLines:
    return LogLines(at, rank, rank, f"h{rank + 1}", (LogLine("stdout", "x"),))


async def test_a_run_that_says_nothing_goes_on_for_hours(asked: Asked) -> None:
    """It is asked again each time shortly before it would count as one that stands still, and never does."""
    silences, asks = Silences(asked.attempt.plan), 0
    for now in map(float, range(100, 4000)):
        asked.now = now
        assert list(silences.news(asked.attempt.state, now)) == []
        assert standstill(asked.attempt.plan, asked.attempt.state, now) is None
        if overdue(asked.attempt, now) is not None:
            asks += 1
            (said,) = await asked.ask(now, now - 1.0, now - 2.0)
            assert said == RanksMoved(now, (0, 1), now - 2.0) and overdue(asked.attempt, now) is None
    assert asks == 79


async def test_when_ranks_are_overdue(asked: Asked) -> None:
    """The one that has said nothing for longest does not hide another that will count as silent soon."""
    assert overdue(asked.attempt, 150.0) is None
    assert overdue(asked.attempt, 150.5) == 100.0
    asked.take(line(140.0, 1))
    assert (overdue(asked.attempt, 180.0), overdue(asked.attempt, 190.5)) == (100.0, 140.0)


async def test_who_speaks_is_not_told_of(asked: Asked) -> None:
    """Only ranks that said nothing for half the time; none whose newest collective is long ago, or before its line."""
    asked.take(line(150.0, 1))
    assert await asked.ask(151.0, 149.0, 150.5) == [RanksMoved(151.0, (0,), 149.0)]
    asked.take(line(152.0, 0), line(152.0, 1))
    assert await asked.ask(200.0, 151.0, 140.0) == []
    assert await asked.ask(500.0, 440.0, 440.0) == []


async def test_what_is_told_of_several_puts_none_back(asked: Asked) -> None:
    """The moment is that of the first of them; one that was seen to go on after it would have been called quiet."""
    asked.take(RanksMoved(160.0, (0,), 159.0), RanksMoved(165.0, (0, 1), 110.0))
    assert [asked.attempt.state.ranks[rank].moved_at for rank in (0, 1)] == [159.0, 110.0]


async def test_ranks_that_print_without_a_step_are_told_of(asked: Asked) -> None:
    """The step that came is long ago, and another one was never seen."""
    asked.take(RanksStepped(101.0, (RankStep(0, 1.0, 101.0),)), line(155.0, 0), line(155.0, 1))
    assert overdue(asked.attempt, 156.0) == 101.0
    assert await asked.ask(156.0, 154.0, 154.5) == [RanksMoved(156.0, (0, 1), 154.0)]
    assert standstill(asked.attempt.plan, asked.attempt.state, 213.0) is None


async def test_moments_are_put_on_our_clock(asked: Asked) -> None:
    """Of a host whose clock is an hour ahead; what a rank says of the future counts as now."""
    asked.now = 155.0
    said: list[Any] = []

    async def emit(event: Any) -> None:
        said.append(event)

    asked.attempt.emit = emit  # type: ignore[method-assign]
    ranks = [seen(0, 155.0, 150.0, ahead=3600.0), replace(seen(1, 155.0, 9000.0), ended="exit 1")]
    await tell_moved(asked.attempt, ranks)
    await tell_moved(asked.attempt, [seen(1, 155.0, 9000.0)])
    await tell_moved(asked.attempt, [seen(1, 3755.0, 3754.0)])  # our clock was set back while it was asked
    now = RanksMoved(155.0, (1,), 155.0)
    assert said == [RanksMoved(155.0, (0,), 150.0), now, now]
