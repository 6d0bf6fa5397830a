"""`on_hang` of a job: what is written, planned and said of it, and how a run ends whose ranks stood still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from distui.errors import SpecError
from distui.plan.labels import task_from_labels
from distui.plan.text.render import render_text
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.replan import NextAttempt
from distui.runs.ending import ask_before_stop, ask_ranks, next_attempt
from distui.runs.insight.asking.look import Look
from distui.runs.insight.seen.answers import Frame, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.events import AttemptEnded, RanksAsked, RunStalled, StopAsked
from distui.runs.lines.explanation import Explanation, Kind, RankPlace
from distui.runs.state.reducer import RankState
from distui.runs.verdict.evidence import End, Evidence, Line, Stop, TaskSeen
from distui.runs.verdict.judge import judge
from distui.runs.verdict.lines.causes import may_be_network
from distui.spec.job.read_job import read_job
from fakehosts.runs import Cluster, facts_of, plan_for, until, use_fake_follower

HANG = Explanation(
    "hang",
    "rank 1 has not entered all_reduce #31, for which rank 0 waits: it sleeps at /w/train.py:9 in load",
    "certain",
    (RankPlace(1, "h2", "sleeps at /w/train.py:9 in load", "all_reduce #30", 1, True), RankPlace(0, "h1", "waits")),
    advice="look at /w/train.py:9",
    since=40.0,
    collective="all_reduce #31",
)
ECHO = "RuntimeError: Connection closed by peer [10.0.0.11]:4711"


# what is written and planned


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("on_hang: kill", "on_hang: expected tell, stop or restart"),
        ("on_hang: restart", "on_hang: restart needs attempts: set retries, or on_hang: stop"),
        ("on_hang: stop\ninsight: off", "on_hang: stop needs ranks that can be asked where they are"),
        ("on_hang: stop\nlauncher: tf", "on_hang: stop needs ranks that can be asked where they are"),
        ("on_hang: stop\nstall_after: 0s", "on_hang: stop needs the time after which ranks hang"),
    ],
)
def test_what_can_t_work_is_refused(body: str, words: str) -> None:
    """With what to write instead."""
    with pytest.raises(SpecError) as error:
        read_job(f"version: 1\nname: x\ncommand: [a]\nimage: i\n{body}\n", "j", environ={})
    assert words in str(error.value)


def test_it_is_in_plan_and_labels() -> None:
    """So that whoever follows the run from another machine does the same."""
    for asked, words in (("stop", "stop the run"), ("restart", "restart the run")):
        made = plan_for("h1", on_hang=asked, retries=1)
        labels = task_from_labels(made.tasks[0].labels)
        assert labels is not None and (made.on_hang, labels.on_hang) == (asked, asked)
        assert f"When ranks stand still for 2m: {words}." in " ".join(render_text(made).split())
    reported = plan_for("h1")
    assert reported.on_hang == "tell" and "distui.on_hang" not in reported.tasks[0].labels
    assert "stand still" not in render_text(reported)


# the verdict


def task(index: int, end: End, *lines: Line) -> TaskSeen:
    """A rank of its own on a host of its own."""
    return TaskSeen(index, f"h{index + 1}", (index,), end=end, lines={index: lines})


def stopped(at: float, code: int = 143) -> End:
    """An end that the stop at 200 brought about."""
    return End(code, at, seen_at=at + 0.1, signalled=True)


STOPPED = Evidence(
    (task(0, stopped(200.3)), task(1, stopped(200.4), Line(39.0, "step 30"))), stops=(Stop(200.0, "hang"),)
)


def test_the_rank_that_held_the_others_up_is_the_failure() -> None:
    """Its place is the cause, its last lines are the evidence, and the others were only stopped."""
    found = judge(replace(STOPPED, explanation=HANG))

    assert (found.outcome, found.exit, found.first, found.certainty) == ("failed", 1, (1,), "certain")
    failure = found.failure
    assert failure is not None
    assert (failure.rank, failure.host, failure.exit, failure.at) == (1, "h2", None, 40.0)
    assert (failure.cause, failure.hint, failure.excerpt) == (HANG.headline, HANG.advice, ("step 30",))
    assert [(end.relation, end.state) for end in found.ranks.values()] == [("stopped", "stopped"), ("first", "stopped")]
    assert found.ranks[1].words == "stopped by distui (exit 143)"


def test_what_is_said_in_the_stop_is_no_evidence() -> None:
    """What a program, or torchrun, says because it was stopped tells nothing of why it stood still."""
    said = Line(39.0, "step 30"), Line(200.2, "KeyboardInterrupt")
    found = judge(replace(STOPPED, tasks=(STOPPED.tasks[0], task(1, stopped(200.4), *said)), explanation=HANG))
    assert found.failure is not None and found.failure.excerpt == ("step 30",)
    agent = Line(200.2, "torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15")
    mute = TaskSeen(1, "h2", (1,), end=stopped(200.4), lines={None: (agent,)})
    found = judge(replace(STOPPED, tasks=(STOPPED.tasks[0], mute), explanation=HANG))
    assert found.failure is not None and (found.failure.rank, found.failure.excerpt) == (1, ())


def test_whoever_ended_well_before_its_peers_lost_it_is_to_be_looked_at() -> None:
    """A rank that only tells that another had gone is the first known failure, and no place to look at."""
    lost = tuple(Line(30.0, text) for text in ("Traceback (most recent call last):", ECHO))
    tasks = task(0, End(1, 30.5, seen_at=30.6), *lost), task(1, End(0, 29.0, seen_at=29.1))
    found = judge(Evidence(tasks)).failure
    assert found is not None and (found.rank, found.cause) == (0, "a peer went away")
    assert found.hint == "find out why rank 1 on h2 ended before the others"
    stop = Stop(31.0, "failure")
    alone = judge(Evidence((tasks[0], task(1, stopped(31.3))), stops=(stop,))).failure
    assert alone is not None and alone.hint == "look at what the other ranks said last"


def test_several_that_held_the_others_up() -> None:
    """The first of them is named, the others beside it; what is not certain is said."""
    places = tuple(replace(place, culprit=True) for place in HANG.ranks)
    found = judge(replace(STOPPED, explanation=replace(HANG, ranks=places, certainty="likely")))
    assert found.failure is not None and (found.failure.rank, found.failure.alike) == (0, (1,))
    assert (found.first, found.certainty, found.failure.unsure) == (
        (0, 1),
        "uncertain",
        "what its ranks tell leaves other causes possible",
    )


@pytest.mark.parametrize("found", [None, replace(HANG, ranks=())], ids=["nobody knows", "nobody is to blame"])
def test_a_hang_without_a_culprit(found: Explanation | None) -> None:
    """The run as a whole failed: every rank is in the collective, or who knew has left."""
    verdict = judge(replace(STOPPED, explanation=found))
    assert verdict.outcome == "failed" and verdict.failure is not None
    assert (verdict.failure.rank, verdict.failure.who) == (None, "the run")
    assert verdict.failure.cause == (found.headline if found else "")


def test_a_rank_that_failed_before_is_the_failure() -> None:
    """With `on_fail: wait` the others stood still because of it; one that only lost a peer as it was stopped is not."""
    said = tuple(Line(30.0, text) for text in ("Traceback (most recent call last):", "ValueError: bad"))
    own = task(0, End(1, 30.5, seen_at=30.6), *said)
    found = judge(replace(STOPPED, tasks=(own, STOPPED.tasks[1]), explanation=HANG))
    assert found.failure is not None and (found.failure.rank, found.failure.words) == (0, "exit 1")

    lost = task(0, End(1, 200.0, seen_at=200.6), Line(199.9, "Traceback (most recent call last):"), Line(199.9, ECHO))
    found = judge(replace(STOPPED, tasks=(lost, STOPPED.tasks[1]), explanation=HANG))
    assert found.failure is not None and (found.failure.rank, found.failure.cause) == (1, HANG.headline)


def test_whoever_stopped_the_run_first_is_why_it_ended() -> None:
    """Ctrl-C while it is asked for."""
    found = judge(replace(STOPPED, stops=(Stop(199.0, "user", exit=130), Stop(200.0, "hang")), explanation=HANG))
    assert (found.outcome, found.exit, found.failure) == ("stopped", 130, None)


# the run


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts whose ranks answer what `answers` says when they are asked."""
    made = Cluster(tmp_path)
    use_fake_follower(monkeypatch, made.connector)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    return made


def answering(monkeypatch: pytest.MonkeyPatch, found: Callable[[], Explanation], *ranks: RankSeen) -> list[Explanation]:
    """What ranks tell from now on; all that they were asked."""
    asked: list[Explanation] = []

    async def look(*_: Any, **__: Any) -> Look:
        asked.append(found())
        return Look(ranks, asked[-1])

    monkeypatch.setattr(ask_ranks, "look", look)
    return asked


def hanging(**changes: Any) -> Explanation:
    """A hang that has lasted for a minute."""
    return replace(HANG, **{"since": time.time() - 60.0} | changes)


async def test_a_run_that_hangs_is_stopped(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any failure ends one, but without another attempt, which is said; nothing is left."""
    answering(monkeypatch, hanging)
    ended = await cluster.run(cluster.plan(on_hang="stop", stall_after=0.05, retries=2))

    assert (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 1)
    assert ended.failure is not None and (ended.failure.rank, ended.failure.cause) == (1, HANG.headline)
    assert [stop.reason for stop in cluster.of(StopAsked)] == ["hang"]
    assert len(cluster.of(RanksAsked)) == 1
    assert "`on_hang: stop` makes no further attempt" in cluster.said()
    assert cluster.left() == []


ASKED = Process(7, 1, "python", "S", 0.0, rank=1, torch="2.13.0")


@pytest.mark.parametrize(
    ("process", "late", "comes"),
    [(ASKED, True, True), (ASKED, True, False), (None, True, False), (ASKED, False, False), (None, False, False)],
    ids=["it comes", "it never comes", "no answer in time", "its program can't tell it", "its host can't"],
)
async def test_a_stop_waits_for_where_the_rank_is(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, process: Process | None, late: bool, comes: bool
) -> None:
    """On a busy host its stack may come too late: the failure has its line all the same. No other reason passes."""
    none = replace(HANG, headline="rank 1 has not entered all_reduce #31: it sleeps", advice="")
    stacks = (Stack("0x1", True, (Frame("/w/train.py", 9, "load"),)),)
    looks: list[int] = []

    async def look(*_: Any, **__: Any) -> Look:
        looks.append(1)
        placed = comes and len(looks) > 1
        found = replace(HANG if placed else none, since=time.time() - 60.0)
        reported = replace(ASKED, stacks=stacks) if placed else process
        return Look((RankSeen(1, "h2", reported, late=late and not placed),), found)

    monkeypatch.setattr(ask_ranks, "look", look)
    monkeypatch.setattr(ask_ranks, "PLACE_S", 0.05)
    ended = await cluster.run(cluster.plan(on_hang="stop", stall_after=0.05))
    assert ended.failure is not None and ended.failure.cause == (HANG.headline if comes else none.headline)
    more = (1 if comes else ask_ranks.PLACE_LOOKS) if late else 0
    assert (len(looks), len(cluster.of(RanksAsked))) == (1 + more, 1 + comes)


async def test_a_run_that_hangs_is_restarted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is an attempt; the next one goes on, and the run succeeds."""
    answering(monkeypatch, hanging)
    job = {"on_hang": "restart", "retries": 1, "stall_after": 0.05}

    async def again(attempt: int, spent: float) -> NextAttempt:
        for number, host in enumerate(cluster.hosts):
            host.engine.exits[number] = 0
        facts = {name: facts_of(name, 11 + n) for n, name in enumerate(cluster.names)}
        return NextAttempt(plan_for(*cluster.names, attempt=attempt, facts=facts, **job), facts)

    ended = await cluster.run(cluster.plan(**job), planner=again)
    assert (ended.outcome, ended.exit, ended.attempt) == ("succeeded", 0, 2)
    (past,) = cluster.of(AttemptEnded)
    assert (past.failure.rank, past.failure.cause) == (1, HANG.headline)


@pytest.mark.parametrize("kind", ["unseen", "moving"])
async def test_silent_ranks_that_wait_in_no_collective_are_judged_by_their_calls(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """They hang since they were silent: by calls it is known for seconds only that somebody waits."""
    old = RankSeen(0, "h1", Process(7, 1, "python", "S", 0.0, rank=0, torch="2.4.1"))
    answering(monkeypatch, lambda: Explanation(kind, "nothing stands still", "unknown", ()), old)

    async def look_and_watch(*_: Any, **__: Any) -> Look:
        return Look((), hanging(since=time.time(), certainty="likely"))

    monkeypatch.setattr(ask_ranks, "look_and_watch", look_and_watch)
    ended = await cluster.run(cluster.plan(on_hang="stop", stall_after=0.3))
    assert ended.failure is not None and (ended.failure.rank, ended.failure.cause) == (1, HANG.headline)
    assert ended.failure.unsure == "what its ranks tell leaves other causes possible"


@pytest.mark.parametrize(
    ("kind", "torch", "cpu", "tells"),
    [("unseen", "2.13.0", 0.0, True), ("moving", "2.13.0", 0.1, True), ("moving", "2.13.0", 1.0, False),
     ("moving", "", 0.0, False), ("straggler", "2.13.0", 0.0, False)],
)  # fmt: skip
def test_calls_are_looked_at_where_ranks_of_torch_do_nothing(kind: Kind, torch: str, cpu: float, tells: bool) -> None:
    """Not where all are at work, or where more is known."""
    one = RankSeen(0, "h1", Process(7, 1, "python", "S", cpu, rank=0, torch=torch))
    assert ask_ranks._calls_may_tell(Look((one,), Explanation(kind, "x", "unknown", ()))) is tells


def test_ranks_get_a_signal_for_their_calls_only_where_none_of_them_speaks() -> None:
    """One that has ended, or runs elsewhere out of reach, says nothing either way."""

    def silent(**states: RankState) -> bool:
        attempt = SimpleNamespace(plan=plan_for("h1", stall_after=8.0), state=SimpleNamespace(ranks=states))
        return ask_ranks.all_silent(cast(Attempt, attempt), 100.0)

    quiet = RankState(0, "h1", 0, "running", since=10.0)
    ended = replace(quiet, state="exited")
    assert silent(a=quiet, b=replace(quiet, last_line_at=80.0), c=ended, d=replace(quiet, state="lost"))
    assert not silent(a=quiet, b=replace(quiet, last_line_at=95.0)) and not silent(a=ended)


@pytest.mark.parametrize(
    ("job", "changes"),
    [
        ({"on_hang": "tell"}, {}),
        ({"on_hang": "stop"}, {"kind": "stall"}),
        ({"on_hang": "stop"}, {"kind": "stall", "certainty": "likely"}),
        ({"on_hang": "stop"}, {"kind": "moving"}),
        ({"on_hang": "stop"}, {"since": None}),
    ],
    ids=["only told", "a checkpoint", "one of which nothing moves", "it goes on", "not known since when"],
)
async def test_what_stops_no_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], changes: dict[str, Any]
) -> None:
    """It goes on to its own end."""
    asked = answering(monkeypatch, lambda: hanging(**changes))

    async def end() -> None:
        await until(lambda: asked)
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.run(cluster.plan(stall_after=0.05, **job), end())
    assert (ended.outcome, cluster.of(StopAsked)) == ("succeeded", [])


@pytest.mark.parametrize("kind", ["unseen", "stall"])
async def test_how_to_see_more_is_said_once_of_a_run_that_stands_still(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Of ranks of JAX or TensorFlow, say, which tell of no collective: nobody can be named by itself."""
    asked = answering(monkeypatch, lambda: hanging(kind=kind))
    monkeypatch.setattr(ask_ranks, "FIRST_PAUSE_S", 0.05)

    async def end() -> None:
        await until(lambda: len(asked) > 3 and cluster.of(RunStalled))
        before = len(asked)
        await until(lambda: len(asked) > before + 2)
        for host in cluster.hosts:
            host.containers[0].end(0)

    await cluster.run(cluster.plan(stall_after=0.05), end())
    assert cluster.said().count("shows what its ranks do") == (kind == "unseen")


# a collective that times out

TIMED_OUT = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"


def timed_out(found: Explanation | None) -> Evidence:
    """Rank 0 gave up at 100, and rank 1 was stopped for it."""
    lines = (Line(99.0, "Traceback (most recent call last):"), Line(99.0, TIMED_OUT))
    tasks = (task(0, End(1, 100.0, seen_at=100.1), *lines), task(1, stopped(102.0)))
    return Evidence(tasks, stops=(Stop(101.0, "failure"),), explanation=found)


def test_a_time_out_names_the_rank_that_did_not_enter() -> None:
    """First is who gave up, by its exit status; why is who held it up, which leaves no doubt."""
    found = judge(timed_out(HANG)).failure
    assert found is not None and (found.rank, found.exit, found.unsure, found.hint) == (0, 1, "", HANG.advice)
    assert found.cause == f"a collective timed out: another rank is late, stuck or gone; {HANG.headline}"
    assert may_be_network(found.cause)
    likely = judge(timed_out(replace(HANG, certainty="likely"))).failure
    assert likely is not None and likely.unsure == "it waited for others in vain, most likely for rank 1"
    unknown = judge(timed_out(None)).failure
    assert unknown is not None and unknown.unsure.endswith("which of them kept it waiting is not known")


def test_a_failure_of_another_kind_is_not_explained_by_who_was_late() -> None:
    """What ranks told is no evidence of it."""
    evidence = timed_out(HANG)
    own = replace(
        evidence.tasks[0], lines={0: (Line(99.0, "Traceback (most recent call last):"), Line(99.0, "OSError: x"))}
    )
    found = judge(replace(evidence, tasks=(own, evidence.tasks[1]))).failure
    assert found is not None and (found.rank, found.cause) == (0, "")


@pytest.mark.parametrize("answers", [True, False], ids=["they answer", "they do not"])
async def test_ranks_are_asked_before_they_are_stopped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """Once, for so long at most; then the run is stopped as ever."""
    alive: list[str] = []

    async def look(*_: Any, in_vain: frozenset[int], **__: Any) -> Look:
        alive.extend(cluster.hosts[1].containers[0].status for _ in in_vain)
        if not answers:
            await asyncio.Event().wait()
        return Look((), HANG)

    monkeypatch.setattr(ask_ranks, "look", look)
    monkeypatch.setattr(ask_before_stop, "SECONDS", 0.2)
    cluster.hosts[0].engine.exits[0] = 1
    cluster.hosts[0].files["log-0"] = f"Traceback (most recent call last):\n{TIMED_OUT}\n".encode()
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, alive) == ("failed", 1, ["running"])
    assert ended.failure is not None and (HANG.headline in ended.failure.cause) is answers
    assert [stop.reason for stop in cluster.of(StopAsked)] == ["failure"]
    assert len(cluster.of(RanksAsked)) == answers and cluster.left() == []


@pytest.mark.parametrize(("unread", "seconds"), [(True, ask_before_stop.UNREAD_S), (False, 0.0)])
@pytest.mark.parametrize("set_by", [0.0, -3600.0, 3600.0])
def test_a_stop_waits_for_the_rest_of_a_log_of_a_rank_that_ended(unread: bool, seconds: float, set_by: float) -> None:
    """On a busy machine its last words come later than its end, and they may tell of a time-out. However our clock is
    set meanwhile, for no longer and no less.
    """
    now, ours = [100.0], iter([5000.0] * 2 + [5000.0 + set_by] * 100)
    tracker = Mock()
    tracker.live_tasks.return_value, tracker.bad.return_value = {1}, {0}
    tracker.tracks = {0: Mock(phase="exited" if unread else "over")}
    tracker.verdict.return_value.failure = None
    tracker.waited = lambda: now[0]
    attempt = Mock(tracker=tracker, clock=lambda: next(ours))
    attempt.plan.tasks = [Mock(insight="/x", index=index) for index in range(2)]
    before = ask_before_stop.BeforeStop()
    while before.waits(attempt, []):
        now[0] += 0.25
    assert now[0] - 100 == seconds


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        (("step 30", "[rank: 1] Received SIGTERM: 15", "Epoch 0: 10%|#  | 3/30 [00:01<00:09]"), "Received SIGTERM: 15"),
        (("step 30", "[rank1]: early stop: loss 0.1", ""), "early stop: loss 0.1"),
        (("x" * 500,), "x" * 160),
    ],
)
def test_the_last_words_of_whoever_ended_well_are_quoted(said: tuple[str, ...], quoted: str) -> None:
    """A signal tells more than a progress bar below it."""
    lost = tuple(Line(30.0, text) for text in ("Traceback (most recent call last):", ECHO))
    lines = (Line(28.0, text) for text in said)
    found = judge(Evidence((task(0, End(1, 30.5, seen_at=30.6), *lost), task(1, End(0, 29.0, seen_at=29.1), *lines))))
    assert found.failure is not None
    words = "find out why rank 1 on h2 ended before the others; rank 1 said last: "
    assert found.failure.hint.startswith(words) and quoted in found.failure.hint.removeprefix(words)
    assert len(found.failure.hint) < len(words) + 170


async def test_what_was_told_before_says_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the same rank held the others up: then all were still in their collective."""
    late = replace(HANG, headline="rank 1 had not entered the collective after all_reduce #30", certainty="likely")
    reported = [hanging(headline="rank 1 has not entered all_reduce #31"), late]
    asked = answering(monkeypatch, lambda: reported[bool(asked)])

    async def give_up() -> None:
        await until(lambda: asked)
        cluster.hosts[0].files["log-0"] = f"Traceback (most recent call last):\n{TIMED_OUT}\n".encode()
        cluster.hosts[0].containers[0].end(1)

    ended = await cluster.run(cluster.plan(stall_after=0.05), give_up())
    assert ended.failure is not None and "has not entered all_reduce #31" in ended.failure.cause
    assert len(asked) == 2


@pytest.mark.parametrize(("at", "named"), [(31.2, True), (36.0, False)])
def test_a_rank_that_takes_a_moment_to_leave_is_who_its_peers_lost(at: float, named: bool) -> None:
    """It lets go of its peers before its process is down, on a busy host long before."""
    lost = tuple(Line(30.0, text) for text in ("Traceback (most recent call last):", ECHO))
    first = task(0, End(1, 30.5, seen_at=30.6), *lost)
    found = judge(Evidence((first, task(1, End(0, at, seen_at=at + 0.1))))).failure
    assert found is not None and found.rank == 0
    assert ("rank 1 on h2 ended with exit 0 at about that time" in found.unsure) == named
    assert (found.hint == "find out why rank 1 on h2 ended before the others") == named
    reported = task(1, End(0, at, seen_at=at + 0.1), *lost)
    found = judge(Evidence((first, reported))).failure
    assert found is not None and "rank 1" not in found.unsure, "it lost a peer itself"
