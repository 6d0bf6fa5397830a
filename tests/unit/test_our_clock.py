"""Our clock is set while a run is followed: that makes no wait longer or shorter, and no rank silent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.limits import Limits, passed
from distui.runs.attempt.replan import NextAttempt, NoPlan
from distui.runs.control import supervise
from distui.runs.ending import next_attempt
from distui.runs.ending.ask_ranks import AskTurns, tell_why
from distui.runs.follow.fanout import Fanout
from distui.runs.hosts.stop_word import TO_END
from distui.runs.insight.asking.look import Look
from distui.runs.insight.hang.ras.communicators import Counted
from distui.runs.insight.hang.ras.report import Communicator
from distui.runs.insight.seen.clocks import Reading
from distui.runs.insight.seen.quiet import Quiet
from distui.runs.lines.events import (
    AttemptEnded,
    GpuReading,
    HostSampled,
    RankChanged,
    RanksAsked,
    RankSilent,
    RanksStepped,
    RankStep,
    RunStalled,
    StopAsked,
)
from distui.runs.lines.explanation import Explanation
from distui.runs.state.our_clock import ClockSet, OurClock, after
from distui.runs.state.pages import Pages
from distui.runs.state.reducer import HostState, RankState, RunState
from distui.runs.state.steps import Pace
from distui.runs.verdict.evidence import Stop
from distui.runs.watch.progress.silence import silent_for
from fakehosts.runs import Cluster, facts_of, plan_for, until, use_fake_follower

SETTINGS = [7200.0, -7200.0]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts whose ranks run until they are ended."""
    made = Cluster(tmp_path)
    use_fake_follower(monkeypatch, made.connector)
    return made


def running(cluster: Cluster) -> bool:
    """Whether all ranks do."""
    return sum(event.state == "running" for event in cluster.of(RankChanged)) == len(cluster.names)


@pytest.mark.parametrize("by", SETTINGS)
def test_a_clock_that_is_set_is_noticed_once(by: float) -> None:
    """Not that time passes; and what is told of it is by how much, and since when."""
    now, waited = [1000.0], [5.0]
    ours = OurClock(lambda: now[0], lambda: waited[0])
    assert ours.news() is None
    now[0], waited[0] = 1600.0, 605.0
    assert ours.news() is None
    now[0], waited[0] = 1600.5 + by, 605.5
    assert ours.news() == ClockSet(by, 1600.0 + by, 1600.5 + by)
    assert ours.news() is None


def test_little_by_little_counts_as_much() -> None:
    """A clock that goes wrong for days."""
    now, waited = [1000.0], [5.0]
    ours = OurClock(lambda: now[0], lambda: waited[0])
    reported = []
    for _ in range(10):
        now[0] += 10.3
        waited[0] += 10.0
        reported.append(ours.news())
    assert sum(change.by for change in reported if change is not None) == pytest.approx(2.4)
    assert sum(change is not None for change in reported) == 2


@pytest.mark.parametrize("by", SETTINGS)
def test_silence_lasts_as_long_as_it_does(by: float) -> None:
    """Of a rank that said its last line 60 seconds ago, of one that runs since then, and of one that spoke since."""
    old = RankState(0, "h1", 0, "running", last_line_at=940.0, since=900.0, moved_at=939.0)
    ended = replace(old, rank=3, state="exited")
    fresh = replace(old, rank=2, last_line_at=999.9 + by)
    ranks = Pages({0: old, 1: replace(old, rank=1, last_line_at=None, since=940.0), 2: fresh, 3: ended})
    gpu = GpuReading(0, utilization_pct=50.0)
    host = HostState("h1").then(HostSampled(990.0, "h1", (gpu,)))
    state = RunState(
        ranks=ranks, hosts={"h1": host}, steps=Pages({0: Pace(RankStep(0, 7.0, 940.0), 10.0, 1.0)}),
        why=RanksAsked(950.0, Explanation("hang", "x", "certain", ())), stalled=RunStalled(960.0, True, 940.0),
    )  # fmt: skip

    found = after(state, ClockSet(by, 999.5 + by, 1000.0 + by))

    now = 1000.0 + by
    assert [silent_for(found.ranks[number], now) for number in range(3)] == pytest.approx([60.0, 60.0, 0.1])
    assert found.ranks[0].moved_at == 939.0 + by and found.ranks[3] == ended
    assert found.hosts["h1"].worked == {0: 990.0 + by} and found.hosts["h1"].measured(now) == {0}
    assert found.steps[0] == Pace(RankStep(0, 7.0, 940.0 + by), 10.0, 1.0)
    assert found.why is not None and found.why.at == 950.0 + by
    assert found.stalled is not None and (found.stalled.at, found.stalled.since) == (960.0 + by, 940.0 + by)
    assert after(RunState(), ClockSet(by, 0.0, 1.0)) == RunState()


def test_what_does_not_move_does_so_for_no_longer() -> None:
    """A rank that saves for a minute is not stuck for hours."""
    quiet = Quiet()
    quiet._since[0] = ("place", 940.0)
    quiet.moved(ClockSet(3600.0, 4599.5, 4600.0).moved)
    assert quiet._since == {0: ("place", 4540.0)}


async def test_what_nccl_has_counted_stands_for_no_longer(cluster: Cluster) -> None:
    """Ranks that were asked a moment ago, and launch nothing in a long step: `on_hang` would end their run."""
    attempt = cluster.controller(cluster.plan()).attempt
    known = Counted(Communicator("c0", "", 2, {}, {}, {}, {}), "2.27.3", {}, 990.0, 999.0, goes_on=False)
    attempt.ras = (known,)
    attempt.clock_set(ClockSet(3600.0, 4599.5, 4600.0))
    assert attempt.ras == (replace(known, since=4590.0, at=4599.0),)


@pytest.mark.parametrize("read_before", [False, True])
async def test_our_clock_is_none_of_the_hosts(cluster: Cluster, read_before: bool) -> None:
    """How long a rank ran is by its host's; it may be read before or after it is known that ours was set."""
    attempt = cluster.controller(cluster.plan()).attempt
    known = attempt.tracker
    known.clock_read("h1", Reading(1000.0, 1000.0, 1000.001))
    if read_before:
        known.clock_read("h1", Reading(4610.0, 1010.0, 4610.001))
    attempt.clock_set(ClockSet(3600.0, 4599.5, 4600.0))
    known.clock_read("h1", Reading(4620.0, 1020.0, 4620.001))
    assert known.evidence().hosts["h1"].set_by == pytest.approx(0.0, abs=0.1)
    known.clock_read("h1", Reading(4630.0, 1330.0, 4630.001))
    assert known.evidence().hosts["h1"].set_by == pytest.approx(300.0, abs=0.1)


async def test_a_clock_that_is_set_forward_makes_no_rank_silent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a time limit over by that. Its hosts' clocks are read again at once, not with the next ping."""
    monkeypatch.setattr(supervise, "AFTER_ROOM", 0.0)
    set_by = [0.0]
    made = cluster.controller(
        cluster.plan(stall_after=60.0), limits=Limits(run=3600.0), clock=lambda: time.time() + set_by[0]
    )

    async def meanwhile() -> None:
        await until(lambda: running(cluster))
        await asyncio.sleep(0.6)
        set_by[0] = 7200.0
        await asyncio.sleep(1.6)
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.drive(made, meanwhile())
    assert (ended.outcome, cluster.of(RankSilent), cluster.of(StopAsked)) == ("succeeded", [], [])
    assert [host.clock_asked for host in cluster.hosts] == [1, 1]


async def test_a_clock_that_is_set_back_hides_no_silent_rank(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for as long as it was set back."""
    monkeypatch.setattr(supervise, "AFTER_ROOM", 0.0)
    set_by = [0.0]
    made = cluster.controller(cluster.plan(stall_after=1.5), clock=lambda: time.time() + set_by[0])

    async def meanwhile() -> None:
        await until(lambda: running(cluster))
        set_by[0] = -7200.0
        await until(lambda: len(cluster.of(RankSilent)) == 2)
        for host in cluster.hosts:
            host.containers[0].end(0)

    assert (await cluster.drive(made, meanwhile())).outcome == "succeeded"
    assert all(1.0 < event.seconds < 20.0 for event in cluster.of(RankSilent))


async def test_a_clock_that_is_set_back_while_ranks_start_hides_no_silent_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run before anybody looks whether the clock was set."""
    monkeypatch.setattr(supervise, "AFTER_ROOM", 0.0)
    set_by = [0.0]
    made = cluster.controller(cluster.plan(stall_after=1.5), clock=lambda: time.time() + set_by[0])
    begin = supervise.Turns

    def turns() -> supervise.Turns:
        set_by[0] = -7200.0
        return begin()

    monkeypatch.setattr(supervise, "Turns", turns)

    async def meanwhile() -> None:
        await until(lambda: len(cluster.of(RankSilent)) == 2)
        for host in cluster.hosts:
            host.containers[0].end(0)

    assert (await cluster.drive(made, meanwhile())).outcome == "succeeded"


async def test_a_look_during_which_our_clock_was_set_tells_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What began a moment before seems to last for hours."""
    set_by = [0.0]
    made = cluster.controller(cluster.plan(on_hang="stop"), clock=lambda: time.time() + set_by[0])
    found = Explanation("hang", "rank 1 has not entered", "certain", (), since=time.time() - 1.0)

    async def ranks_seen(*_: object) -> Look:
        set_by[0] = 7200.0
        return Look((), found)

    monkeypatch.setattr("distui.runs.ending.ask_ranks.ranks_seen", ranks_seen)
    await tell_why(made.attempt, AskTurns(0.0, 60.0, insight=True))
    assert not made.attempt.tracker.hung and made.attempt.explanation is None


@pytest.mark.parametrize("by", SETTINGS)
async def test_what_an_attempt_may_take_does_not_depend_on_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    """The next one is told how long the run has gone on, and so is who reads how it ended."""
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.2)
    facts = {name: facts_of(name, 11 + number) for number, name in enumerate(cluster.names)}
    job = {"retries": 1, "max_duration": 60.0}
    reported: list[float] = []
    for number, host in enumerate(cluster.hosts):
        host.engine.exits[number] = 3

    async def planner(attempt: int, spent: float, *_: object) -> NextAttempt | NoPlan:
        reported.append(spent)
        for number, host in enumerate(cluster.hosts):
            host.engine.exits[number] = 0
        return NextAttempt(plan_for(*cluster.names, attempt=attempt, facts=facts, **job), facts)

    ended = await cluster.run(
        cluster.plan(**job), planner=planner, clock=lambda: time.time() + by * bool(cluster.of(AttemptEnded))
    )
    assert (ended.outcome, ended.attempt) == ("succeeded", 2)
    assert len(reported) == 1 and 0 < reported[0] < 20
    assert 0 < ended.took < 40


@pytest.mark.parametrize(("deadline", "spent", "none"), [(100.0, 1.0, False), (1.0, 1.0, True), (100.0, 59.0, True)])
def test_whether_there_is_time_for_another_attempt(deadline: float, spent: float, none: bool) -> None:
    """By what was spent of `max_duration`, and by `--timeout`."""
    attempt = Mock(spent=spent, began=0.0, clock=lambda: 1e12)
    attempt.run.deadline, attempt.plan.max_duration = passed() + deadline, 60.0
    assert next_attempt._no_time_left(cast(Attempt, attempt), 2.0) is none


@pytest.mark.parametrize("clock", [0.0, 1e12])
def test_ranks_that_are_stopped_have_their_grace(clock: float) -> None:
    """Hosts out of reach are given up after it, not before and not hours later."""
    attempt = Mock(clock=lambda: clock)
    attempt.run.views, attempt.run.requests.grace = False, 10.0
    attempt.tracker = Mock(stop_began=1000.0, lost_hosts={"h2"}, tracks={0: Mock(over=False)})
    attempt.tracker.stopping_for = 9.0 + TO_END
    assert supervise._others_end(cast(Attempt, attempt))
    attempt.tracker.stopping_for = 11.0 + TO_END
    assert not supervise._others_end(cast(Attempt, attempt))


def test_for_how_long_a_run_is_stopped(cluster: Cluster) -> None:
    """Since the first stop, by when that began, which may have been elsewhere."""
    now, waited = [100.0], [5.0]
    tracker = cluster.controller(cluster.plan(), clock=lambda: now[0]).attempt.tracker
    tracker.waited = lambda: waited[0]
    assert tracker.stopping_for is None
    tracker.stopped(Stop(97.0, "elsewhere", "bob@laptop"))
    now[0], waited[0] = -5000.0, 10.0
    tracker.stopped(Stop(-5000.0, "user"))
    assert tracker.stopping_for == 8.0


@pytest.mark.parametrize("by", SETTINGS)
def test_who_looks_at_a_run_sees_nobody_silent_by_a_clock_that_was_set(by: float) -> None:
    """The app folds the events that were sent before: it has no news of them."""
    now, waited = [1000.0], [5.0]
    fan = Fanout(lambda: now[0], lambda: waited[0])
    fan.put([RankChanged(990.0, 0, "node1", "running"), RanksStepped(995.0, (RankStep(0, 7.0, 995.0),))])
    now[0], waited[0] = 1010.0 + by, 15.0
    assert silent_for(fan.state.ranks[0], now[0]) == pytest.approx(20.0)
    assert now[0] - fan.state.steps[0].last.at == pytest.approx(15.0)
    fan.put([RanksStepped(now[0], (RankStep(0, 8.0, now[0]),))])
    now[0], waited[0] = 1011.0 + by, 16.0
    assert now[0] - fan.state.steps[0].last.at == pytest.approx(1.0)
