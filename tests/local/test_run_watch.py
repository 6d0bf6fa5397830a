"""What the followers of a run say, as knowledge and events: logs, checkpoints, clocks, figures, lost hosts."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostUnreachable
from distui.facts.host import HostFacts
from distui.plan.model import RunPlan
from distui.runs.follow.followed import Back, Drained, Exited, FollowEvent, Lost, Note, Records, Removed, Sampled
from distui.runs.follow.resume import ResumePoint
from distui.runs.hosts.stop_word import StopWord
from distui.runs.insight.seen.clocks import Reading
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import (
    Event,
    FailureFound,
    GpuReading,
    HostChanged,
    HostSampled,
    LogLines,
    Notice,
    Progressed,
    RankChanged,
)
from distui.runs.state.samples import Sample, Traffic
from distui.runs.store import growing
from distui.runs.store.masking import Mask
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.task.host_run import HostRun
from distui.runs.verdict import judge
from distui.runs.verdict.evidence import Stop, Verb
from distui.runs.watch import full_disk as room
from distui.runs.watch.watch import Watch
from distui.session import Completed
from fakehosts.hosts import FakeConnector, FakeHost
from fakehosts.runs import facts_of, plan_for, until, use_fake_follower


class Watched:
    """A watch over hosts in memory that is told what its followers would say."""

    def __init__(self, folder: Path, plan: RunPlan, facts: Mapping[str, HostFacts] | None = None, **more: Any) -> None:
        self.plan = plan
        self.now = 100.0
        self.events: list[Event] = []
        self.stored: StoredRun = RunStore(folder).adopt(plan.run_id)
        self.fakes = {name: FakeHost(name) for name in plan.hosts}
        self.connector = FakeConnector(*self.fakes.values())
        self.hosts = {name: HostRun(name, plan, self.connector) for name in plan.hosts}
        known = facts or {name: facts_of(name) for name in plan.hosts}
        self.watch = Watch(plan, emit=self._emit, stored=self.stored, facts=known, clock=lambda: self.now, **more)
        self.tracker = self.watch.tracker

    async def _emit(self, event: Event) -> None:
        self.events.append(event)

    async def tell(self, *news: tuple[str, FollowEvent], adopted: bool = False) -> None:
        """Follow, tell each (host, event), and stop following."""
        async with self.watch.following(self.hosts, adopted=adopted):
            for host, event in news:
                await self.watch.take(host, event)
        await asyncio.gather(*(h.link.close() for h in self.hosts.values()))

    def of(self, kind: type[Any]) -> list[Any]:
        """Events of one kind."""
        return [e for e in self.events if isinstance(e, kind)]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a Watched; followers say only what tests tell."""

    def build(plan: RunPlan, facts: Mapping[str, HostFacts] | None = None, **more: Any) -> Watched:
        made = Watched(tmp_path, plan, facts, **more)
        for fake, task in zip(made.fakes.values(), plan.tasks, strict=False):
            fake.files[task.env_file] = b""
            assert fake.engine.run(task.start).ok
        use_fake_follower(monkeypatch, made.connector)
        return made

    return build


def records(task: int, text: bytes, at: int = 0) -> Records:
    """Lines of one task, all on stdout."""
    pieces = tuple(text.splitlines(keepends=True))
    return Records(task, Batch((1,) * len(pieces), (b"",) * len(pieces), pieces), ResumePoint(written=at or len(text)))


async def test_lines_reach_file_and_event_once(make: Any) -> None:
    """A line that comes in pieces is one line; the last one needs no newline."""
    watched = make(plan_for("h1"))
    await watched.tell(
        ("h1", records(0, b"one\ntw")),
        ("h1", records(0, b"o\nthree")),
        ("h1", Exited(0, 0, "exited")),
        ("h1", Drained(0, ResumePoint())),
    )
    assert [line.text for e in watched.of(LogLines) for line in e.lines] == ["one", "two", "three"]
    assert watched.stored.rank_log(0).read_bytes() == b"one\ntwo\nthree"
    assert watched.tracker.settled
    assert watched.tracker.verdict().outcome == "succeeded"


async def test_how_far_logs_were_read_is_noted_though_the_clock_was_set_back(make: Any) -> None:
    """By an hour: a distui that is killed in it would read all of that hour again."""
    watched = make(plan_for("h1"))
    async with watched.watch.following(watched.hosts, adopted=False):
        for watched.now, text in ((3700.0, b"one\n"), (100.0, b"two\n"), (102.0, b"three\n")):
            await watched.watch.take("h1", records(0, text))
            point = json.loads(watched.stored.follow_file(0).read_bytes())
            assert point["resume"]["written"] == len(text)


async def test_of_many_tasks_it_is_noted_less_often(make: Any) -> None:
    """Each note is a new file: of 32 tasks every two seconds."""
    watched = make(plan_for(*(f"h{n}" for n in range(32))))
    noted = []
    async with watched.watch.following(watched.hosts, adopted=False):
        for watched.now, text in ((100.0, b"one\n"), (101.9, b"second\n"), (102.0, b"third\n")):
            await watched.watch.take("h3", records(3, text))
            noted.append(json.loads(watched.stored.follow_file(3).read_bytes())["resume"]["written"])
    assert noted == [4, 4, 6]


async def test_what_was_said_before_it_was_followed_is_progress_of_then(make: Any) -> None:
    """A run that is taken up in the morning: its loss over the night, not only the last one."""
    plan = dataclasses.replace(plan_for("h1"), progress=r"step (?P<step>\d+)")
    watched = make(plan)
    night = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
    watched.now = night + 30_000
    pieces = tuple(b"step %d\n" % i for i in range(600))
    stamps = tuple(b"2026-11-21T00:%02d:%02d.000000000Z" % divmod(i, 60) for i in range(600))
    await watched.tell(("h1", Records(0, Batch((1,) * 600, stamps, pieces), ResumePoint(written=9000))))
    reported = watched.of(Progressed)
    assert len(reported) > 10 and [round(one.at - night) for one in reported] == [
        one.values["step"] for one in reported
    ]
    assert reported[-1].values["step"] == 599


async def test_progress_is_of_now_though_a_clock_was_set(make: Any) -> None:
    """The host's by an hour back, or ours forward: what it says then is corrected by what a ping has told of it."""
    watched = make(dataclasses.replace(plan_for("h1"), progress=r"step (?P<step>\d+)"))
    begin = watched.now = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
    async with watched.watch.following(watched.hosts, adopted=False):
        for step, hour in enumerate((b"2026-11-21T00", b"2026-11-20T23")):
            watched.now = begin + 10 * step
            watched.tracker.clock_read("h1", Reading(watched.now, watched.now - 3600 * step, watched.now))
            stamp, piece = hour + b":00:%02d.000000000Z" % (10 * step), b"step %d\n" % step
            await watched.watch.take("h1", Records(0, Batch((1,), (stamp,), (piece,)), ResumePoint()))
    assert [reported.at - begin for reported in watched.of(Progressed)] == pytest.approx([0, 10])


async def test_progress_is_reported_though_nobody_says_another_line(make: Any) -> None:
    """A step that waited for its second, and one of a rank of which nobody knew yet that it leads; once a second."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=r"step (?P<step>\d+)"))
    began = watched.now
    async with watched.watch.following(watched.hosts, adopted=False):
        for at, rank, line in (
            (0.0, 0, "hi"),
            (0.1, 1, "hi"),
            (0.2, 1, "step 1"),
            (1.5, 1, "step 2"),
            (1.8, 1, "step 3"),
        ):
            while watched.now < began + at:
                watched.now += 0.1
                await watched.watch.time_passed()
            await watched.watch.take(f"h{rank + 1}", records(rank, f"{line}\n".encode()))
        for _ in range(100):
            watched.now += 0.1
            await watched.watch.time_passed()
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    assert [(one.rank, one.values["step"]) for one in watched.of(Progressed)] == [(1, 1), (1, 3)]


MEGATRON = r"iteration (?P<step>\d+)/\s*(?P<total>\d+) .*lm loss: (?P<loss>\S+)|saved checkpoint at (?P<checkpoint>\d+)"


def iteration(step: int) -> bytes:
    """What Megatron-LM says on the last rank, with a timer behind it."""
    return b" iteration %d/ 500 | lm loss: 2.%d | lr: 1E-4\n    forward: (1.0, 2.0)\n" % (step, step)


async def test_progress_that_only_the_last_rank_says(make: Any) -> None:
    """As Megatron-LM and NeMo print it: step, loss, time of a step, and the checkpoint that rank 0 tells of."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=MEGATRON))
    news = [("h1", records(0, b"setting up\n")), ("h2", records(1, b"loaded\n"))]
    for step in (1, 2, 3):
        news += [("h2", records(1, iteration(step))), ("h1", records(0, b"saved checkpoint at %d\n" % step))]
    async with watched.watch.following(watched.hosts, adopted=False):
        for host, event in news:
            await watched.watch.take(host, event)
            watched.now += 1.0
        for host, event in (("h1", Drained(0, ResumePoint())), ("h2", Drained(1, ResumePoint()))):
            await watched.watch.take(host, event)
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    reported = watched.of(Progressed)
    assert {(one.rank, one.host) for one in reported} == {(1, "h2")}
    assert (reported[0].values["step"], reported[0].values["total"], reported[0].values["loss"]) == (1.0, 500.0, 2.1)
    assert (reported[-1].values["step"], reported[-1].values["checkpoint"], reported[-1].seconds_per_step) == (
        3.0,
        3.0,
        2.0,
    )


async def test_progress_is_that_of_the_lowest_rank_that_says_some(make: Any) -> None:
    """Where rank 0 says its first step late it leads from then on, and nobody takes that from it again."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=r"step (?P<step>\d+)"))
    said = [
        (1, b"step 1"),
        (0, b"hello"),
        (1, b"step 2"),
        (0, b"step 2"),
        (1, b"step 3"),
        (1, b"step 4"),
        (0, b"step 3"),
    ]
    async with watched.watch.following(watched.hosts, adopted=False):
        for rank, line in said:
            await watched.watch.take(f"h{rank + 1}", records(rank, line + b"\n"))
            watched.now += 2.0
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    assert [(one.rank, one.values["step"]) for one in watched.of(Progressed)] == [(1, 1), (1, 2), (0, 2), (0, 3)]


async def test_progress_of_a_run_that_is_over_at_once(make: Any) -> None:
    """All in one second: what the end of a task's log says is not missed, whichever rank says it."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=r"step (?P<step>\d+)"))
    await watched.tell(
        ("h1", records(0, b"hello\n")),
        ("h2", records(1, b"hello\n")),
        ("h2", records(1, b"step 7\n")),
        ("h1", Drained(0, ResumePoint())),
        ("h2", Drained(1, ResumePoint())),
    )
    assert [(one.rank, one.values["step"]) for one in watched.of(Progressed)] == [(1, 7)]


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        ([(0.0, b"hello\n"), (0.5, b"step 7\n"), (2.0, b"bye\n")], [7]),
        ([(2.0 * i, b"step %d\n" % i + b"a layer\n" * 80) for i in range(3)], [0, 1, 2]),
    ],
)
async def test_no_step_of_rank_0_is_missed(make: Any, said: list[tuple[float, bytes]], steps: list[int]) -> None:
    """One that comes within a second of another line, and one with many lines behind it."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=r"step (?P<step>\d+)"))
    began = watched.now
    async with watched.watch.following(watched.hosts, adopted=False):
        for at, text in said:
            watched.now = began + at
            await watched.watch.take("h1", records(0, text))
        await watched.watch.take("h1", Drained(0, ResumePoint()))
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    assert [(one.rank, one.values["step"]) for one in watched.of(Progressed)] == [(0, step) for step in steps]


async def test_a_pattern_that_is_too_slow_on_any_rank_is_given_up_once(make: Any) -> None:
    """With one warning; the lines are there all the same."""
    watched = make(dataclasses.replace(plan_for("h1", "h2"), progress=r"(?P<step>(a+)+)$"))
    await watched.tell(*[("h2", records(1, b"a" * 40 + b"b\n"))] * 2)
    assert len([n for n in watched.of(Notice) if n.text.startswith("progress is not read any more: its regex")]) == 1
    assert watched.stored.rank_log(1).read_bytes().count(b"\n") == 2


async def test_a_secret_that_a_rank_prints_is_hidden_and_reported_once(make: Any) -> None:
    """Whoever reads `***` in a log can know that it was not the program's."""
    watched = make(plan_for("h1"), mask=Mask({"HF_TOKEN": "hunter2-hunter2"}))
    await watched.tell(("h1", records(0, b"a hunter2-hunter2\nb\n")), ("h1", records(0, b"c hunter2-hunter2\n")))

    assert watched.stored.rank_log(0).read_bytes() == b"a ***\nb\nc ***\n"
    assert [line.text for e in watched.of(LogLines) for line in e.lines] == ["a ***", "b", "c ***"]
    assert [e.text for e in watched.of(Notice)] == [
        "rank 0 printed the value of secret HF_TOKEN: its log has *** there"
    ]


async def test_all_ranks_that_print_a_secret_are_reported_together(make: Any) -> None:
    """The first at once, the others in one warning: a program prints its settings in each of its 64 ranks."""
    watched = make(plan_for("h1", "h2", "h3", "h4"), mask=Mask({"HF_TOKEN": "hunter2-hunter2"}))
    said = [(f"h{rank + 1}", records(rank, b"a hunter2-hunter2\n")) for rank in range(4)]
    await watched.tell(*said, *said)
    await watched.watch.time_passed()
    assert len(watched.of(Notice)) == 1
    watched.now += 5
    await watched.watch.time_passed()

    assert [(e.host, e.text) for e in watched.of(Notice)] == [
        ("h1", "rank 0 printed the value of secret HF_TOKEN: its log has *** there"),
        (None, "ranks 1-3 printed the value of secret HF_TOKEN: their logs have *** there"),
    ]


async def test_another_controller_goes_on_where_this_one_stopped(make: Any) -> None:
    """The checkpoint pairs the file's length with the follower's point; what came after it is cut and read again."""
    plan = plan_for("h1")
    watched = make(plan)
    await watched.tell(("h1", records(0, b"one\n", 4)))
    with watched.stored.rank_log(0).open("ab") as file:
        file.write(b"tw")
    again = make(plan)
    await again.tell(("h1", records(0, b"two\n", 8)), adopted=True)
    assert again.stored.rank_log(0).read_bytes() == b"one\ntwo\n"


def full(*_: object, **__: object) -> None:
    """A disk without room."""
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_what_a_removed_task_said_is_written_at_the_last(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for room here is nowhere else: it is tried once more before it is let go of."""
    watched = make(plan_for("h1"))

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(room.DiskFullRetry, "run", never)
    async with watched.watch.following(watched.hosts, adopted=False):
        with monkeypatch.context() as patched:
            patched.setattr(growing, "open_private", full)
            await watched.watch.take("h1", records(0, b"one\ntw"))
            await watched.watch.take("h1", Removed(0))
        assert watched.tracker.unread_tasks() == {0}
    assert watched.stored.rank_log(0).read_bytes() == b"one\ntw"
    assert watched.tracker.unread_tasks() == frozenset()


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("seen", [(Exited(0, 137, "exited"),), ()])
async def test_what_was_not_read_of_a_task_that_was_removed_is_said(make: Any, seen: Any, read: bool) -> None:
    """Whether its end was seen, as where the disk here was full until then, or not, as by one that slept."""
    watched = make(plan_for("h1"))
    ends = [("h1", event) for event in (*seen, Removed(0, read=read))]
    await watched.tell(("h1", records(0, b"one\n")), *ends)
    words = "its container was removed before its log was read here: what it said after line 1 is missing"
    missing = [notice.text for notice in watched.of(Notice) if "missing" in notice.text]
    assert missing == ([] if read else [f"rank 0 on h1: {words}"])


async def test_an_open_line_that_does_not_fit_is_reported(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line may be the first that there is no room for."""
    watched = make(plan_for("h1"))

    monkeypatch.setattr(growing, "open_private", full)
    await watched.tell(("h1", records(0, b"half")), ("h1", Removed(0)))
    assert "can't write the log of" in watched.of(Notice)[0].text


async def test_torchrun_s_lines_go_to_their_ranks(make: Any) -> None:
    """One container, two ranks: each has its own log; the launcher's words have theirs."""
    from distui.spec.job.job import RankLayout

    plan = plan_for("h1", launcher="torchrun", ranks=RankLayout(per_host=2), command=("t.py",))
    watched = make(plan)
    await watched.tell(("h1", records(0, b"[default0]:hello\n[default1]:world\nW torch warns\n")))
    assert watched.stored.rank_log(0).read_bytes() == b"hello\n"
    assert watched.stored.rank_log(1).read_bytes() == b"world\n"
    assert watched.stored.node_log(0).read_bytes() == b"W torch warns\n"
    assert [(e.rank, e.host) for e in watched.of(LogLines)] == [(0, "h1"), (1, "h1"), (None, "h1")]


async def test_the_first_failure_is_by_our_clock(make: Any) -> None:
    """h2's clock is 20 s ahead: its rank failed before h1's though its stamp is later and its news came last."""
    facts = {"h1": facts_of("h1"), "h2": facts_of("h2", 12, clock_offset_ms=20_000.0, rtt_ms=4.0)}
    watched = make(plan_for("h1", "h2", facts=facts), facts)
    await watched.tell(
        ("h1", Exited(0, 1, "exited", finished_at=90.0)),
        ("h1", Drained(0, ResumePoint())),
        ("h2", Exited(1, 3, "exited", finished_at=105.0)),
        ("h2", Drained(1, ResumePoint())),
    )
    named = [(e.failure.rank, e.failure.at) for e in watched.of(FailureFound)]
    assert named == [(0, 90.0), (1, 85.0)]
    failure = watched.tracker.verdict().failure
    assert failure is not None
    assert (failure.rank, failure.exit) == (1, 3)


async def test_when_a_host_was_away_is_known_afterwards(make: Any) -> None:
    """What a process there said meanwhile arrives once it is back."""
    watched = make(plan_for("h1", "h2"))
    await watched.watch.take("h2", Lost("host", "gone"))
    watched.now = 130.0
    await watched.watch.take("h2", Back("host"))
    hosts = watched.tracker.evidence().hosts
    assert hosts["h2"].away == ((100.0, 130.0),)
    assert hosts["h2"].lost_at is None and hosts["h1"].away == ()


async def test_no_run_ends_later_than_now(make: Any) -> None:
    """A host whose clock was set back says when its task ended by the one of before."""
    watched = make(plan_for("h1"))
    await watched.tell(
        ("h1", Exited(0, 0, "exited", finished_at=watched.now + 10_800)), ("h1", Drained(0, ResumePoint()))
    )
    watched.now += 1
    assert watched.tracker.ended_at == watched.now


async def test_times_follow_a_clock_that_is_set_while_the_run_is_followed(make: Any) -> None:
    """Lines and ends that come after a ping are corrected by what that told; nobody is sure of what was in between."""
    watched = make(plan_for("h1", "h2"))
    tracker = watched.tracker
    async with watched.watch.following(watched.hosts, adopted=False):
        tracker.clock_read("h2", Reading(110.0, 110.001, 110.002))
        tracker.clock_read("h2", Reading(125.0, 115.001, 125.002))
        one = Batch((1,), (b"2026-11-22T18:00:00.000000000Z",), (b"one\n",))
        await watched.watch.take("h2", Records(1, one, ResumePoint()))
        await watched.watch.take("h2", Exited(1, 3, "exited", finished_at=130.0))
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))

    known = tracker.evidence()
    said = known.tasks[1].lines[1][0].at
    assert said == pytest.approx(datetime(2026, 11, 22, 18, 0, 10, tzinfo=UTC).timestamp(), abs=0.01)
    assert known.tasks[1].end is not None and known.tasks[1].end.at == pytest.approx(140.0, abs=0.01)
    assert known.doubt("h2", 140.0) < 0.1 < 10 < known.doubt("h2", 120.0)
    assert known.doubt("h1", 120.0) < 0.1


async def test_an_end_is_timed_by_the_clock_as_it_is_read_for_it(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was set since the last ping: what it says then comes while the host is asked why the rank ended."""
    watched = make(plan_for("h1"))

    async def asked(*_: object) -> str:
        watched.tracker.clock_read("h1", Reading(125.0, 115.001, 125.002))
        return ""

    monkeypatch.setattr(watched.watch.hosts, "ask_memory_kill", asked)
    watched.tracker.clock_read("h1", Reading(110.0, 110.001, 110.002))
    await watched.tell(("h1", Exited(0, 3, "exited", started_at=90.0, finished_at=115.0)))
    (seen,) = watched.tracker.evidence().tasks
    assert seen.end is not None
    assert (seen.end.started_at, seen.end.at) == pytest.approx((100.0, 125.0), abs=0.01)


@pytest.mark.parametrize(("later", "uncertain"), [(0.08, True), (0.6, False)])
async def test_ends_that_clocks_cannot_tell_apart_are_marked(make: Any, later: float, uncertain: bool) -> None:
    """h2's clock is two hours behind, and known to 100 ms only: what lies nearer together has no sure order."""
    facts = {"h1": facts_of("h1"), "h2": facts_of("h2", 12, clock_offset_ms=-7_200_000.0, rtt_ms=200.0)}
    watched = make(plan_for("h1", "h2", facts=facts), facts)
    await watched.tell(
        ("h1", Exited(0, 1, "exited", finished_at=90.0)),
        ("h2", Exited(1, 3, "exited", finished_at=90.0 + later - 7200)),
    )
    assert watched.tracker.verdict().failure.rank == 0
    verdict = watched.tracker.verdict()
    assert ("rank 1 on h2 failed at the same time as far as can be known" in verdict.failure.unsure) == uncertain
    assert verdict.certainty == ("uncertain" if uncertain else "certain")


async def test_a_kill_known_before_our_stop_is_never_the_stop_s(make: Any) -> None:
    """A clock that is ahead puts the kill that made us stop after the stop: what was known first stays a failure."""
    watched = make(plan_for("h1", "h2"))
    async with watched.watch.following(watched.hosts, adopted=False):
        await watched.watch.take("h1", Exited(0, 137, "exited", finished_at=105.0))
        watched.now += 1.0
        watched.tracker.stopped(Stop(watched.now, "failure"))
        await watched.watch.take("h2", Exited(1, 137, "exited", finished_at=105.0))
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    assert [(e.rank, e.state) for e in watched.of(RankChanged)] == [(0, "killed"), (1, "stopped")]
    assert watched.tracker.verdict().failure.rank == 0


@pytest.mark.parametrize(("left_at", "messages"), [(100.0, []), (90.0, ["stopped by bob@laptop"])])
async def test_word_of_a_stop_is_reported_once_it_is_known_to_be_another_s(
    make: Any, left_at: float, messages: list[str]
) -> None:
    """A rank that ended just before our own stop is heard of after it: the word on its host may be the one we left."""
    watched = make(plan_for("h1", "h2"))
    path = "/home/u/.local/state/distui/hosts/h1/r1/stopped"
    watched.fakes["h1"].files[path] = StopWord("bob@laptop", "user", 143, 5.0).text().encode()
    watched.fakes["h1"].written[path] = left_at
    watched.tracker.stopped(Stop(100.0, "user"))
    watched.now = 101.0
    await watched.tell(
        ("h1", Exited(0, 137, "exited", finished_at=95.0)), ("h2", Exited(1, 143, "exited", finished_at=100.5))
    )
    assert [e.text for e in watched.of(Notice) if "stopped by" in e.text] == messages
    assert watched.tracker.stopped_by == ("bob@laptop" if messages else "")


@pytest.mark.parametrize(
    ("left_at", "code", "verb", "said"),
    [
        (99.0, 143, "stop", "stopped by bob@laptop with `distui stop --rank`"),
        (99.0, 3, "stop", "stopped by bob@laptop with `distui stop --rank`"),
        (99.0, 137, "kill", "stopped by bob@laptop with `distui kill --rank`"),
        (99.0, 0, "stop", ""),
        (10.0, 143, "stop", "by `docker stop` or `docker kill` there, not by distui"),
        (None, 143, "stop", "by `docker stop` or `docker kill` there, not by distui"),
    ],
)
async def test_a_rank_that_somebody_stopped_alone(
    make: Any, left_at: float | None, code: int, verb: Verb, said: str
) -> None:
    """It fails, and it is told who stopped it, where they left word; an old word, of a task before, tells nothing."""
    watched = make(plan_for("h1", "h2"))
    path = "/home/u/.local/state/distui/hosts/h2/r1/stopped-1"
    if left_at is not None:
        watched.fakes["h2"].files[path] = StopWord("bob@laptop", "user", 143, 5.0, verb=verb).text().encode()
        watched.fakes["h2"].written[path] = left_at
    await watched.tell(("h2", Exited(1, code, "exited", started_at=50.0, finished_at=100.0, signalled=True)))
    (end,) = [e for e in watched.of(RankChanged) if e.rank == 1 and e.state != "running"]
    assert (said in end.words, "stopped by" in end.words) == (True, "stopped by" in said), end.words
    assert watched.tracker.stopped_by == ""
    assert (watched.tracker.verdict().failure is None) == (code == 0)


@pytest.mark.parametrize("code", [3, 137])
async def test_ranks_that_another_s_stop_at_a_failure_ended_did_not_fail(make: Any, code: int) -> None:
    """Who follows elsewhere saw the failure first, and stopped the rest before we asked for it: clocks can't tell."""
    watched = make(plan_for("h1", "h2"))
    path = "/home/u/.local/state/distui/hosts/h1/r1/stopped"
    word = StopWord("bob@laptop", "failure", 1, 5.0, tasks=frozenset({0}))
    watched.fakes["h1"].files[path], watched.fakes["h1"].written[path] = word.text().encode(), 99.999
    watched.now = 100.1
    await watched.tell(
        ("h1", Exited(0, 143, "exited", finished_at=100.0, signalled=True)),
        ("h2", Exited(1, code, "exited", finished_at=100.001)),
    )
    watched.now = 100.2
    watched.tracker.stopped(Stop(watched.now, "failure"))
    found = watched.tracker.verdict()
    assert (found.outcome, found.first, found.ranks[0].relation) == ("failed", (1,), "stopped")
    assert [e.text for e in watched.of(Notice) if "stopped by" in e.text] == []


async def test_our_own_word_of_a_stop_is_nobody_s(make: Any) -> None:
    """A clock that is measured wrong dates the ends before our stop began: the word there is ours all the same."""
    watched = make(plan_for("h1"))
    path = "/home/u/.local/state/distui/hosts/h1/r1/stopped"
    watched.tracker.stopped(Stop(100.0, "user"))
    await watched.hosts["h1"].connect()
    await watched.hosts["h1"].notes.say_stopped(StopWord("bob@laptop", "user", 143, 5.0))
    watched.fakes["h1"].written[path] = 99.0
    await watched.tell(("h1", Exited(0, 137, "exited", finished_at=99.5)))
    assert [e.text for e in watched.of(Notice) if "stopped by" in e.text] == []
    assert watched.tracker.stopped_by == ""


async def test_word_of_a_stop_that_a_full_disk_did_not_take_is_left_by_the_next_one(make: Any) -> None:
    watched = make(plan_for("h1"))
    fake, word = watched.fakes["h1"], StopWord("bob@laptop", "user", 143, 5.0)
    await watched.hosts["h1"].connect()
    fake.fails["say"] = Completed((), 1, b"", b"sh: No space left on device")
    await watched.hosts["h1"].notes.say_stopped(word)
    del fake.fails["say"]
    await watched.hosts["h1"].notes.say_stopped(word)
    assert "/home/u/.local/state/distui/hosts/h1/r1/stopped" in fake.files


async def test_a_failure_is_announced_once(make: Any) -> None:
    """The same failure again is no news."""
    watched = make(plan_for("h1"))
    await watched.tell(
        ("h1", Exited(0, 3, "exited", finished_at=90.0)),
        ("h1", Exited(0, 3, "exited", finished_at=90.0)),
        ("h1", Drained(0, ResumePoint())),
        ("h1", Drained(0, ResumePoint())),
    )
    assert len(watched.of(FailureFound)) == 1
    assert [e.state for e in watched.of(RankChanged)] == ["exited"]


async def test_last_words_of_ranks_that_ended_well_are_read_at_the_last(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, when all is in: at a thousand ranks each look takes a second."""
    looked: list[int] = []
    monkeypatch.setattr(judge, "suspicions", lambda ends: looked.append(len(ends)) or ("odd",))
    watched = make(plan_for("h1", "h2"))
    await watched.tell(
        ("h1", Exited(0, 3, "exited", finished_at=90.0)),
        ("h2", Exited(1, 0, "exited", finished_at=90.0)),
        ("h1", Drained(0, ResumePoint())),
        ("h2", Drained(1, ResumePoint())),
    )
    assert (watched.tracker.verdict().odd, looked) == ((), [])
    watched.tracker.all_in = True
    watched.tracker.news()
    assert (watched.tracker.verdict().odd, looked) == (("odd",), [1])


async def test_a_host_is_back_when_all_of_it_is(make: Any) -> None:
    """Host and engine may both be lost; its ranks run again when both answer."""
    watched = make(plan_for("h1", "h2"))
    seconds = [500.0]
    watched.tracker.waited = lambda: seconds[0]
    await watched.tell(
        ("h2", Lost("engine", "no answer")),
        ("h2", Lost("host", "gone")),
        ("h2", Back("engine")),
    )
    assert [e.state for e in watched.of(RankChanged)] == ["lost"]
    watched.now -= 3600.0  # our clock is set back: it is waited for as long all the same
    seconds[0] += 60.0
    assert watched.tracker.lost_longer_than(60)
    assert not watched.tracker.lost_longer_than(61)
    await watched.tell(("h2", Back("host")))
    assert [e.state for e in watched.of(RankChanged)] == ["lost", "running"]
    assert not watched.tracker.lost_longer_than(0)


@pytest.mark.parametrize(
    ("rebooted", "exited", "words"),
    [
        (True, Exited(0, 255, "exited", finished_at=90.0), "exit 255: its host was restarted"),
        (True, Exited(0, 137, "exited", finished_at=90.0), "killed by SIGKILL, exit 137: its host was restarted"),
        (True, Exited(0, None, "lost"), "its host was restarted"),
        (True, Exited(0, 3, "exited", finished_at=90.0), "exit 3"),
        (False, Exited(0, 255, "exited", finished_at=90.0), "exit 255"),
    ],
)
async def test_a_boot_explains_the_ends_it_makes(make: Any, rebooted: bool, exited: Exited, words: str) -> None:
    """And no others: a program's own exit code stays its own."""
    watched = make(plan_for("h1"))
    lost = (("h1", Lost("engine", "no answer")), ("h1", Lost("host", "gone")))
    await watched.tell(*lost, ("h1", Back("host", rebooted)), ("h1", Back("engine")), ("h1", exited))
    assert watched.of(RankChanged)[-1].words == words
    assert watched.of(HostChanged)[-1].reason == ("it was restarted" if rebooted else "")


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (100.0, "by `docker stop`, `docker kill` or a restart of the engine there, not by distui"),
        (20.0, "by `docker stop` or `docker kill` there, not by distui"),
    ],
)
async def test_who_signalled_a_rank_of_a_host_out_of_reach_is_open(make: Any, at: float, words: str) -> None:
    """An engine that is started again signals its containers: nobody saw whether it was, as that host was away."""
    watched = make(plan_for("h1"))
    watched.now = 41.0
    await watched.tell(("h1", Lost("host", "gone")))
    watched.now = 160.0
    ended = Exited(0, 143, "exited", finished_at=at, signalled=True)
    await watched.tell(("h1", Back("host")), ("h1", ended), ("h1", Drained(0, ResumePoint())))
    assert watched.of(RankChanged)[-1].words == f"killed by SIGTERM (terminated), exit 143: {words}"


async def test_an_engine_that_came_back_as_somebody_attached_may_have_signalled_a_rank(make: Any) -> None:
    """It was down when the hosts were asked, which nobody here saw begin."""
    watched = make(plan_for("h1"))
    watched.tracker.unmet.add("h1")
    ended = Exited(0, 143, "exited", finished_at=30.0, signalled=True)
    await watched.tell(
        ("h1", Lost("engine", "down")), ("h1", Back("engine")), ("h1", ended), ("h1", Drained(0, ResumePoint()))
    )
    assert "or a restart of the engine there" in watched.of(RankChanged)[-1].words


async def test_when_a_host_went_away_before_its_boot_is_kept(make: Any) -> None:
    """It answers again when the end of its ranks is learned, which then has the time of the boot."""
    watched = make(plan_for("h1"))
    watched.now = 41.0
    await watched.tell(("h1", Lost("host", "gone")))
    watched.now = 160.0
    await watched.tell(("h1", Back("host", rebooted=True)), ("h1", Exited(0, 255, "exited", finished_at=150.0)))
    assert (watched.tracker.evidence().hosts["h1"].lost_at, watched.tracker.verdict().failure.at) == (None, 41.0)


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (Back("host", rebooted=True), "its host was restarted"),
        (Lost("engine", "no answer"), "its container engine was stopped or restarted"),
        (Back("host"), "by `docker stop` or `docker kill` there, not by distui"),
    ],
)
async def test_what_is_known_only_after_an_end_explains_it_too(make: Any, later: FollowEvent, words: str) -> None:
    """A host that shuts down stops its containers before it is gone, and so does an engine."""
    watched = make(plan_for("h1"))
    ended = Exited(0, 143, "exited", finished_at=99.0, signalled=True)
    await watched.tell(("h1", ended), ("h1", Drained(0, ResumePoint())), ("h1", Lost("host", "gone")), ("h1", later))
    last = watched.of(RankChanged)[-1]
    assert (last.state, last.words) == ("killed", f"killed by SIGTERM (terminated), exit 143: {words}")
    assert watched.tracker.verdict().failure.words == last.words


async def test_a_task_that_is_gone_after_a_boot_went_with_it(make: Any) -> None:
    """Folders of processes may be on a disk that is empty after a boot: nobody removed them."""
    watched = make(plan_for("h1"))
    await watched.tell(("h1", Back("host", rebooted=True)), ("h1", Removed(0)))
    last = watched.of(RankChanged)[-1]
    assert (last.state, last.words) == ("removed", "its host was restarted")
    assert [(e.state, e.reason) for e in watched.of(HostChanged)] == [("back", "it was restarted")]


async def test_a_lost_host_whose_tasks_are_over_is_not_waited_for(make: Any) -> None:
    """Nothing more is expected of it."""
    watched = make(plan_for("h1"))
    await watched.tell(
        ("h1", Exited(0, 0, "exited")),
        ("h1", Drained(0, ResumePoint())),
        ("h1", Lost("host", "gone")),
    )
    watched.tracker.waited = lambda: 1e12
    assert not watched.tracker.lost_longer_than(1)
    assert [e.state for e in watched.of(RankChanged)] == ["exited"]


async def test_what_is_known_of_tasks(make: Any) -> None:
    """Live, unknown and removed ones are told apart."""
    watched = make(plan_for("h1", "h2", "h3"))
    assert watched.tracker.live_tasks() == {0, 1, 2}
    await watched.tell(("h1", Exited(0, 0, "exited")), ("h2", Removed(1)))
    assert watched.tracker.live_tasks() == {2}
    assert watched.tracker.verdict().outcome == "unknown"
    assert watched.tracker.verdict().ranks[2].relation == "unknown"
    assert not watched.tracker.settled
    assert watched.tracker.failed


async def test_notes_and_words_of_the_host(make: Any) -> None:
    """A note is a warning with its host, and with the ranks that it is about: a host has several as a rule."""
    watched = make(plan_for("h1"))
    await watched.tell(("h1", Note("followed without python3")), ("h1", Note("its log was cut", 0)))
    notices = [(notice.level, notice.host, notice.text) for notice in watched.of(Notice)]
    assert notices == [("warning", "h1", "followed without python3"), ("warning", "h1", "rank 0: its log was cut")]


async def test_a_link_that_is_given_up_is_raised_where_following_ends(make: Any) -> None:
    """And `broken` wakes whoever waits."""
    watched = make(plan_for("h1"))
    watched.fakes["h1"].news.put_nowait(HostUnreachable("h1", "h1 is gone"))
    with pytest.raises(HostUnreachable):
        async with watched.watch.following(watched.hosts, adopted=False):
            await watched.tracker.changed.wait()
            assert watched.watch.broken
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))


async def test_an_error_while_one_host_is_followed_is_that_host_lost(make: Any) -> None:
    """In words without what steers a terminal; the others go on, and whoever keeps crash files is told."""
    watched, kept = make(plan_for("h1", "h2")), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, reported: kept.append(reported))
    bug = ZeroDivisionError("oops \x1b]52;c;x\x07 " + 900 * "x")
    watched.fakes["h1"].news.put_nowait(bug)
    async with watched.watch.following(watched.hosts, adopted=False):
        await until(lambda: watched.tracker.lost_hosts)
        watched.fakes["h2"].news.put_nowait(Note("h2 is heard"))
        await until(lambda: watched.of(Notice))
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))
    (changed,) = watched.of(HostChanged)
    assert (changed.host, changed.state) == ("h1", "lost")
    assert "ZeroDivisionError: oops" in changed.reason and "\x1b" not in changed.reason and len(changed.reason) < 400
    assert [e.text for e in watched.of(Notice)] == ["h2 is heard"]
    assert not watched.watch.broken
    assert [reported["exception"] for reported in kept] == [bug]
    assert watched.tracker.unread_tasks() == {0, 1}, "what h1 prints stays there: it could be removed"


async def test_an_error_that_cannot_even_be_reported_is_raised(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written of the run any more: that is no host's doing."""
    watched = make(plan_for("h1"))

    async def fail(event: Event) -> None:
        raise ZeroDivisionError("no event can be told")

    monkeypatch.setattr(watched.watch.hosts, "_emit", fail)
    watched.fakes["h1"].news.put_nowait(Lost("host", "gone"))
    with pytest.raises(ZeroDivisionError):
        async with watched.watch.following(watched.hosts, adopted=False):
            await until(lambda: watched.watch.broken)
    await asyncio.gather(*(h.link.close() for h in watched.hosts.values()))


async def test_figures(make: Any) -> None:
    """GPUs, rates and free disk of a sample become one event; loopback and unknown rates are left out."""
    sample = Sample(
        at=1.0,
        gpus=(GpuReading(1, 95.0, 10, 80, 60.0, 300.0),),
        net={"eth0": Traffic(5, 5, 10.0, 20.0), "lo": Traffic(5, 5, 1.0, 1.0), "eth1": Traffic(5, 5)},
        ib={"mlx5_0:1": Traffic(5, 5, 30.0, 40.0)},
        disks={"/": (100, 200), "/data": (50, 200)},
    )
    watched = make(plan_for("h1"))
    await watched.tell(("h1", Sampled(sample)), ("h1", Sampled(Sample(2.0))))
    first, last = watched.of(HostSampled)
    assert first.gpus == (GpuReading(1, 95.0, 10, 80, 60.0, 300.0),)
    assert dict(first.net) == {"eth0": (10.0, 20.0), "mlx5_0:1": (30.0, 40.0)}
    assert first.disk_free == 50
    assert (last.gpus, dict(last.net), last.disk_free) == ((), {}, None)
