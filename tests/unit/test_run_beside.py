"""Reading a run beside its owner: every event and line once, whoever owns it; taken over when the owner leaves."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cluster.attach import beside
from distui.cluster.attach.beside import Beside
from distui.cluster.attach.run_manager import FollowedRun
from distui.errors import HostUnreachable
from distui.files import write_private
from distui.plan.serialize import to_json
from distui.runs.control.beside import StoredReader
from distui.runs.control.controller import RunController
from distui.runs.lines.batch import Batch
from distui.runs.lines.docker_frames import stamp_at
from distui.runs.lines.event_json import to_json as to_json_of
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    GpuReading,
    HostSampled,
    LogLines,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RunEnded,
    RunOpened,
    RunStalled,
)
from distui.runs.lines.text import MAX_OPEN
from distui.runs.lines.times import times_of
from distui.runs.report.rank_rows import rank_rows
from distui.runs.state.standstill import standstill
from distui.runs.store import new_lines
from distui.runs.store import runs as store
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import RunStore, StoredRun
from fakehosts.runs import Cluster, two_hosts, until


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts."""
    made = two_hosts(tmp_path, monkeypatch)
    monkeypatch.setattr(beside, "HANDED_OVER_SECONDS", 60.0)
    return made


def stamped(**values: object) -> str:
    """A stored event."""
    return json.dumps({"v": 1, "ts": "2026-01-01T00:00:00.000Z", "run": "r1", **values}) + "\n"


def opened(attempt: int = 1) -> str:
    """A session's first event."""
    ranks = [{"rank": 0, "host": "h1"}]
    output = {"job": "j", "launcher": "env", "image": None, "attempts": 2, "adopted": False, "log_dir": ""}
    return stamped(type="run", attempt=attempt, ranks=ranks, **output)


def result(state: str) -> str:
    """A session's last event."""
    output = {"first_failure": None, "log_dir": "", "leftovers": [], "took_s": 1.0, "progress": None}
    return stamped(type="result", state=state, exit=0, **output)


def said(events: Sequence[Event]) -> list[str]:
    """The lines in them."""
    return [line.text for event in events if isinstance(event, LogLines) for line in event.lines]


def add(path: Path, text: str) -> None:
    """Append to a file."""
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def stored(cluster: Cluster) -> StoredRun:
    """A run of one rank that has said two lines."""
    stored = cluster.store.adopt("r1")
    (stored.path / "events.ndjson").write_text(opened() + result("detached"))
    stored.rank_log(0).write_text("one\ntwo\n")
    return stored


def test_lines_come_once_also_when_the_log_is_cut_and_written_again(stored: StoredRun) -> None:
    """What was there before is not said again; another owner goes on from its checkpoint with the same bytes."""
    reader = StoredReader(stored)
    assert [type(event) for event in reader.before()] == [RunOpened]
    add(stored.rank_log(0), "three\nfo")
    assert said(reader.read(0.0)) == ["three"]
    stored.rank_log(0).write_text("one\n")
    assert reader.read(0.0) == []
    add(stored.rank_log(0), "two\nthree\nfour\nend")
    add(stored.path / "events.ndjson", opened())
    assert said(reader.read(0.0)) == ["four"]
    add(stored.path / "events.ndjson", result("detached") + result("succeeded"))
    last = reader.read(0.0)
    assert (said(last), type(last[-1])) == (["end"], RunEnded)


@pytest.mark.parametrize("saved", [True, False], ids=["with a checkpoint", "without"])
def test_what_ranks_said_before_is_counted(stored: StoredRun, saved: bool) -> None:
    """Else one that has just spoken is taken for silent since its start, and the run for one that stands still."""
    stored.rank_log(0).unlink()
    log = TaskLog(stored, 0, [0])
    fed(log, "one", "two")
    if saved:
        assert log.checkpoint({})
    fed(log, "three")
    reader = StoredReader(stored)
    assert lines_before(reader) == {0: 3}
    fed(log, "four")
    log.close()
    assert said(reader.read(0.0)) == ["four"]


@pytest.mark.parametrize("saved", [True, False], ids=["with a checkpoint", "without"])
def test_a_line_whose_time_is_there_before_it_is_counted_once(stored: StoredRun, saved: bool) -> None:
    """Its owner writes the time of a line first; who begins to read in between hears the line afterwards."""
    stored.rank_log(0).unlink()
    log = TaskLog(stored, 0, [0])
    fed(log, "one", "two")
    if saved:
        assert log.checkpoint({})
    log.close()
    add(times_of(stored.rank_log(0)), "8 bytes.")
    reader = StoredReader(stored)
    assert lines_before(reader) == {0: 2}
    add(stored.rank_log(0), "three\n")
    assert said(reader.read(0.0)) == ["three"]


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "has no end"])
@pytest.mark.parametrize("text", ["one\ntwo\nthr", "thr", "one\n"])
def test_a_line_without_an_end_is_heard_whole(stored: StoredRun, text: str, ends: bool) -> None:
    """Who begins to read within a line hears all of it when it ends, and counts it then."""
    stored.rank_log(0).write_text(text)
    reader = StoredReader(stored)
    assert lines_before(reader) == ({0: text.count("\n")} if "\n" in text else {})
    add(stored.rank_log(0), "ee" + "\n" * ends)
    add(stored.path / "events.ndjson", result("succeeded"))
    assert said(reader.read(0.0)) + said(reader.read(0.0)) == [text.rpartition("\n")[2] + "ee"]


def test_a_line_over_a_checkpoint_is_counted_when_it_ends(stored: StoredRun) -> None:
    """A very long line is written part by part, and its time with its first part."""
    stored.rank_log(0).unlink()
    log = TaskLog(stored, 0, [0])
    fed(log, "one")
    log.feed(Batch((1,), (b"",), [b"x" * MAX_OPEN]))
    assert log.checkpoint({})
    assert stored.rank_log(0).stat().st_size > len("one\n")
    reader = StoredReader(stored)
    assert lines_before(reader) == {0: 1}
    fed(log, "end", "three")
    log.close()
    assert said(reader.read(0.0)) == ["end", "three"]


def lines_before(reader: StoredReader) -> dict[int, int]:
    """Rank -> lines that it had said before."""
    (begun,) = [event for event in reader.before() if isinstance(event, RunOpened)]
    return dict(begun.lines)


def fed(log: TaskLog, *lines: str) -> None:
    """Lines that come from the host."""
    text = [f"{line}\n".encode() for line in lines]
    log.feed(Batch((1,) * len(text), (b"",) * len(text), text))


@pytest.mark.parametrize("seen_between", [False, True], ids=["written again at once", "seen in between"])
@pytest.mark.parametrize("knew", [True, False], ids=["who knew is followed", "who did not know is followed"])
@pytest.mark.parametrize("value", ["hunter2-hunter2", "secret"])
def test_lines_come_once_also_when_the_next_owner_hides_other_values(
    stored: StoredRun, value: str, knew: bool, seen_between: bool
) -> None:
    """An owner was killed; the next one knows no values of secrets, or others, and its lines have other lengths."""
    knows = Mask({"TOKEN": value})
    stored.rank_log(0).unlink()
    said_before, lines = f"begun with {value}", [f"{i} {value}" for i in range(40)]
    first = TaskLog(stored, 0, [0], mask=knows if knew else NOTHING)
    fed(first, said_before)
    assert first.checkpoint({})
    fed(first, *lines[:5])
    reader = StoredReader(stored)
    reader.before()
    fed(first, *lines[5:10])
    heard = said(reader.read(0.0))
    fed(first, *lines[10:13])
    first.close()

    second = TaskLog(stored, 0, [0], mask=NOTHING if knew else knows)
    second.restore(lambda value: value)
    if seen_between:
        assert reader.read(0.0) == []
    fed(second, *lines[:7])
    heard += said(reader.read(0.0)) if seen_between else []
    fed(second, *lines[7:40])
    second.close()
    heard += [line for _ in range(3) for line in said(reader.read(0.0))]
    assert [line.replace(value, "***") for line in heard] == [f"{i} ***" for i in range(5, 40)]


@given(
    steps=st.lists(st.sampled_from(["say", "say", "save", "kill", "read"]), max_size=40),
    begin=st.integers(0, 10),
    apart=st.sampled_from([1, 60, new_lines.MARK_BYTES]),
)
def test_each_line_comes_once_whoever_is_killed_when(steps: list[str], begin: int, apart: int) -> None:
    """Owners who know the value of a secret and owners who don't take turns; each goes on from the last checkpoint."""
    value = "hunter2-hunter2"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_lines, "MARK_BYTES", apart)
        stored = RunStore(Path(folder)).create("r1")
        (stored.path / "events.ndjson").write_text(opened())
        masks = cycle([Mask({"TOKEN": value}), NOTHING])
        log, line, saved, furthest = TaskLog(stored, 0, [0], mask=next(masks)), 0, 0, 0
        reader, first, heard = StoredReader(stored), 0, []
        for number, step in enumerate([*steps, *["say"] * 60, "read"]):
            if number == begin:
                reader, first, heard = StoredReader(stored), line, []
                reader.before()
            if step == "say":
                fed(log, f"{line} {value}")
                line += 1
                furthest = max(furthest, line)
            elif step == "save":
                assert log.checkpoint({})
                saved = line
            elif step == "kill":
                log.close()
                log, line = TaskLog(stored, 0, [0], mask=next(masks)), saved
                log.restore(lambda value: value)
            else:
                heard += said(reader.read(0.0))
        log.close()
        heard += said(reader.read(0.0))
        assert [text.replace(value, "***") for text in heard] == [f"{i} ***" for i in range(first, furthest)]


def test_of_a_log_that_is_cut_only_what_is_written_again_is_passed(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all that was said since it is read: of a run of days that is gigabytes."""
    monkeypatch.setattr(new_lines, "MARK_BYTES", 1000)
    log = TaskLog(stored, 0, [0])
    reader = StoredReader(stored)
    reader.before()
    heard: list[str] = []
    for begin in range(0, 10_000, 100):
        fed(log, *(f"line {number}" for number in range(begin, begin + 100)))
        assert log.checkpoint({})
        heard += said(reader.read(0.0))
    fed(log, "not noted")
    heard += said(reader.read(0.0))
    log.close()
    (own,) = (one.file for one in reader._logs.values() if one.rank == 0)
    assert own.at - own._base < 3000 and len(own._marks) < 4
    log = TaskLog(stored, 0, [0])
    log.restore(lambda value: value)
    fed(log, "not noted", "new")
    log.close()
    heard += [line for _ in range(3) for line in said(reader.read(0.0))]
    assert heard == [*(f"line {number}" for number in range(10_000)), "not noted", "new"]


def test_an_attempt_that_failed_is_read_to_its_end_where_it_is_kept(stored: StoredRun) -> None:
    """Its last lines come before the word that it has failed, the next one's after that."""
    reader = StoredReader(stored)
    reader.before()
    add(stored.rank_log(0), "last of the first\n")
    failed = stamped(type="attempt", attempt=1, attempts=2, pause_s=2.0, first_failure=None, log_dir="")
    stored.set_aside(1)
    stored.rank_log(0).write_text("first of the second\n")
    add(stored.path / "events.ndjson", failed + opened(2))
    events = [event for _ in range(3) for event in reader.read(0.0)]
    assert said(events) == ["last of the first", "first of the second"]


def test_the_next_attempt_is_read_from_its_beginning_by_who_comes_between_two(stored: StoredRun) -> None:
    """The lines of the attempt that has failed were there before; those of the next one are all new."""
    failed = stamped(type="attempt", attempt=1, attempts=2, pause_s=2.0, first_failure=None, log_dir="")
    (stored.path / "events.ndjson").write_text(opened() + failed)
    reader = StoredReader(stored)
    assert [type(event) for event in reader.before()] == [RunOpened, AttemptEnded]
    assert reader.read(0.0) == []
    stored.set_aside(1)
    stored.rank_log(0).write_text("short\n")
    add(stored.path / "events.ndjson", opened(2))
    events = [event for _ in range(3) for event in reader.read(0.0)]
    assert [event.attempt for event in events if isinstance(event, RunOpened)] == [2]
    assert said(events) == ["short"]


def test_a_run_without_a_folder_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Another reader of the same new home was a moment faster."""
    reader = StoredReader(StoredRun(tmp_path / "runs" / "r1"))
    assert reader.before() == []
    folder = Cluster(tmp_path, 1).store.adopt("r1")
    folder.rank_log(0).write_text("one\n")
    (folder.path / "events.ndjson").write_text(opened() + stamped(type="notice", level="info", host=None, text="hello"))
    events = [*reader.read(0.0), *reader.read(0.0)]
    assert said(events) == ["one"]
    assert any(isinstance(event, Notice) for event in events)


def sample(host: str, load: float) -> str:
    """A stored sample of a host with one GPU."""
    return stamped(type="gpu", host=host, gpus=[[load, 100, 40.0, 90.0]], indices=[0], net={})


def step(number: float) -> str:
    """A stored line of progress."""
    return stamped(type="progress", rank=0, host="h1", values={"step": number, "total": 9.0}, seconds_per_step=0.5)


def figures(events: Sequence[Event]) -> list[tuple[str, float | None]]:
    """The figures in them."""
    found: list[tuple[str, float | None]] = []
    for event in events:
        if isinstance(event, HostSampled):
            found.append((event.host, event.gpus[0].utilization_pct))
        elif isinstance(event, Progressed):
            found.append(("step", event.values["step"]))
    return found


def test_figures_that_the_owner_writes_down_are_read(stored: StoredRun, tmp_path: Path) -> None:
    """The newest that are there, then each once; also when the file is written again, and in a copy of the folder."""
    path = stored.path / "metrics.ndjson"
    path.write_text(sample("h1", 1.0) + step(1) + sample("h2", 2.0) + sample("h1", 3.0) + step(2) + "no event\n")
    reader = StoredReader(stored)
    before = reader.before()
    assert isinstance(before[0], RunOpened)
    assert sorted(figures(before)) == [("h1", 3.0), ("h2", 2.0), ("step", 2.0)]
    assert figures(reader.read(0.0)) == []
    add(path, sample("h1", 4.0) + sample("h2", 5.0)[:20])
    assert figures(reader.read(0.0)) == [("h1", 4.0)]
    add(path, sample("h2", 5.0)[20:])
    assert figures(reader.read(0.0)) == [("h2", 5.0)]
    write_private(path, (sample("h1", 1.0) + sample("h1", 4.0)).encode())
    assert figures(reader.read(0.0)) == []
    add(path, step(3))
    assert figures(reader.read(0.0)) == [("step", 3.0)]
    copy = StoredRun(tmp_path / "copy" / "r1")
    shutil.copytree(stored.path, copy.path)
    reader.move(copy)
    add(copy.path / "metrics.ndjson", step(4))
    assert figures(reader.read(0.0)) == [("step", 4.0)]
    add(copy.path / "metrics.ndjson", step(5))
    add(copy.path / "events.ndjson", result("succeeded"))
    ended = [*reader.read(0.0), *reader.read(0.0)]
    assert (figures(ended), type(ended[-1])) == ([("step", 5.0)], RunEnded)


def test_a_sample_tells_there_what_the_owner_shows_of_a_host(stored: StoredRun) -> None:
    """CPU, memory, and of GPUs also how much memory they have; what is not known takes no room."""
    reader = StoredReader(stored)
    reader.before()
    gpu = GpuReading(0, utilization_pct=97.0, memory_used_mib=70_000, memory_total_mib=81_559, power_w=110.0)
    full = HostSampled(5.0, "h1", (gpu,), cpu_pct=12.3, memory_total_mib=1024, memory_available_mib=512)
    bare = HostSampled(6.0, "h2")
    for event in (full, bare):
        (value,) = to_json_of(event, "r1")
        add(stored.path / "metrics.ndjson", json.dumps(value) + "\n")
    assert reader.read(0.0) == [full, bare]
    assert set(to_json_of(bare, "r1")[0]) == {"v", "ts", "run", "type", "host", "gpus", "indices", "net"}


async def test_who_reads_beside_goes_on_when_the_owner_leaves(cluster: Cluster) -> None:
    """It becomes the owner, and ends as the run does."""
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan)
    owner.stored.write_plan(to_json(plan))
    begun = asyncio.Event()
    events: list[Event] = []

    @contextlib.asynccontextmanager
    async def own() -> AsyncIterator[RunController]:
        async with cluster.controller(plan, adopted=True) as controller:
            yield controller

    async def drain() -> None:
        async for batch in owner.batches():
            if any(isinstance(event, PhaseBegun) and event.phase == "follow" for event in batch):
                begun.set()

    async def read(beside: Beside) -> None:
        async with beside:
            async for batch in beside.batches():
                events.extend(batch)

    async with asyncio.timeout(60):
        async with owner:
            draining = asyncio.create_task(drain())
            await begun.wait()
            beside = Beside(plan, own, reader=StoredReader(owner.stored))
            reading = asyncio.create_task(read(beside))
            owner.request_detach()
            await draining
        for host in cluster.hosts:
            host.containers[0].end(0)
        await reading
    ends = [event for event in events if isinstance(event, RunEnded)]
    assert [(end.outcome, end.exit) for end in ends] == [("succeeded", 0)]
    assert beside.state.summary == "succeeded"
    assert cluster.left() == []


async def test_a_stop_is_done_though_the_owner_dies_once_it_has_heard_of_it(cluster: Cluster) -> None:
    """Whoever reads beside takes the run over, and ends it."""
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan, detach=True)
    owner.stored.write_plan(to_json(plan))
    await cluster.drive(owner)
    lock = contextlib.ExitStack()
    lock.enter_context(owner.stored.followed())

    @contextlib.asynccontextmanager
    async def own() -> AsyncIterator[RunController]:
        async with cluster.controller(plan, adopted=True) as controller:
            yield controller

    events: list[Event] = []
    async with asyncio.timeout(60), Beside(plan, own, reader=StoredReader(owner.stored)) as other:
        other.request_stop("user", grace=0.0)
        assert owner.stored.stop_asked() is not None
        lock.close()
        async for batch in other.batches():
            events.extend(batch)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert any("kill" in host.verbs() for host in cluster.hosts)
    assert cluster.left() == []


def nobody() -> contextlib.AbstractAsyncContextManager[RunController]:
    """For who is not to follow the run itself yet."""
    raise AssertionError


async def test_who_may_only_look_goes_on_with_the_next_owner(
    stored: StoredRun, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another distui here takes the run up a moment after its owner died: the end is that of the run."""
    looks: list[bool] = []
    owners = contextlib.ExitStack()

    async def next_look(_: float) -> None:
        looks.append(stored.is_followed)
        if len(looks) == 3:
            owners.enter_context(stored.followed())
        elif len(looks) == 6:
            add(stored.path / "events.ndjson", opened() + result("succeeded"))

    monkeypatch.setattr(beside.asyncio, "sleep", next_look)
    with owners:
        other = Beside(cluster.plan(), nobody, looks=True, reader=StoredReader(stored))
        events = [event async for batch in other.batches() for event in batch]
    assert looks == [False, False, False, True, True, True]
    assert [(event.outcome, event.exit) for event in events if isinstance(event, RunEnded)] == [("succeeded", 0)]


async def test_who_may_only_look_and_leaves_has_seen_no_fault(stored: StoredRun, cluster: Cluster) -> None:
    """What was asked for is exit 0, also while nobody follows the run."""
    other = Beside(cluster.plan(), nobody, looks=True, reader=StoredReader(stored))
    other.request_detach()
    events = [event async for batch in other.batches() for event in batch]
    assert [(event.outcome, event.exit) for event in events if isinstance(event, RunEnded)] == [("detached", 0)]


async def test_who_reads_beside_finds_nothing_still_before_its_owner(stored: StoredRun, cluster: Cluster) -> None:
    """A rank that drew a progress bar was quiet here, and its run stood still: no line of it came."""
    plan = replace(cluster.plan(progress=r"step (?P<step>\d+)"), stall_after=60.0)
    started = RankChanged(time.time(), 0, "h1", "running")
    add(stored.path / "events.ndjson", opened() + "".join(json.dumps(one) + "\n" for one in to_json_of(started, "r1")))
    add(stored.rank_log(0), "step 1\n")
    other = Beside(plan, nobody, reader=StoredReader(stored))
    other.request_detach()
    async for _ in other.batches():
        pass
    assert [pace.last.step for pace in other.state.steps.values()] == [1]
    state, later = replace(other.state, ended=None), time.time() + 3600
    words = [row.word for row in rank_rows(plan, state, now=later, spoke=frozenset({0}))]
    assert (state.summary, standstill(plan, state, later), words[0]) == ("running", None, "ok")


async def test_a_step_is_of_when_it_was_said_also_where_its_rank_goes_on_to_speak(
    stored: StoredRun, cluster: Cluster
) -> None:
    """Of when its log was written to last it refuted that the run stood still since: that was not shown."""
    plan, now = replace(cluster.plan(progress=r"step (?P<step>\d+)"), stall_after=60.0), time.time()
    stamps = [stamp_at(int((now - ago) * 1e9)) for ago in (500, 1)]
    log = TaskLog(stored, 0, [0])
    log.feed(Batch((1, 1), stamps, (b"step 1\n", b"still here\n")))
    log.close()
    events = RankChanged(now - 600, 0, "h1", "running"), RunStalled(now - 400, True, now - 500, 1.0)
    written = (json.dumps(one) + "\n" for event in events for one in to_json_of(event, "r1"))
    add(stored.path / "events.ndjson", opened() + "".join(written))
    other = Beside(plan, nobody, reader=StoredReader(stored))
    other.request_detach()
    async for _ in other.batches():
        pass
    found = standstill(plan, replace(other.state, ended=None), now)
    assert found is not None and found.step == 1.0


async def test_the_app_reads_such_a_run_as_one_that_is_read_beside(stored: StoredRun, cluster: Cluster) -> None:
    """It folds the events once more: there a rank that drew a progress bar was quiet, and its run stood still."""
    plan = replace(cluster.plan(progress=r"step (?P<step>\d+)"), stall_after=60.0)
    started = RankChanged(time.time(), 0, "h1", "running")
    add(stored.path / "events.ndjson", opened() + "".join(json.dumps(one) + "\n" for one in to_json_of(started, "r1")))
    add(stored.rank_log(0), "step 1\n")
    run = FollowedRun(Beside(plan, nobody, reader=StoredReader(stored)))
    run.request_detach()
    async for batch in run.controller.batches():
        run.fan.put(batch)
    state, later = replace(run.state, ended=None), time.time() + 3600
    words = [row.word for row in rank_rows(plan, state, now=later, spoke=frozenset({0}))]
    assert (state.summary, standstill(plan, state, later), words[0]) == ("running", None, "ok")


async def test_who_reads_beside_can_leave_ranks_that_say_more_than_can_be_shown(
    stored: StoredRun, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is news at each look, and who shows it waits for nothing: a key or a signal is heard all the same."""
    monkeypatch.setattr(StoredReader, "read", lambda *_: [Notice(0.0, "info", "more")])
    other = Beside(cluster.plan(), nobody, reader=StoredReader(stored))
    asyncio.get_running_loop().call_soon(other.request_detach)
    events: list[Event] = []
    async for batch in other.batches():
        events += batch
        assert len(events) < 1000
    assert isinstance(events[-1], RunEnded) and events[-1].outcome == "detached"


async def test_a_stop_is_asked_of_the_owner(cluster: Cluster) -> None:
    """By whoever reads beside; with the grace that was asked for."""
    plan = cluster.plan(launch="beef")
    owner = cluster.controller(plan)

    async def ask() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        await until(lambda: owner.state.phase == "follow")
        other = Beside(plan, lambda: contextlib.nullcontext(owner), reader=StoredReader(owner.stored))
        other.request_stop("user", grace=0.0)

    ended = await cluster.drive(owner, ask())
    assert (ended.outcome, ended.exit) == ("stopped", 143)
    assert any("kill" in host.verbs() for host in cluster.hosts)


async def test_a_stop_that_the_owner_cannot_be_asked_for_is_reported(
    stored: StoredRun, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk here is full: why, and that the run goes on; it is read on, and nothing is lost."""

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_private", full)
    other = Beside(cluster.plan(), lambda: contextlib.nullcontext(), reader=StoredReader(stored))  # type: ignore[arg-type, return-value]
    events: list[Event] = []
    with stored.followed():
        other.request_stop("user")
        add(stored.rank_log(0), "three\n")
        add(stored.path / "events.ndjson", opened() + result("succeeded"))
        async for batch in other.batches():
            events += batch
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.level == "error"
    assert "No space left on device" in notice.text and "the run is still running" in notice.text
    assert said(events) == ["three"]
    assert isinstance(events[-1], RunEnded)


async def test_who_can_not_take_the_run_over_reads_on_beside_who_could(stored: StoredRun, cluster: Cluster) -> None:
    """No host answers us, say: that was the end, though another distui here follows the run by then."""
    owners = contextlib.ExitStack()

    @contextlib.asynccontextmanager
    async def own() -> AsyncIterator[RunController]:
        owners.enter_context(stored.followed())
        asyncio.get_running_loop().call_later(0.3, add, stored.path / "events.ndjson", opened() + result("succeeded"))
        raise HostUnreachable("h1", "h1: no answer within 10 s")
        yield

    with owners:
        other = Beside(cluster.plan(), own, reader=StoredReader(stored))
        async with asyncio.timeout(60):
            events = [event async for batch in other.batches() for event in batch]
    assert [(event.outcome, event.exit) for event in events if isinstance(event, RunEnded)] == [("succeeded", 0)]


def test_a_stop_that_is_asked_for_while_another_is_read_is_the_next_one(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill` a moment after `stop`: it was removed unread."""
    stored.ask_stop(30.0)
    read, both = store.read_text, iter([lambda: stored.ask_stop(0.0)])

    def slowly(path: Path, **more: Any) -> str:
        text = read(path, **more)
        next(both, lambda: None)()
        return text

    monkeypatch.setattr(store, "read_text", slowly)
    asked = [stored.stop_asked() for _ in range(3)]
    assert [one and one.grace for one in asked] == [30.0, 0.0, None]
    assert not list(stored.path.glob("stop*"))


def test_who_is_behind_reads_each_attempt_where_it_is_kept(stored: StoredRun) -> None:
    """Whoever takes lines slowly may read of an attempt when two more have begun, also where one said nothing."""
    (stored.path / "events.ndjson").write_text(opened())
    stored.rank_log(0).unlink()
    reader = StoredReader(stored)
    reader.before()
    for attempt in (1, 2):
        stored.set_aside(attempt)
        failed = stamped(type="attempt", attempt=attempt, attempts=3, pause_s=2.0, first_failure=None, log_dir="")
        add(stored.path / "events.ndjson", failed + opened(attempt + 1))
        stored.rank_log(0).write_text(f"said by {attempt + 1}\n")
    events = [event for _ in range(5) for event in reader.read(0.0)]
    assert said(events) == ["said by 2", "said by 3"]
    opens = [at for at, event in enumerate(events) if isinstance(event, RunOpened)]
    lines = [at for at, event in enumerate(events) if isinstance(event, LogLines)]
    assert opens[0] < lines[0] < opens[1] < lines[1]


def test_lines_come_once_also_when_the_log_was_removed_and_is_written_again(stored: StoredRun) -> None:
    """Its next owner reads it from its start, from its host, into another file."""
    log = TaskLog(stored, 0, [0])
    fed(log, "three")
    log.checkpoint({})
    reader = StoredReader(stored)
    reader.before()
    stored.rank_log(0).unlink()
    again = TaskLog(stored, 0, [0])
    assert again.restore(lambda value: value) is None
    fed(again, "one", "two")
    assert said(reader.read(0.0)) == []
    fed(again, "three", "four")
    add(stored.path / "events.ndjson", result("succeeded"))
    assert said(reader.read(0.0)) == ["four"]


@pytest.mark.parametrize("kept", [True, False])
async def test_who_is_behind_reads_a_run_whose_name_is_used_again_to_its_end(
    stored: StoredRun, cluster: Cluster, kept: bool
) -> None:
    """Its owner has left by then, and that of the new run holds the lock under that name: nothing more came."""
    run = Beside(cluster.plan(), nobody, reader=StoredReader(stored))
    (stored.path / "events.ndjson").write_text(opened())
    batches = run.batches()
    with stored.followed():
        await anext(batches)
    add(stored.rank_log(0), "three\n")
    ended = result("succeeded").replace('"log_dir": ""', f'"log_dir": "{stored.log_dir}"')
    add(stored.path / "events.ndjson", ended)
    if kept:
        stored.path.rename(stored.path.with_name("r1~1"))
    else:
        cluster.store.remove("r1")
    with cluster.store.create("r1").followed():
        async with asyncio.timeout(30):
            events = [event for batch in [batch async for batch in batches] for event in batch]
    assert isinstance(end := events[-1], RunEnded)
    if kept:
        assert (said(events), end.outcome) == (["three"], "succeeded")
        assert end.log_dir == f"{stored.path}~1/logs"
    else:
        assert (end.outcome, end.warnings) == ("unknown", ("r1 was removed here: another run has its name",))
