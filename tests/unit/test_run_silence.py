"""Ranks that say nothing: when they are quiet, who is told, and when they are back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distui.cli.printing.words import of_batch
from distui.runs.lines.events import (
    Event,
    GpuReading,
    HostSampled,
    LogLine,
    LogLines,
    RankChanged,
    RankSilent,
    RunOpened,
)
from distui.runs.state.our_clock import ClockSet
from distui.runs.state.reducer import RankState, RunState, apply
from distui.runs.watch.progress.silence import Silences, is_quiet
from fakehosts.runs import plan_for

PLAN = replace(plan_for("h1", "h2"), stall_after=60.0)


def running(*more: Event) -> RunState:
    """Ranks 0 on h1 and 1 on h2 run since 100."""
    state = apply(RunState(), RunOpened(90.0, "r", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}))
    for event in (RankChanged(100.0, 0, "h1", "running"), RankChanged(100.0, 1, "h2", "running"), *more):
        state = apply(state, event)
    return state


def line(at: float, rank: int = 0) -> LogLines:
    """A line of a rank."""
    return LogLines(at, rank, rank, f"h{rank + 1}", (LogLine("stdout", "x"),))


@pytest.mark.parametrize(
    ("known", "util", "stall_after", "want"),
    [
        (RankState(0, "h1", 0, "running", since=100.0), None, 60.0, True),
        (RankState(0, "h1", 0, "running", since=100.0), 90.0, 60.0, False),
        (RankState(0, "h1", 0, "running", since=100.0), 1.0, 60.0, True),
        (RankState(0, "h1", 0, "running", since=100.0), None, 0.0, False),
        (RankState(0, "h1", 0, "running", since=100.0, last_line_at=150.0), None, 60.0, False),
        (RankState(0, "h1", 0, "running", since=100.0, moved_at=150.0), None, 60.0, False),
        (RankState(0, "h1", 0, "running", since=100.0, moved_at=130.0), None, 60.0, True),
        (RankState(0, "h1", 0, "exited", since=100.0), None, 60.0, False),
        (RankState(0, "h1", 0, "lost", since=100.0), None, 60.0, False),
    ],
)
def test_the_quiet_rule(known: RankState, util: float | None, stall_after: float, want: bool) -> None:
    """No line for longer than `stall_after` since it ran, no collective begun, and no GPU that works; 0 is never."""
    assert is_quiet(known, util, now=200.0, stall_after=stall_after) is want


def test_each_rank_is_named_once_and_again_when_it_is_back() -> None:
    """Silence is told when it begins and when it ends, not in between; all ranks are looked at once a second."""
    silences, state = Silences(PLAN), running(line(150.0, 1))
    output = list(silences.news(state, 165.0))
    assert output == [RankSilent(165.0, 0, "h1", True, 65.0)]
    state = apply(state, output[0])
    assert list(silences.news(state, 165.5)) == []
    assert list(silences.news(state, 170.0)) == []
    state = apply(state, line(171.0))
    assert [(e.rank, e.quiet) for e in silences.news(state, 172.0)] == [(0, False)]


def test_ranks_are_looked_at_though_the_clock_was_set_back() -> None:
    """By an hour: not for an hour nobody is."""
    silences, state = Silences(PLAN), running()
    assert list(silences.news(running(line(3700.0), line(3700.0, 1)), 3700.0)) == []
    assert [e.rank for e in silences.news(state, 165.0)] == [0, 1]


def test_who_spoke_before_our_clock_was_set_back_was_not_silent_at_a_stop_after_it() -> None:
    """Rank 0 spoke again, rank 1 did not; what is told of that one is for how long it really has been silent."""
    silences, change = Silences(PLAN), ClockSet(-7200.0, 10000.0 - 7200.0, 10001.0 - 7200.0)
    silences.look(running(), 9000.0)
    silences.look(running(line(9001.0)), 9001.0)
    silences.moved(change.moved)
    assert [(one.rank, one.since) for one in silences.at(2900.0)] == [(1, 100.0 - 7200.0)]


def test_a_rank_that_ends_is_no_longer_quiet() -> None:
    """Nobody is told that a dead rank is back."""
    silences, state = Silences(PLAN), running()
    for event in list(silences.news(state, 165.0)):
        state = apply(state, event)
    state = apply(state, RankChanged(166.0, 0, "h1", "exited", 1))
    assert [e.rank for e in silences.news(state, 170.0)] == []


def test_silence_in_words() -> None:
    """Ranks that fall quiet together are one line; that their GPUs idle is said only when it is known."""
    silences = [RankSilent(1.0, r, "h1", True, 120.4, 0.0) for r in (3, 4, 5)]
    assert [text for text, _ in of_batch(silences)] == ["distui: ranks 3-5 quiet: no line for 2m, GPUs idle"]
    assert [text for text, _ in of_batch([RankSilent(1.0, 3, "h1", False, 0.2)])] == [
        "distui: rank 3 on h1 at work again"
    ]


def test_a_busy_gpu_is_at_work() -> None:
    """The newest sample of the host decides."""
    plan = replace(PLAN, tasks=(replace(PLAN.tasks[0], rank_gpus=((0,),)), PLAN.tasks[1]))
    state = running(HostSampled(160.0, "h1", (GpuReading(0, 90.0),)), line(160.0, 1))
    assert list(Silences(plan).news(state, 165.0)) == []
