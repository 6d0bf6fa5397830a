"""A run's events for many readers, and a recorded run's events as values again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from distui.runs.follow.fanout import MOST_BYTES, MOST_WAITING, Fanout
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
    RunEnded,
    RunOpened,
    StopAsked,
    TaskStarted,
)
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
