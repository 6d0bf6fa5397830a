"""How far ranks are, by the logs here: of a run that has ended, and for whoever reads beside its owner."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from distui.cluster.attach.beside import Beside
from distui.cluster.attach.run_manager import RecordedRun
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json as plan_json
from distui.runs.control.beside import StoredReader
from distui.runs.lines.batch import Batch
from distui.runs.lines.docker_frames import stamp_at
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import Event, LogLine, LogLines, RanksStepped, RunEnded, RunOpened
from distui.runs.state.steps import lags
from distui.runs.store.logs import TaskLog
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.verdict.evidence import Line
from distui.runs.watch.progress.logged_steps import LoggedSteps, last_steps
from distui.runs.watch.track import TaskTrack
from fakehosts.runs import plan_for

PLAN = replace(plan_for("h1", "h2"), progress=r"step (?P<step>\d+)", run_id="r")
OPENED = RunOpened(1.0, "r", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)})
TRACE = "Traceback (most recent call last):\n" + "  File x\n" * 30 + "ValueError: no\n"


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """A run whose rank 1 failed some steps after rank 0 said its last."""
    made = RunStore(tmp_path).adopt("r")
    made.write_plan(plan_json(PLAN))
    made.rank_log(0).write_text("step 1\nstep 2\nsaving\n")
    made.rank_log(1).write_text("step 4\nstep 5\n" + TRACE)
    return made


def record(stored: StoredRun, *events: Event) -> None:
    """Write events into the run's folder."""
    with (stored.path / "events.ndjson").open("a") as file:
        file.writelines(json.dumps(value) + "\n" for event in events for value in to_json(event, "r"))


def steps_in(events: list[Event]) -> list[dict[int, float]]:
    """The steps that were told, by rank."""
    return [{step.rank: step.step for step in e.steps} for e in events if isinstance(e, RanksStepped)]


def test_the_last_step_of_each_rank_is_in_its_log(stored: StoredRun) -> None:
    """Also above a traceback; of a rank without a log, and a job without a pattern, nothing is known."""
    reported = last_steps(stored, PLAN, 9e9)
    assert reported is not None and steps_in([reported]) == [{0: 2, 1: 5}]
    stored.rank_log(0).unlink()
    reported = last_steps(stored, PLAN, 9e9)
    assert reported is not None and steps_in([reported]) == [{1: 5}]
    assert last_steps(stored, replace(PLAN, progress=None), 9e9) is None


@pytest.mark.parametrize("over", [True, False])
def test_a_run_that_is_played_again_has_them(stored: StoredRun, over: bool) -> None:
    """An end is still the last event; a run whose end was not seen has its steps, too."""
    record(stored, OPENED, *([RunEnded(99.0, "failed", 1)] if over else []))
    live = RecordedRun(PLAN, stored)
    assert {rank: pace.last.step for rank, pace in live.state.steps.items()} == {0: 2, 1: 5}
    assert lags(live.state.steps) == {0: 3, 1: 0}
    assert isinstance(live.fan.sent[-1], RunEnded) == over


def test_lines_tell_once_a_second_what_is_new() -> None:
    """Each rank's newest one; another attempt begins with nothing."""
    seen = LoggedSteps(PLAN)
    seen.take([LogLines(5.0, 0, 0, "h1", [LogLine("stdout", f"step {n}") for n in (1, 2)])])
    seen.take([LogLines(6.0, 1, None, "h1", [LogLine("stdout", "step 9")])])
    reported = seen.news(7.0)
    assert reported is not None and [(s.rank, s.step, s.at) for s in reported.steps] == [(0, 2, 5.0)]
    seen.take([LogLines(7.5, 0, 0, "h1", [LogLine("stdout", "step 3")])])
    assert seen.news(7.6) is None
    reported = seen.news(8.1)
    assert reported is not None and reported.steps[0].step == 3
    seen.take([OPENED, LogLines(8.2, 0, 0, "h1", [LogLine("stdout", "step 3")])])
    reported = seen.news(8.3)
    assert reported is not None and reported.steps[0].step == 3


async def test_who_reads_beside_the_owner_knows_them(stored: StoredRun) -> None:
    """Those that were said before it came, then those that are said."""
    record(stored, OPENED)
    now = 9e9
    beside = Beside(PLAN, contextlib.nullcontext, looks=True, reader=StoredReader(stored), clock=lambda: now)
    batches = beside.batches()
    assert steps_in(list(await anext(batches))) == [{0: 2, 1: 5}]
    with stored.rank_log(0).open("a") as file:
        file.write("step 6\n")
    assert steps_in(list(await anext(batches))) == [{0: 6}]
    assert lags(beside.state.steps) == {0: 0, 1: 1}
    with stored.rank_log(1).open("a") as file:
        file.write("step 7\n")
    record(stored, RunEnded(99.0, "failed", 1))
    now += 5
    last = [event async for batch in batches for event in batch]
    assert steps_in(last) == [{1: 7}] and isinstance(last[-1], RunEnded)


async def test_the_last_steps_are_known_though_the_end_comes_within_a_second(stored: StoredRun) -> None:
    """Whoever reads beside the owner is at the same steps as that one when the run ends."""
    record(stored, OPENED)
    beside = Beside(PLAN, contextlib.nullcontext, looks=True, reader=StoredReader(stored), clock=lambda: 9e9)
    batches = beside.batches()
    await anext(batches)
    for step in (6, 7):
        with stored.rank_log(0).open("a") as file:
            file.write(f"step {step}\n")
        if step == 6:
            assert steps_in(list(await anext(batches))) == [{0: 6}]
    record(stored, RunEnded(99.0, "failed", 1))
    last = [event async for batch in batches for event in batch]
    assert steps_in(last) == [{0: 7}] and isinstance(last[-1], RunEnded)


def test_a_plan_without_ranks_is_none(tmp_path: Path) -> None:
    """As a torn one may be."""
    plan: RunPlan = replace(PLAN, tasks=())
    assert last_steps(RunStore(tmp_path).adopt("r"), plan, 1.0) is None


def test_a_bar_is_one_line_of_its_log(stored: StoredRun) -> None:
    """Each time that it was drawn was one, also for the verdict of who goes on with a run: what was said before had the
    time of another line then, or was none of the last lines any more.
    """
    bar = b"".join(b" step %d\r" % number for number in range(30_000)) + b"\n"
    stamps = [stamp_at(moment * 10**9) for moment in (1_700_000_000, 1_700_000_100, 1_700_000_500)]
    log = TaskLog(stored, 0, [0])
    stored.rank_log(0).unlink()
    log.feed(Batch((1,) * 3, stamps, (b"begins\n", bar[-200:], b"ValueError: no\n")))
    log.close()
    known = TaskTrack(PLAN.tasks[0], log)
    known.recall(stored)
    assert known.seen().lines[0] == (
        Line(1_700_000_000.0, "begins"), Line(1_700_000_500.0, " step 29999"), Line(1_700_000_500.0, "ValueError: no")
    )  # fmt: skip
    reported = last_steps(stored, PLAN, 9e9)
    assert reported is not None and [(step.step, step.at) for step in reported.steps if step.rank == 0] == [
        (29_999, 1_700_000_500.0)
    ]
    stored.rank_log(0).write_bytes(bar)  # longer than what is read of it
    known.recall(stored)
    assert [line.text for line in known.seen().lines[0]] == [" step 29999"]


@pytest.mark.parametrize("log", [b"", b"x" * 100_000, b"x" * 100_000 + b"\n", b"\r" * 100_000])
def test_a_log_of_which_no_line_is_read_is_none(stored: StoredRun, log: bytes) -> None:
    """Empty, or one line that is longer than what is read: whoever went on with such a run, or opened it, could not."""
    stored.rank_log(0).write_bytes(log)
    written = TaskLog(stored, 0, [0])
    track = TaskTrack(PLAN.tasks[0], written)
    written.close()
    track.recall(stored)
    assert track.seen().lines == {}
    assert last_steps(stored, replace(PLAN, tasks=PLAN.tasks[:1]), 9e9) is None
