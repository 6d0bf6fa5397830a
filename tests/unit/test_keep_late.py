"""How late ranks are is kept while a run is followed, though nobody asks why it is slow."""

from __future__ import annotations

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
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Series
from fakehosts.runs import Cluster, until, use_fake_follower

NOW = 1_795_000_000.0
AHEAD = {"h1": 0.0, "h2": 0.5}
"""How far each host's clock is ahead."""


def ranks() -> tuple[RankSeen, ...]:
    """Two ranks that did forty steps of a second, the second one always 0.2 s late; one look knows clocks badly."""
    found = []
    for number, host in enumerate(AHEAD):
        begun = [NOW - 40 + step + 0.2 * number + AHEAD[host] for step in range(40)]
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
    tracker = SimpleNamespace(clock_of=lambda host: (AHEAD[host], doubt) if doubt is not None else None)
    run = SimpleNamespace(stored=SimpleNamespace(series_dir=tmp_path))
    attempt = cast(Attempt, SimpleNamespace(tracker=tracker, run=run, clock=lambda: NOW))
    await keep_late(attempt, Look(ranks(), Explanation(kind, "x", "certain", ())))
    assert late(tmp_path) == kept


async def test_whoever_follows_a_run_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `distui why`, in the folder of the run."""
    cluster = Cluster(tmp_path)
    use_fake_follower(monkeypatch, cluster.connector)
    asked: list[int] = []

    async def look(*_: object, **__: object) -> Look:
        asked.append(1)
        one_host = tuple(RankSeen(one.rank, "h9", one.process, at=one.at) for one in ranks())
        return Look(one_host, Explanation("moving", "x", "certain", ()))

    monkeypatch.setattr(ask_ranks, "look", look)

    async def end() -> None:
        await until(lambda: asked)
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.run(cluster.plan(stall_after=0.05), end())
    assert ended.outcome == "succeeded"
    reader = SeriesReader(kept_in(tmp_path))
    reader.refresh()
    assert Series("late", 1) in reader.series
