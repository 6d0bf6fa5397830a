"""A run's events for many readers, and a recorded run's events as values again."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from distui.runs.follow import fanout
from distui.runs.follow.fanout import MOST_BYTES, MOST_WAITING, STEPS_EACH, Fanout
from distui.runs.lines.events import (
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostChanged,
    HostSampled,
    LogLine,
    LogLines,
    Notice,
    PhaseBegun,
    RankChanged,
    RanksAsked,
    RanksStepped,
    RankStep,
    RunEnded,
    RunOpened,
    StopAsked,
    TaskStarted,
)
from distui.runs.lines.explanation import Explanation
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.journal import Journal
from distui.runs.store.recorded import stored_events, stored_samples
from distui.runs.store.runs import RunStore

FAILURE = Failure(1, "h2", 3, "exit 3", "CUDA error", "look", ("a", "b"), 4.5)
STORY: tuple[Event, ...] = (
    RunOpened(1.0, "r", "j", "env", "img", {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}, log_dir="/l"),
    PhaseBegun(1.5, "start"),
    HostChanged(2.0, "h1", "up"),
    TaskStarted(2.5, 0, "h1", "abc"),
    RankChanged(3.0, 0, "h1", "running"),
    RankChanged(4.0, 1, "h2", "exited", 3, words="exit 3"),
    FailureFound(4.5, FAILURE),
    StopAsked(5.0, "failure", 30.0),
    Notice(5.5, "warning", "slow", "h1"),
    RunEnded(6.0, "failed", 1, FAILURE, "/l", ("left",), 5.0),
)


async def read(fan: Fanout) -> list[Event]:
    return [event async for batch in fan.batches() for event in batch]


async def test_a_late_reader_hears_the_whole_story() -> None:
    """Whoever comes late gets everything but log lines and samples, then goes on like the others; all end."""
    fan = Fanout()
    early = asyncio.create_task(read(fan))
    await asyncio.sleep(0)
    line = LogLines(3.5, 0, 0, "h1", (LogLine("stdout", "x"),))
    fan.put((*STORY[:5], line, HostSampled(3.6, "h1")))
    late = asyncio.create_task(read(fan))
    await asyncio.sleep(0)
    fan.put(STORY[5:])
    assert [e for e in await early if e in STORY] == list(STORY)
    assert line in await early
    assert await late == list(STORY)
    assert await read(fan) == list(STORY)
    assert fan.state.summary == "failed"


async def test_a_reader_that_sleeps_costs_no_memory() -> None:
    """A screen that does not read keeps events, not log lines: those are in the files."""
    fan = Fanout()
    batches = fan.batches()
    fan.put(STORY[:1])
    assert await anext(batches) == STORY[:1]
    line = LogLines(3.5, 0, 0, "h1", (LogLine("stdout", "x"),))
    for _ in range(MOST_WAITING * 2 // 50 + 1):
        fan.put((line,) * 50)
    fan.put(STORY[1:])
    rest = [event async for batch in batches for event in batch]
    assert len(rest) <= MOST_WAITING + len(STORY) + 50
    assert [e for e in rest if e in STORY] == list(STORY[1:])


async def test_long_lines_for_a_reader_that_sleeps_cost_no_memory() -> None:
    """They are counted by their bytes, too."""
    fan = Fanout()
    batches = fan.batches()
    fan.put(STORY[:1])
    assert await anext(batches) == STORY[:1]
    line = LogLines(3.5, 0, 0, "h1", (LogLine("stdout", "x" * (MOST_BYTES // 2)),))
    for _ in range(3):
        fan.put((line,))
    fan.put(STORY[1:])
    assert [event async for batch in batches for event in batch] == list(STORY[1:])


def stepped(second: int, ranks: Iterable[int] = range(64)) -> RanksStepped:
    """Ranks that said a step each, of which each takes two seconds."""
    return RanksStepped(
        float(second), tuple(RankStep(rank, second / 2, float(second), None, {"loss": 1.0}) for rank in ranks)
    )


def last(state: RunState) -> dict[int, RankStep]:
    return {rank: pace.last for rank, pace in state.steps.items()}


async def test_steps_of_a_long_run_cost_no_memory() -> None:
    """A week has 600,000 seconds: of each rank the last steps are kept, also of one that says nothing any more."""
    fan = Fanout()
    fan.put(STORY[:3])
    fan.put((stepped(0),))
    for second in range(2, 600, 2):
        fan.put((stepped(second, range(1, 64)),))
    fan.put(STORY[3:6])
    late = await anext(fan.batches())
    reported = [event for event in late if isinstance(event, RanksStepped)]
    assert sum(len(event.steps) for event in reported) == 1 + 63 * STEPS_EACH
    assert [event for event in late if event not in reported] == list(STORY[:6])
    state = functools.reduce(apply, late, RunState())
    assert last(state) == last(fan.state) and len(state.steps) == 64
    assert all(state.steps[rank] == fan.state.steps[rank] for rank in range(64)), "and how long a step takes"


async def test_steps_for_a_reader_that_sleeps_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the last ones."""
    monkeypatch.setattr(fanout, "MOST_STEPS", 64 * 50)
    fan = Fanout()
    batches = fan.batches()
    fan.put(STORY[:1])
    assert await anext(batches) == STORY[:1]
    for second in range(0, 400, 2):
        fan.put((stepped(second),))
    rest = await anext(batches)
    assert sum(len(event.steps) for event in rest if isinstance(event, RanksStepped)) <= 64 * (50 + STEPS_EACH)
    state = functools.reduce(apply, rest, RunState())
    assert last(state) == last(fan.state)


async def test_a_late_reader_is_told_of_this_attempt_and_keeps_why_nothing_goes_on() -> None:
    """The steps come where they came: an answer after them is not refuted by them, one before them is."""
    answer = RanksAsked(20.0, Explanation("hang", "rank 1 stands", "certain", ()))
    for story in (
        (STORY[0], stepped(30), answer),
        (STORY[0], answer, stepped(30)),
        (STORY[0], stepped(30), replace(STORY[0], attempt=2)),
        (STORY[0], stepped(30), replace(STORY[0], attempt=2), stepped(40, (1,))),
    ):
        fan = Fanout()
        fan.put(story)
        assert functools.reduce(apply, await anext(fan.batches()), RunState()) == fan.state


async def test_a_long_story_is_not_sifted_with_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A week of a host that comes and goes: who begins to read gets the first lines, one that sleeps costs little."""
    monkeypatch.setattr(fanout, "MOST_WAITING", 100)
    fan = Fanout()
    fan.put((STORY[0], *(HostChanged(2.0 + n, "h1", "lost" if n % 2 else "back") for n in range(300))))
    reader = fan.batches()
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    line = LogLines(400.0, 0, 0, "h1", (LogLine("stdout", "x"),))
    fan.put((line,))
    assert len(await waiting) + len(await anext(reader)) == 302
    sifted: list[int] = []
    story = fanout._Story.add
    monkeypatch.setattr(fanout._Story, "add", lambda self, events: (sifted.append(len(events)), story(self, events))[1])
    for n in range(1000):
        fan.put((HostChanged(500.0 + n, "h1", "lost" if n % 2 else "back"),))
    assert sum(sifted) < 10_000
    assert len(await anext(reader)) == 1000


def test_a_recorded_run_reads_as_it_was_written(tmp_path: Path) -> None:
    """Every stored event comes back as the value it was; torn and foreign lines are passed over."""
    stored = RunStore(tmp_path).create("r")
    stored.write_plan({"tasks": [{"index": 0, "ranks": [0]}, {"index": 1, "ranks": [1]}]})
    journal = Journal(stored)
    sample = HostSampled(3.5, "h1", (GpuReading(0, 90.0, 1000, None, 50.0, 300.0),), {"eth0": (1.0, 2.0)})
    journal.write((*STORY, sample))
    journal.close()
    with (stored.path / "events.ndjson").open("a") as file:
        file.write('{"type": "rank"}\n{"type": "new in 2030", "ts": "2030-01-01T00:00:00Z"}\n[]\n{"ty')
    assert tuple(stored_events(stored)) == STORY
    assert stored_samples(stored) == (sample,)
    whole = (stored.path / "events.ndjson").read_bytes()
    for end in range(0, whole.index(b'{"type": "rank"}'), 7):
        (stored.path / "events.ndjson").write_bytes(whole[:end])
        events = tuple(stored_events(stored))
        assert events == STORY[: len(events)], "of a journal that is torn all that is whole"
    (stored.path / "events.ndjson").write_bytes(whole)
    state = RunState()
    for event in stored_events(stored):
        state = apply(state, event)
    assert state.failure == FAILURE
    assert state.summary == "failed"
