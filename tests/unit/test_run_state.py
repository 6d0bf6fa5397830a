"""The reducer: state follows from events alone."""

from dataclasses import replace

from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import (
    Event,
    Failure,
    FailureFound,
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

OPENED = RunOpened(
    at=100.0,
    run="r1",
    job="j",
    launcher="env",
    image="img",
    ranks={0: "h1", 1: "h2"},
    tasks={0: (0,), 1: (1,)},
    log_dir="/logs",
)


def fold(*events: Event) -> RunState:
    state = RunState()
    for event in events:
        state = apply(state, event)
    return state


def test_a_run_launches_runs_and_ends() -> None:
    """The run's own state follows the documented order."""
    opened = fold(OPENED, PhaseBegun(100.5, "start"))
    running = fold(OPENED, RankChanged(101, 0, "h1", "running"), RankChanged(101, 1, "h2", "running"))
    ended = apply(running, RunEnded(110, "succeeded", 0))

    assert opened.summary == "launching"
    assert running.summary == "running"
    assert ended.summary == "succeeded"


def test_a_lost_host_degrades_the_run_until_it_is_back() -> None:
    """A lost host is not a failed one."""
    running = fold(OPENED, RankChanged(101, 0, "h1", "running"), RankChanged(101, 1, "h2", "running"))
    lost = apply(running, HostChanged(102, "h2", "lost", "timed out"))

    assert lost.summary == "degraded"
    assert lost.hosts["h2"].reason == "timed out"
    assert apply(lost, HostChanged(103, "h2", "back")).summary == "running"


def test_stop_goes_before_degraded() -> None:
    """While stopping, that is what the run is doing."""
    assert fold(OPENED, StopAsked(101, "user", 30.0)).summary == "stopping"


def test_lines_are_counted_and_the_last_is_kept() -> None:
    """State holds counts and the last line, never the log."""
    lines = LogLines(101, 0, 0, "h1", (LogLine("stdout", "a"), LogLine("stderr", "b")))
    state = fold(OPENED, lines, lines)

    assert state.ranks[0].lines == 4
    assert state.ranks[0].last_line == "b"
    assert state.ranks[1].lines == 0


def test_launcher_lines_belong_to_no_rank() -> None:
    """torchrun's own words change no rank."""
    state = fold(OPENED)

    assert apply(state, LogLines(101, 0, None, "h1", (LogLine("stderr", "x"),))) == state


def test_every_event_has_json_with_the_run_and_a_type() -> None:
    """Each line of the NDJSON stream says version, time, run and type."""
    failure = Failure(1, "h2", 3, "exit 3", excerpt=("boom",), at=105.0)
    events: list[Event] = [
        OPENED,
        PhaseBegun(1, "check"),
        HostChanged(1, "h1", "up"),
        TaskStarted(1, 0, "h1", "abc"),
        RankChanged(1, 0, "h1", "running"),
        LogLines(1, 0, 0, "h1", (LogLine("stdout", "x", "2026-11-21T00:00:00Z"),)),
        HostSampled(1, "h1"),
        FailureFound(1, failure),
        StopAsked(1, "failure", 30),
        Notice(1, "info", "n"),
        RunEnded(1, "failed", 1, failure=failure),
    ]

    values = [value for event in events for value in to_json(event, "r1")]

    assert [v["type"] for v in values] == [
        "run", "phase", "host", "task", "rank", "log", "gpu", "failure", "stop", "notice", "result",
    ]  # fmt: skip
    assert all(v["v"] == 1 and v["run"] == "r1" and v["ts"].endswith("Z") for v in values)
    assert values[-1]["first_failure"]["excerpt"] == ["boom"]


def test_opening_again_forgets_the_old_end() -> None:
    """Attaching to a run again starts from its live state."""
    ended = fold(OPENED, RunEnded(110, "unknown", 6))

    assert apply(ended, replace(OPENED, adopted=True)).ended is None
