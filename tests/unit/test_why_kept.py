"""What ranks told of a run that did not go on: when they are asked, what is said and kept, and what is shown later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from distui.cluster import why as why_module
from distui.cluster.runs.run import Run
from distui.errors import NotFound
from distui.plan import serialize
from distui.runs.control import supervise
from distui.runs.ending import ask_ranks
from distui.runs.ending.ask_ranks import PLACE_LOOKS, AskTurns, tell_why
from distui.runs.insight.asking.look import Look
from distui.runs.insight.hang.ras.communicators import Counted
from distui.runs.insight.hang.ras.report import Communicator
from distui.runs.insight.seen.answers import Frame, HostAnswer, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Watched
from distui.runs.insight.slow.lateness import Lateness
from distui.runs.insight.slow.slow import Slow
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import (
    Carried,
    NetworkUsed,
    Notice,
    PhaseBegun,
    RanksAsked,
    RanksStepped,
    RankStep,
    RunEnded,
    RunOpened,
)
from distui.runs.lines.explanation import Calls, Explanation, RankPlace
from distui.runs.report.network_words import network_text
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Series
from distui.runs.store.recorded import event_of
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.store.why_records import MOST_BYTES, MOST_FILES, WhyRecord, keep, kept
from distui.runs.verdict.evidence import Stop
from fakehosts.runs import Cluster, plan_for, use_fake_follower

HANG = Explanation(
    "hang",
    "rank 1 has not entered all_reduce #31",
    "certain",
    (RankPlace(1, "h2", "sleeps at /w/train.py:9 in load", "all_reduce #30", 1, True), RankPlace(0, "h1", "waits")),
    ("rank 0 entered, rank 1 did not",),
    "look at /w/train.py:9",
    100.0,
    "all_reduce #31",
)
MOVING = Explanation("moving", "no collective stands still", "certain", (RankPlace(0, "h1", "waits"),))
CALLS = (Calls((1,), ("/w/train.py:9 in load",)), Calls((0,), ()))


@pytest.fixture
def stored(home: Path) -> StoredRun:
    return RunStore(home / ".local/state/distui").create("r")


# when


def asked_at(turns: AskTurns, until: int, silent: Callable[[int], bool]) -> list[int]:
    """The seconds at which ranks are asked."""
    return [now for now in range(until) if turns.due(float(now), silent=silent(now))]


def test_ranks_are_asked_whether_they_speak_or_not() -> None:
    """Lines of a progress bar tell nothing; one that is silent has them asked at once, then less and less often."""
    assert asked_at(AskTurns(0.0, 120.0, insight=True), 400, lambda now: False) == [120, 240, 360]
    assert asked_at(AskTurns(0.0, 30.0, insight=True), 100, lambda now: False) == [30, 60, 90]
    assert asked_at(AskTurns(0.0, 15.0, insight=True), 90, lambda now: False) == [20, 40, 60, 80]
    assert asked_at(AskTurns(0.0, 30.0, insight=True), 150, lambda now: now >= 45) == [30, 45, 55, 75, 105, 135]
    assert asked_at(AskTurns(0.0, 120.0, insight=False), 400, lambda now: False) == []
    assert asked_at(AskTurns(0.0, 120.0, insight=False), 330, lambda now: now >= 300) == [300, 310]
    assert asked_at(AskTurns(0.0, 0.0, insight=True), 400, lambda now: False) == []


def test_ranks_are_asked_before_they_count_as_silent() -> None:
    """Once for each time that they were last known to go on; not where they can't be asked."""
    signs = [None] * 50 + [0.0] * 20 + [52.0] * 10 + [None] * 20
    for insight, want in ((True, [50, 70]), (False, [])):
        turns = AskTurns(0.0, 120.0, insight=insight)
        asked = [now for now, at in enumerate(signs) if turns.due(float(now), silent=False, overdue=at)]
        assert asked == want
    assert turns.due(200.0, silent=True, overdue=90.0) and not turns.due(201.0, silent=True, overdue=91.0)


async def test_ranks_are_asked_once_at_a_time() -> None:
    """A question that a busy host takes long to answer is waited for; what fell due meanwhile is asked then."""
    turns, answered = AskTurns(0.0, 30.0, insight=True), asyncio.Event()

    async def look() -> None:
        await answered.wait()

    assert turns.due(30.0, silent=False)
    asking = turns.begin(look())
    assert not any(turns.due(float(now), silent=now >= 45, overdue=40.0) for now in range(31, 100))
    answered.set()
    await asking
    assert turns.due(100.0, silent=True) and not turns.due(101.0, silent=True)


async def test_ranks_may_be_asked_again_while_what_they_said_is_kept() -> None:
    """How late they are is worked out for seconds in a large run: whoever is overdue meanwhile is asked."""
    turns, kept = AskTurns(0.0, 30.0, insight=True), asyncio.Event()

    async def look() -> None:
        turns.answered()
        await kept.wait()

    looking = turns.begin(look())
    await asyncio.sleep(0)
    assert turns.due(31.0, silent=False)
    kept.set()
    await looking


def test_a_place_is_waited_for_some_looks_and_not_for_long() -> None:
    """A host that hangs makes each look take half a minute, and the run is to end."""
    quick, slow = AskTurns(0.0, 30.0, insight=True), AskTurns(0.0, 30.0, insight=True)
    assert [quick.waits_for_places(float(now), 1) for now in range(0, 24, 3)] == [True] * PLACE_LOOKS + [False] * 2
    assert [slow.waits_for_places(float(now), 1) for now in range(0, 132, 33)] == [True, True, False, False]
    assert not AskTurns(0.0, 30.0, insight=True).waits_for_places(0.0, 0)


def test_ranks_are_asked_after_a_clock_was_set_back() -> None:
    """By an hour: not an hour later."""
    turns = AskTurns(10_000.0, 120.0, insight=True)
    assert not turns.due(10_000.0, silent=False)
    assert [now for now in range(6400, 6700) if turns.due(float(now), silent=False)] == [6520, 6640]


def test_what_is_to_be_named_soon_is_asked_more_often() -> None:
    """A hang is to be named ten seconds after `stall_after`: also where ranks print on, or were silent long before."""
    assert asked_at(AskTurns(0.0, 3.0, insight=True), 40, lambda now: False) == [9, 18, 27, 36]
    assert asked_at(AskTurns(0.0, 3.0, insight=True), 40, lambda now: now >= 3) == [3, 12, 21, 30, 39]
    assert asked_at(AskTurns(0.0, 10.0, insight=True), 60, lambda now: False) == [16, 32, 48]


def test_what_stood_still_is_asked_about_when_it_has_for_long() -> None:
    """And not before its time a second time."""
    turns = AskTurns(0.0, 120.0, insight=True)
    assert turns.due(120.0, silent=False)
    turns.again(150.0)
    assert [now for now in range(121, 300) if turns.due(float(now), silent=False)] == [150, 270]


# what is said


@pytest.fixture
def telling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Tells what is made of one answer after the other, each at its time; what was said, and when to ask again."""

    async def tell(
        *answers: tuple[float, Explanation], ranks: Sequence[tuple[RankSeen, ...]] = (), **job: Any
    ) -> tuple[list[Any], list[float], StoredRun]:
        cluster = Cluster(tmp_path)
        now = [0.0]
        run = cluster.controller(cluster.plan(stall_after=30.0, **job), clock=lambda: now[0])
        turns = AskTurns(0.0, 30.0, insight=True)
        again: list[float] = []
        said: list[Any] = []
        monkeypatch.setattr(turns, "again", again.append)

        async def emit(event: Any) -> None:
            said.append(event)

        monkeypatch.setattr(run.attempt, "emit", emit)
        for (at, found), seen in zip_longest(answers, ranks, fillvalue=()):

            async def look(*_: object, look: Look = Look(seen, found), **__: object) -> Look:  # noqa: B008
                return look

            monkeypatch.setattr(ask_ranks, "look", look)
            now[0] = at
            await tell_why(run.attempt, turns)
        await run.attempt.close()
        return said, again, run.stored

    return tell


async def test_who_holds_the_others_up_is_said_once(telling: Any) -> None:
    """As an event, in words and as a file; again when it is another rank, and when the ranks go on."""
    other = replace(HANG, ranks=(RankPlace(0, "h1", "sleeps", culprit=True),), headline="rank 0 sleeps")
    said, _, stored = await telling((140.0, HANG), (150.0, HANG), (160.0, other), (170.0, MOVING), (180.0, MOVING))

    assert [event.found.headline for event in said if isinstance(event, RanksAsked)] == [
        HANG.headline,
        "rank 0 sleeps",
        MOVING.headline,
    ]
    words = [(event.level, event.text) for event in said if isinstance(event, Notice)]
    assert words[0] == (
        "warning",
        "rank 1 has not entered all_reduce #31; look at /w/train.py:9; `distui why r1` shows all ranks",
    )
    assert words[2] == ("info", "the ranks go on: no collective stands still any more")
    assert [(one.at, one.by, one.found.kind) for one in kept(stored)] == [
        (140.0, "run", "hang"),
        (160.0, "run", "hang"),
        (170.0, "run", "moving"),
    ]


NO_PLACE = replace(
    HANG,
    ranks=(replace(HANG.ranks[0], does="sleeps"), HANG.ranks[1]),
    headline=f"{HANG.headline}: it sleeps",
    advice="",
)
"""The same where the stack came too late."""
PLACE = replace(HANG, headline=f"{HANG.headline}: it sleeps at /w/train.py:9 in load")


def rank_1(*, at: int = 0, **changes: Any) -> tuple[RankSeen, ...]:
    """The rank that holds the others up, with the line at which it is; else that came too late."""
    stacks = (Stack("0x1", True, (Frame("/w/train.py", at, "<module>"),)),) if at else ()
    process = Process(7, 1, "python", "S", 0.0, rank=1, torch="2.13.0", stacks=stacks)
    return (replace(RankSeen(1, "h2", process, late=not at), **changes),)


async def test_where_the_rank_is_is_said_once_it_is_known(telling: Any) -> None:
    """On a busy host its stack may come too late: it is asked again soon, and said once more, not each time."""
    answers = ((140.0, NO_PLACE), (143.0, NO_PLACE), (146.0, PLACE), (160.0, NO_PLACE), (180.0, PLACE))
    ranks = (rank_1(), rank_1(), rank_1(at=9), rank_1(), rank_1(at=9))
    said, again, stored = await telling(*answers, ranks=ranks)
    headlines = [event.found.headline for event in said if isinstance(event, RanksAsked)]
    assert headlines == [NO_PLACE.headline, PLACE.headline] == [one.found.headline for one in kept(stored)]
    warned = [event.text for event in said if isinstance(event, Notice)]
    assert len(warned) == 2 and "at /w/train.py:9" in warned[1]
    assert again == [143.0]


@pytest.mark.parametrize(
    "ranks",
    [
        rank_1(at=9),
        rank_1(process=None, ended="exit 1"),
        rank_1(process=replace(rank_1()[0].process, state="T")),  # type: ignore[type-var]
        rank_1(late=False),
        rank_1(process=None, why_not="refused", late=False),
    ],
    ids=["it is known", "it has ended", "it is stopped", "its stacks can't be had", "its host can't be asked"],
)
async def test_where_a_rank_is_that_can_t_tell_more_is_not_asked_again(telling: Any, ranks: Any) -> None:
    """There is nothing to wait for."""
    said, again, _ = await telling((140.0, HANG), (143.0, HANG), ranks=(ranks, ranks))
    assert (len([one for one in said if isinstance(one, RanksAsked)]), again) == (1, [])


async def test_of_many_ranks_it_is_said_once_more_when_half_of_them_tell(telling: Any) -> None:
    """On a busy host never all of them may: few times, and not once for each."""
    many = replace(HANG, ranks=tuple(RankPlace(n, "h2", "sleeps", culprit=True) for n in range(64)))

    def reported(count: int) -> tuple[RankSeen, ...]:
        return tuple(replace(rank_1(at=9 if n < count else 0)[0], rank=n) for n in range(64))

    answers = [(140.0 + 20 * count, many) for count in range(65)]
    said, _, _ = await telling(*answers, ranks=[reported(count) for count in range(65)])
    assert len([one for one in said if isinstance(one, RanksAsked)]) == 8


async def test_a_step_that_refutes_it_is_not_said_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the ranks go on is said at the step; what is seen of them then is no news of where one was."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan(stall_after=30.0), clock=lambda: 140.0)
    turns, looks = AskTurns(0.0, 30.0, insight=True), iter([Look(rank_1(), NO_PLACE), Look(rank_1(), MOVING)])

    async def look(*_: object, **__: object) -> Look:
        return next(looks)

    monkeypatch.setattr(ask_ranks, "look", look)
    await tell_why(run.attempt, turns)
    await ask_ranks.tell_going_on(run.attempt, turns)
    await tell_why(run.attempt, turns)
    await run.attempt.close()
    assert [one.found.kind for one in kept(run.stored)] == ["hang", "moving"]


async def test_what_has_not_stood_still_for_long_is_no_hang(telling: Any) -> None:
    """A rank that evaluates for a while, or prints every five minutes: nothing is said, and it is looked at again."""
    said, again, stored = await telling((110.0, HANG), (131.0, MOVING))
    assert (said, again, kept(stored)) == ([], [130.5], ())


async def test_a_run_ends_for_what_was_seen_and_not_after_it_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads its events may be far behind: until it is told, the run may have gone on."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan(on_hang="stop", stall_after=30.0), clock=lambda: 140.0)
    hung: list[bool] = []

    async def look(*_: object, **__: object) -> Look:
        return Look(rank_1(at=9), HANG)

    async def emit(event: Any) -> None:
        hung.append(run.attempt.tracker.hung)

    monkeypatch.setattr(ask_ranks, "look", look)
    monkeypatch.setattr(run.attempt, "emit", emit)
    await tell_why(run.attempt, AskTurns(0.0, 30.0, insight=True))
    await run.attempt.close()
    assert set(hung) == {True}


@pytest.mark.parametrize("late", [120.0, 138.0])
async def test_how_long_a_host_takes_for_its_answer_is_no_standstill(telling: Any, late: float) -> None:
    """It answers, or tells its stacks, half a minute later: whether the others have gone on since is not known."""
    answered = tuple(replace(rank_1(at=9)[0], rank=rank, at=at) for rank, at in enumerate((120.0, late)))
    said, again, stored = await telling((140.0, HANG), ranks=(answered,))
    assert (said, again, kept(stored)) == ([], [130.5], ())


async def test_what_nccl_counted_is_kept_until_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts tell no moments: since when they stand is known from one look to the next, which comes soon."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan(stall_after=30.0), clock=lambda: 100.0)
    turns = AskTurns(0.0, 30.0, insight=True)
    uneven = Communicator("5f", "", 2, {"AllReduce": {0: 31, 1: 30}}, {}, {}, {})
    ras = (Counted(uneven, "2.29.2", {}, since=99.0, at=100.0, goes_on=False),)
    befores: list[Any] = []

    async def look(*_: object, before: Any, **__: object) -> Look:
        befores.append(before)
        return Look((), MOVING, ras=ras)

    monkeypatch.setattr(ask_ranks, "look", look)
    for _ in range(2):
        await tell_why(run.attempt, turns)
    await run.attempt.close()
    assert befores == [(), ras] and turns.due(104.0, silent=False)


async def test_another_standstill_is_not_the_one_before(telling: Any) -> None:
    """The run went on in between: that is said before anything of the new one, which may pass."""
    said, again, _ = await telling((140.0, HANG), (150.0, replace(HANG, since=145.0)))
    (first, second) = [event.found for event in said if isinstance(event, RanksAsked)]
    assert (first.kind, second.kind, second.culprits, again) == ("hang", "moving", (), [175.5])


async def test_a_step_says_that_the_ranks_go_on(tmp_path: Path) -> None:
    """At once, and not when they are asked the next time, two minutes later; they are asked at once, too."""
    cluster, now = Cluster(tmp_path), [300.0]
    run = cluster.controller(cluster.plan(stall_after=120.0), clock=lambda: now[0])
    attempt, turns = run.attempt, AskTurns(0.0, 120.0, insight=True)
    await attempt.emit(RunOpened(90.0, "r1", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}))
    await attempt.emit(RanksAsked(300.0, HANG))
    attempt.explanation = HANG
    assert turns.due(300.0, silent=True) and not turns.due(301.0, silent=True)
    steps = iter([RanksStepped(301.0, (RankStep(1, 8, 299.0),)), RanksStepped(302.0, (RankStep(1, 9, 302.0),))])
    attempt.steps = Mock(news=lambda *_: next(steps))
    now[0] = 301.0
    await supervise._tell_steps(attempt, turns)
    assert attempt.state.why is not None and not turns.due(301.0, silent=True)
    now[0] = 302.0
    await supervise._tell_steps(attempt, turns)
    await attempt.close()
    assert (attempt.state.why, attempt.explanation) == (None, None) and turns.due(302.0, silent=True)
    assert kept(run.stored)[-1].found.kind == "moving"
    assert [notice.text for notice in attempt.state.notices] == ["the ranks go on: no collective stands still any more"]


async def test_a_rank_stopped_by_a_signal_is_reported_at_once(telling: Any) -> None:
    """Nobody waits for it yet, so that it is not known since when it stands."""
    said, _, _ = await telling((10.0, replace(HANG, since=None, headline="rank 1 is stopped by a signal")))
    assert [event.found.headline for event in said if isinstance(event, RanksAsked)] == [
        "rank 1 is stopped by a signal"
    ]


@pytest.mark.parametrize("ends", ["stopped", "gone"])
async def test_of_a_run_that_begins_to_end_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Its ranks were asked just before: they do not go on, and what stands still is no news any more."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan(stall_after=1.0), clock=lambda: 1000.0)
    run.attempt.explanation = HANG
    gone = (RankSeen(0, "h1", why_not="nothing of it runs"),)

    async def look(*_: object, **__: object) -> Look:
        if ends == "gone":
            return Look(gone, Explanation("unseen", "no rank tells", "unknown", ()))
        run.attempt.tracker.stopped(Stop(1000.0, "user"))
        return Look((), MOVING)

    monkeypatch.setattr(ask_ranks, "look", look)
    await tell_why(run.attempt, AskTurns(0.0, 1.0, insight=True))
    await run.attempt.close()
    assert (run.attempt.explanation, kept(run.stored)) == (HANG, ())


def test_an_event_is_bounded() -> None:
    """Whatever ranks answered."""
    places = tuple(RankPlace(n, "h", "x" * 9000, "y" * 9000, culprit=n < 3) for n in range(5000))
    found = replace(HANG, headline="z" * 9000, ranks=places, evidence=("e" * 9000,) * 500)
    (value,) = to_json(RanksAsked(1.0, found), "r")
    assert len(json.dumps(value)) < 60_000
    event = event_of(value)
    assert isinstance(event, RanksAsked) and event.found.culprits == (0, 1, 2)


# what is kept


def test_what_is_kept_comes_back(stored: StoredRun) -> None:
    """In a private folder; also of an earlier attempt, while the newest has nothing."""
    record = WhyRecord(1000.0, "user", HANG, CALLS)
    assert keep(stored, record)
    assert kept(stored) == (record,)
    assert {path.stat().st_mode & 0o777 for path in (stored.path / "why").iterdir()} == {0o600}
    assert (stored.path / "why").stat().st_mode & 0o777 == 0o700
    stored.set_aside(1)
    assert kept(stored) == (record,)
    newer = replace(record, at=2000.0)
    assert keep(stored, newer) and kept(stored) == (newer,)


def test_few_files_are_kept_and_those_that_tell_least_go_first(stored: StoredRun) -> None:
    """Somebody who looks every second does not push out why the run hung."""
    for at in range(3 * MOST_FILES):
        assert keep(stored, WhyRecord(float(at), "user", HANG if at in (2, 5) else MOVING))
    assert len(kept(stored)) == MOST_FILES
    assert [one.at for one in kept(stored) if one.found.kind == "hang"] == [2.0, 5.0]
    assert kept(stored)[-1].at == 3 * MOST_FILES - 1


def test_a_file_is_bounded(stored: StoredRun) -> None:
    """A thousand ranks with the longest words: without calls, then with fewer ranks."""
    calls = tuple(Calls((n,), ("f" * 300,) * 60) for n in range(1000))
    keep(stored, WhyRecord(1.0, "run", HANG, calls))
    places = tuple(RankPlace(n, "h", "x" * 600, culprit=n == 0) for n in range(1000))
    keep(stored, WhyRecord(2.0, "run", replace(HANG, ranks=places), calls))
    assert all(path.stat().st_size <= MOST_BYTES for path in (stored.path / "why").iterdir())
    first, second = kept(stored)
    assert (first.calls, first.found, second.calls, second.found.culprits) == ((), HANG, (), (0,))


def test_what_is_no_record_is_left_out(stored: StoredRun) -> None:
    """Torn, foreign, of other types, or not a file at all."""
    keep(stored, WhyRecord(1.0, "run", HANG))
    (path,) = (stored.path / "why").iterdir()
    good = json.loads(path.read_text())
    for number, bad in enumerate(
        ("{", "[]", json.dumps(good | {"headline": 7}), json.dumps(good | {"ranks": [1]})), 10
    ):
        (path.parent / f"{number:05d}-hang.json").write_text(bad)
    (path.parent / "00099-hang.json").mkdir()
    assert len(kept(stored)) == 1


def test_no_room_for_it_is_no_error(stored: StoredRun) -> None:
    """The run goes on."""
    (stored.path / "why").write_text("")
    assert not keep(stored, WhyRecord(1.0, "run", HANG))
    assert kept(stored) == ()


# what is shown


def ended(stored: StoredRun) -> None:
    """A run that is over, as it is recorded here."""
    stored.write_plan(serialize.to_json(plan_for("h1", "h2", run_id="r")))
    events = (
        RunOpened(1.0, "r", "j", "env", "img", {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}, log_dir=str(stored.log_dir)),
        RunEnded(9.0, "stopped", 130, log_dir=str(stored.log_dir)),
    )
    lines = [json.dumps(value) for event in events for value in to_json(event, "r")]
    (stored.path / "events.ndjson").write_text("\n".join(lines) + "\n")


def test_a_run_that_has_ended_shows_why_it_stood(cli: Any, home: Path, stored: StoredRun) -> None:
    """By `show`, and by `why` as of one that lives; no host is asked."""
    ended(stored)
    keep(stored, WhyRecord(160.0, "run", HANG, CALLS))
    keep(stored, WhyRecord(170.0, "user", MOVING))

    shown = cli("show", "r").out
    assert "rank 1 has not entered all_reduce #31" in next(line for line in shown.splitlines() if line[:4] == "why ")
    assert [one["kind"] for one in json.loads(cli("show", "r", "-o", "json").out)["why"]] == ["hang", "moving"]
    done = cli("why", "r", "--stacks", "--save", "kept")
    assert done.code == 0, done.err
    first, second, *rest = done.out.splitlines()
    assert first.startswith("r has ended; when its ranks were asked last, ")
    assert second == "rank 1 has not entered all_reduce #31 (for 1m)"
    assert any(line.startswith(">1    h2    1       all_reduce #30  sleeps at /w/train.py:9") for line in rest)
    assert rest[-2:] == ["rank 0:", "  no stack: it did not answer, or runs no Python"]
    value = json.loads(cli("why", "r", "-o", "json").out)
    assert (value["schema"], value["culprits"], value["answers"]) == ("distui/why/v1", [1], [])
    assert json.loads(Path("kept/why.json").read_text()) == value


def test_a_secret_that_is_not_known_may_be_in_what_is_saved(
    cli: Any, home: Path, stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is to be passed on: said as `logs` says it. What is only shown is not."""
    ended(stored)
    plan = plan_for("h1", "h2", run_id="r")
    tasks = tuple(replace(task, secrets=("TOKEN",)) for task in plan.tasks)
    stored.write_plan(serialize.to_json(replace(plan, tasks=tasks)))
    keep(stored, WhyRecord(160.0, "run", HANG, CALLS))
    monkeypatch.delenv("TOKEN", raising=False)
    assert "TOKEN" not in cli("why", "r").err
    done = cli("why", "r", "--save", "kept")
    assert done.code == 0
    assert "kept: the value of secret TOKEN is not set here: where ranks print it, it is not hidden" in done.err
    monkeypatch.setenv("TOKEN", "a-long-value")
    assert "TOKEN" not in cli("why", "r", "--save", "other").err


def test_a_run_that_ended_unasked_says_so(cli: Any, stored: StoredRun) -> None:
    """Exit 7, and where to look instead."""
    ended(stored)
    done = cli("why", "r")
    assert (done.code, done.out) == (7, "")
    assert "r has ended, and no answer of its ranks is kept" in done.err
    assert "distui show r" in done.err


USED = NetworkUsed(
    8.0, "ended", "eth0 98 % of 41 GB, ib0 2 %", (Carried("h1", "eth0", 20, 21), Carried("h1", "ib0", 1, 1, True)),
    ("h[1-2]: 40 GB went over eth0, hardly any over ib0, which the plan chose; look at it",),
)  # fmt: skip


def test_the_network_of_a_run_that_has_ended(cli: Any, stored: StoredRun) -> None:
    """With what its ranks told, and also where they were never asked; what it says is not how it ended."""
    ended(stored)
    with (stored.path / "events.ndjson").open("a") as file:
        file.writelines(json.dumps(value) + "\n" for value in to_json(USED, "r"))
    last = ["network: eth0 98 % of 41 GB, ib0 2 %", f"  {USED.warnings[0]}"]

    done = cli("why", "r")
    assert (done.code, done.out.splitlines()) == (
        0,
        ["r has ended, and no answer of its ranks is kept", "", *last],
    )
    value = json.loads(cli("why", "r", "-o", "json").out)
    assert (value["kind"], value["ranks"], value["network"]["words"]) == ("unseen", [], USED.words)
    assert value["network"]["interfaces"][1] == {
        "host": "h1", "interface": "ib0", "received": 1, "sent": 1, "planned": True,
    }  # fmt: skip

    keep(stored, WhyRecord(160.0, "run", HANG, CALLS))
    assert cli("why", "r").out.splitlines()[-3:] == ["", *last]
    value = json.loads(cli("why", "r", "-o", "json").out)
    assert (value["kind"], value["network"]["warnings"]) == ("hang", list(USED.warnings))


def test_how_old_the_network_of_a_run_that_goes_on_is() -> None:
    """It is told again after twice the time."""
    going = replace(USED, moment="going", warnings=(), words="")
    assert network_text(going, 128.0) == ("network: hardly anything so far (until 2m ago)",)
    assert network_text(replace(going, words="ib0 100 % of 1.0 GB"), 8.0) == (
        "network: ib0 100 % of 1.0 GB (until 0s ago)",
    )


def test_how_late_ranks_were_is_told_of_a_run_that_has_ended(cli: Any, stored: StoredRun) -> None:
    """Who was late by how much is kept; behind in collectives nobody was."""
    ended(stored)
    late = RankPlace(1, "h2", "sleeps", "all_reduce #79", 0, True, 0.2)
    places = (late, RankPlace(0, "h1", "waits", "", 0, False, 0.0))
    keep(stored, WhyRecord(160.0, "user", Explanation("straggler", "rank 1 is late", "certain", places)))

    rows = [line.split() for line in cli("why", "r").out.splitlines()[3:]]
    assert rows == [
        ["RANK", "HOST", "LATE", "AT", "DOES"],
        [">1", "h2", "200", "ms", "all_reduce", "#79", "sleeps"],
        ["0", "h1", "-", "-", "waits"],
    ]


async def test_how_late_ranks_were_is_kept_of_a_run_that_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody finds in the Why panel is plotted as after `distui why`: over the seconds of the watch."""
    cluster = Cluster(tmp_path)
    run = cluster.controller(cluster.plan())
    late = RankPlace(1, "h2", "sleeps", culprit=True, late=0.2)
    found = Explanation("straggler", "rank 1 is late", "certain", (late, RankPlace(0, "h1", "waits", late=0.0)))
    slow = Slow((), {"h1": Watched(HostAnswer("h1"), 7.0)}, Lateness(), (), {})

    async def watched(*_: object, **__: object) -> Look:
        return Look((), found, slow)

    monkeypatch.setattr(why_module, "ranks_watched", watched)
    await why_module.why_followed(run)
    await run.attempt.close()
    reader = SeriesReader(run.stored.series_dir)
    reader.refresh()
    rows = [row for row in reader.rows() if Series("late", 1) in row.bins]
    assert [(row.width, round(row.bins[Series("late", 1)].mean, 6)) for row in rows] == [(7.0, 0.2)]
    assert [one.found.kind for one in kept(run.stored)] == ["straggler"]


async def test_a_program_asks_through_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it lives its ranks are asked, without values of secrets; of one that has ended it is what was told."""
    cluster = Cluster(tmp_path)
    use_fake_follower(monkeypatch, cluster.connector)

    async def look(*_: object, **__: object) -> Look:
        return Look((), replace(HANG, headline="rank 1 reads /data/tok-secret/x"))

    monkeypatch.setattr(ask_ranks, "look", look)
    plan = cluster.plan(secrets=("TOKEN",))
    async with Run(cluster.controller(plan, secrets={"TOKEN": "tok-secret"})) as run:
        with pytest.raises(NotFound, match="no answer of the ranks of r1 is kept"):
            await ended_run(cluster, tmp_path).why()
        async for event in run.events():
            if isinstance(event, PhaseBegun) and event.phase == "follow":
                found = await run.why()
                run.stop()
        assert (found.headline, found.culprits) == ("rank 1 reads /data/***/x", (1,))
        assert await run.why() == found
    assert [one.by for one in kept(StoredRun(run.folder))] == ["user"]


def ended_run(cluster: Cluster, folder: Path) -> Run:
    """Another one that has ended, and whose ranks nobody asked."""
    run = Run(Cluster(folder / "other").controller(cluster.plan()))
    run.result = RunEnded(1.0, "stopped", 130)
    return run
