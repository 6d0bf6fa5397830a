"""How late ranks are is kept while a run is followed, though nobody asks why it is slow."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending import ask_ranks
from distui.runs.ending.keep_late import keep_late
from distui.runs.insight.asking.look import Look
from distui.runs.insight.seen.answers import Collective, Group, Process
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation, Kind
from distui.runs.series.late import LateKept, _alone, keep_lateness
from distui.runs.series.level import Content, LevelFile
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Series
from fakehosts.runs import Cluster, until, use_fake_follower

NOW = 1_795_000_000.0
AHEAD = {"h1": 0.0, "h2": 0.5}
"""How far each host's clock is ahead."""


def ranks(newest: float = NOW - 1, *, lag: float = 0.2) -> tuple[RankSeen, ...]:
    """Two ranks that did forty steps of a second, the second one always 0.2 s late; one look knows clocks badly."""
    found = []
    for number, host in enumerate(AHEAD):
        begun = [newest - 39 + step + lag * number + AHEAD[host] for step in range(40)]
        rows = tuple(
            Collective(n + 10, "gloo:all_reduce", "9", "Float", int(at * 1e9), True) for n, at in enumerate(begun)
        )
        process = Process(7, 1, "python", "S", 0.0, groups={"0": Group("0", "default_pg", rows, 49)})
        found.append(RankSeen(number, host, process, at=NOW, doubt=0.9))
    return tuple(found)


def late(folder: Path) -> dict[int | None, float]:
    """What is kept of each rank."""
    reader = SeriesReader(folder)
    reader.refresh()
    return {series.rank: round(row.bins[series].mean, 3) for row in reader.rows() for series in row.bins}


def rows_in(folder: Path) -> list[tuple[float, float, float]]:
    """When each kept row begins and ends, from NOW on, and by how much the second rank was late in it."""
    reader = SeriesReader(folder)
    reader.refresh()
    found = ((row.start - NOW, row.end - NOW, row.bins[Series("late", 1)].mean) for row in reader.rows())
    return [(round(start, 1), round(end, 1), round(mean, 3)) for start, end, mean in found]


class Followed:
    """An attempt that is followed since before its first step, with clocks that are known well."""

    def __init__(self, folder: Path, doubt: float | None = 0.01) -> None:
        self.now = NOW
        self.late = LateKept(NOW - 100)
        self.tracker = SimpleNamespace(clock_of=lambda host: (AHEAD[host], doubt) if doubt is not None else None)
        self.run = SimpleNamespace(stored=SimpleNamespace(series_dir=folder))

    def clock(self) -> float:
        """Now."""
        return self.now

    async def look(self, at: float, seen: tuple[RankSeen, ...], kind: Kind = "moving") -> None:
        """Ranks are looked at, so many seconds from NOW on."""
        self.now = NOW + at
        await keep_late(cast(Attempt, self), Look(seen, Explanation(kind, "x", "certain", ())))


def kept_in(folder: Path) -> Path:
    """Where the only run keeps what it measured."""
    (found,) = folder.rglob("series")
    return found


@pytest.mark.parametrize(
    ("kind", "doubt", "kept"),
    [("moving", 0.01, {0: -0.2, 1: 0.2}), ("hang", 0.01, {}), ("moving", 0.9, {}), ("moving", None, {})],
    ids=["it goes on", "it stands still", "clocks are not known", "nobody has read them"],
)
async def test_each_look_keeps_how_late_ranks_are(
    tmp_path: Path, kind: Kind, doubt: float | None, kept: dict[int, float]
) -> None:
    """By the clocks as pings have told them, and only where those are known."""
    await Followed(tmp_path, doubt).look(0, ranks(), kind)
    assert late(tmp_path) == kept


async def test_no_step_is_kept_twice(tmp_path: Path) -> None:
    """Rows end with the newest step, not with the look, and there is none where no step is new: in an evaluation."""
    followed = Followed(tmp_path)
    await followed.look(5, ranks())
    first = (-39.8, -1.8, 0.2)  # of the last step nobody knows yet whether all were in it before the next
    assert rows_in(tmp_path) == [first]
    for at in (100, 200, 300):
        await followed.look(at, ranks())
    assert rows_in(tmp_path) == [first]
    await followed.look(400, ranks(NOW + 20, lag=0.3))
    assert rows_in(tmp_path) == [first, (-1.7, 19.3, 0.3)]


async def test_there_is_a_row_a_minute_at_most(tmp_path: Path) -> None:
    """However often ranks are looked at."""
    followed = Followed(tmp_path)
    for at in range(0, 130, 10):
        await followed.look(at, ranks(NOW + at - 1))
    assert len(rows_in(tmp_path)) == 3


async def test_steps_from_before_it_was_followed_are_not_kept_again(tmp_path: Path) -> None:
    """Whoever followed the run before has kept them."""
    followed = Followed(tmp_path)
    followed.late = LateKept(NOW)
    await followed.look(0, ranks())
    assert rows_in(tmp_path) == []


async def test_one_look_is_worked_on_at_a_time(tmp_path: Path) -> None:
    """Two that write the file at once would cut off each other's rows."""
    followed = Followed(tmp_path)
    with followed.late.one:
        await followed.look(0, ranks())
    assert rows_in(tmp_path) == []


async def test_a_clock_that_is_set_back_is_no_end_of_it(tmp_path: Path) -> None:
    """By an hour: steps from then on are kept, none of those before is kept twice."""
    followed = Followed(tmp_path)
    await followed.look(5, ranks())
    await followed.look(-3600, ranks(NOW - 3601))
    await followed.look(-3539, ranks(NOW - 3540))
    assert [(start, end) for start, end, _ in rows_in(tmp_path)] == [(-3578.8, -3540.8), (-39.8, -1.8)]


def test_two_that_keep_lateness_at_once_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows the run, and `distui why`: one comes when the other has read what there is."""
    keep_lateness(tmp_path, NOW, 1.0, {0: 0.1})
    others: list[threading.Thread] = []
    opened = LevelFile.open

    def slow(file: LevelFile) -> Content:
        found = opened(file)
        if not others:
            others.append(threading.Thread(target=keep_lateness, args=(tmp_path, NOW + 10, 1.0, {1: 0.3})))
            others[0].start()
            others[0].join(0.05)
        return found

    monkeypatch.setattr(LevelFile, "open", slow)
    keep_lateness(tmp_path, NOW + 5, 1.0, {2: 0.2})
    others[0].join()
    assert late(tmp_path) == {0: 0.1, 1: 0.3, 2: 0.2}


def test_who_comes_late_keeps_nothing_twice(tmp_path: Path) -> None:
    """`distui why`, asked twice, has kept what a follower comes with a moment later."""
    for at, seconds in ((60, 8.0), (63, 8.0), (60, 50.0), (57, 8.0)):
        keep_lateness(tmp_path, NOW + at, seconds, {1: 0.1})
    assert rows_in(tmp_path) == [(52.0, 60.0, 0.1), (60.0, 63.0, 0.1)]


def test_nobody_waits_long_for_another_one(tmp_path: Path) -> None:
    """A row of a minute is not worth it."""
    keep_lateness(tmp_path, NOW, 1.0, {0: 0.1})
    with _alone(tmp_path):
        began = time.monotonic()
        keep_lateness(tmp_path, NOW + 5, 1.0, {0: 0.2})
    assert time.monotonic() - began < 5 and late(tmp_path) == {0: 0.1}


async def test_lateness_is_kept_after_all_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a while: what is told then of an old look would be outdated."""
    done: list[str] = []

    async def seen(_: object) -> Look:
        return Look((), Explanation("moving", "x", "certain", ()))

    async def tell(*_: object) -> None:
        done.append("told")

    async def keep(*_: object) -> None:
        done.append("kept")

    monkeypatch.setattr(ask_ranks, "ranks_seen", seen)
    monkeypatch.setattr(ask_ranks, "_tell", tell)
    monkeypatch.setattr(ask_ranks, "tell_moved", tell)
    monkeypatch.setattr(ask_ranks, "keep_late", keep)
    attempt = SimpleNamespace(
        explanation=Explanation("hang", "x", "certain", ()), ras=(), clock=lambda: NOW,
        state=SimpleNamespace(stalled=None), plan=SimpleNamespace(stall_after=10.0, on_hang="tell", on_fail="stop"),
        tracker=SimpleNamespace(stop_began=None, failed=False, lost_hosts=()),
    )  # fmt: skip
    await ask_ranks.tell_why(cast(Attempt, attempt), ask_ranks.AskTurns(NOW, 10.0, insight=True))
    assert done == ["told", "told", "kept"]


async def test_whoever_follows_a_run_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `distui why`, in the folder of the run."""
    cluster = Cluster(tmp_path)
    use_fake_follower(monkeypatch, cluster.connector)
    asked: list[int] = []

    async def look(*_: object, **__: object) -> Look:
        asked.append(1)
        new = ranks(time.time() + 100)
        one_host = tuple(RankSeen(one.rank, "h9", one.process, at=one.at) for one in new)
        return Look(one_host, Explanation("moving", "x", "certain", ()))

    monkeypatch.setattr(ask_ranks, "look", look)

    async def end() -> None:
        await until(lambda: asked and list(tmp_path.rglob("late")))
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.run(cluster.plan(stall_after=0.05), end())
    assert ended.outcome == "succeeded"
    reader = SeriesReader(kept_in(tmp_path))
    reader.refresh()
    assert Series("late", 1) in reader.series
