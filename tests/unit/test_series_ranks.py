"""What each rank says of its progress, and what the run says of its steps: kept small, read by rank and by step."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.plan.model import RunPlan
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import LogLine, Progressed, RanksStepped, RankStep
from distui.runs.series import steps as curve
from distui.runs.series.keeper import SeriesKeeper
from distui.runs.series.level import RANKS, Level, LevelFile
from distui.runs.series.reader import SeriesReader
from distui.runs.series.steps import OF_EPOCH, StepCurve, by_width, read_steps
from distui.runs.series.values import Bin, Row, Series
from distui.runs.state.progress import ProgressTeller
from distui.tui.metrics.painting import Looks, Page, panel_lines
from distui.tui.metrics.panels import panels_of
from distui.tui.metrics.reading import Readings, RunReader
from distui.tui.metrics.window import Window
from distui.tui.paint.glyphs import UNICODE
from distui.tui.paint.theme import DARK, palette
from distui.tui.runs.same_step import Steps, compared, placed_points, said_points, same_said, steps_of
from fakehosts.runs import Cluster, plan_for

T0 = 1_760_000_000.0
REGEX = r"step (?P<step>\d+) loss (?P<loss>\S+)"


@pytest.fixture
def plan() -> RunPlan:
    """Three ranks on one host."""
    made = plan_for("h1")
    return dataclasses.replace(made, tasks=(dataclasses.replace(made.tasks[0], ranks=(0, 1, 2)),))


def stepped(at: float, step: float, **more: float) -> RanksStepped:
    """Three ranks at a step, whose losses are 1, 2 and 4; the last one is later by half a second."""
    ranks = ((0, 1.0, 0.0), (1, 2.0, 0.0), (2, 4.0, 0.5))
    return RanksStepped(
        at, tuple(RankStep(r, step, at - late, None, {"loss": loss, **more}) for r, loss, late in ranks)
    )


def reader_of(folder: Path) -> RunReader:
    return RunReader(partial(SeriesReader, folder))


# Each rank.


async def test_who_follows_a_run_keeps_what_each_of_its_ranks_says(cluster: Cluster) -> None:
    """Two ranks with losses of their own: two curves, and folded the median between the lowest and the highest."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
        host.files[f"log-{task}"] = f"step 7 loss {1 + task}.5\n".encode()
    controller = cluster.controller(dataclasses.replace(cluster.plan(), progress=REGEX))
    assert (await cluster.drive(controller)).outcome == "succeeded"
    found = reader_of(cluster.store.need("r1").series_dir).read(each=["loss"], ranks=True)
    assert {series.rank: [p.mid for p in points] for series, points in found.members["loss"].items()} == {
        0: [1.5], 1: [2.5],
    }  # fmt: skip
    assert [point[1:] for point in found.points["loss"]] == [(2.0, 1.5, 2.5)]
    leading = reader_of(cluster.store.need("r1").series_dir).read()
    assert [point.mid for point in leading.points["loss"]] == [1.5], "elsewhere the loss is that of the leading rank"


def test_the_page_shows_loss_step_time_and_throughput_folded_and_by_rank(tmp_path: Path, plan: RunPlan) -> None:
    """Steps every two seconds with 64 tokens each."""
    keeper = SeriesKeeper(tmp_path)
    keeper.measure(plan)
    for second in range(0, 20, 2):
        step, values = float(second // 2), {"step": float(second // 2), "loss": 1.0, "tokens_per_step": 64.0}
        keeper.take(Progressed(T0 + second, 0, "h1", values, {}, 2.0))
        keeper.take(stepped(T0 + second + 0.5, step, tokens_per_step=64.0))
    keeper.close()
    names = ("loss", "step_time", "tokens_per_s")
    found = reader_of(tmp_path).read(each=names, ranks=True)
    assert {name: sorted(s.rank for s in found.members[name]) for name in names} == {name: [0, 1, 2] for name in names}
    assert found.points["loss"][-1][1:] == (2.0, 1.0, 4.0)
    assert found.points["step_time"][-1].mid == found.members["step_time"][Series("step_time", 2)][-1].mid == 2.0
    assert found.points["tokens_per_s"][-1].mid == 32.0
    window = Window.of(*(found.span or (0.0, 0.0)))
    look = palette(DARK, {**DARK.to_color_system().generate(), **DARK.variables})

    def title(looks: Looks) -> str:
        page = Page(found, panels_of(found.names), window, looks)
        return panel_lines(look, UNICODE, page, 0, 80, 6)[0].plain

    assert title(Looks()).endswith("1 to 4  2")
    assert title(Looks(each=True, member=2)).endswith("rank 2  4")


def test_where_nothing_is_known_of_the_ranks_the_leading_one_tells(tmp_path: Path, plan: RunPlan) -> None:
    """An older distui followed the run before, and nobody did for a while; the loss is interrupted nowhere."""
    keeper = SeriesKeeper(tmp_path)
    keeper.measure(plan)
    for second in range(400):
        keeper.take(Progressed(T0 + second, 0, "h1", {"step": float(second), "loss": 9.0}, {}, 1.0))
        if 200 <= second < 300 or second >= 350:
            keeper.take(stepped(T0 + second, float(second)))
    keeper.close()
    points = reader_of(tmp_path).read(each=["loss"], ranks=True).points["loss"]
    assert points == sorted(points)
    assert max(b.x - a.x for a, b in pairwise(points)) <= 10
    assert {p.mid for p in points if p.x < T0 + 190 or T0 + 310 < p.x < T0 + 340} == {9.0}
    assert {p.mid for p in points if T0 + 200 < p.x < T0 + 300 or p.x > T0 + 350} == {2.0}
    assert len(points) > 370


def test_a_run_of_one_rank_keeps_it_once(tmp_path: Path) -> None:
    keeper = SeriesKeeper(tmp_path)
    keeper.measure(plan_for("h1"))
    keeper.take(RanksStepped(T0, (RankStep(0, 1.0, T0, None, {"loss": 1.0}),)))
    keeper.close()
    assert not list(tmp_path.iterdir())


def test_what_a_rank_said_long_ago_is_of_then(tmp_path: Path, plan: RunPlan) -> None:
    """A run that is taken up: its last steps were said while nobody followed it."""
    keeper = SeriesKeeper(tmp_path)
    keeper.measure(plan)
    keeper.take(RanksStepped(T0 + 100, tuple(RankStep(r, 5.0, T0 + 100 - 90 * r, None, {"loss": 1.0}) for r in (0, 1))))
    keeper.close()
    found = reader_of(tmp_path).read(each=["loss"], ranks=True)
    assert [points[0].x for points in found.members["loss"].values()] == [T0 + 10.5, T0 + 100.5]


def test_a_step_of_a_rank_as_json_has_its_values() -> None:
    """JSON knows no NaN."""
    (row,) = to_json(RanksStepped(1.0, (RankStep(0, 7.0, 1.0, None, {"loss": math.nan, "lr": 0.5}),)), "r")
    assert row["steps"][0]["values"] == {"loss": "nan", "lr": 0.5}
    (bare,) = to_json(RanksStepped(1.0, (RankStep(0, 7.0, 1.0),)), "r")
    assert "values" not in bare["steps"][0]


def test_a_week_of_64_ranks_stays_small(tmp_path: Path) -> None:
    """Three figures of each rank in every row of every level, all as full as they may be: less than 7 MB."""
    chance = random.Random(1)
    for level in RANKS:
        file = LevelFile(tmp_path, level, last=level is RANKS[-1])
        for number in range(2 * level.rows + level.rows // 8):
            names = (Series(name, rank) for name in ("loss", "step_time", "tokens_per_s") for rank in range(64))
            bins = {series: Bin(1, chance.random(), 0.0, 1.0) for series in names}
            file.append(Row(T0 + number * level.width, level.width, 0.0, 1.0, bins))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 7e6
    assert sum(level.width * level.rows for level in RANKS) > 7 * 86400


# Each step.


def followed(folder: Path, steps: range, *, every: float, loss: Callable[[int], float]) -> Readings:
    """A run as it is followed: it says `every` seconds a step, its lines are read five times a second."""
    keeper, teller = SeriesKeeper(folder), ProgressTeller(REGEX, 0, "h1")
    keeper.measure(plan_for("h1"))
    for events in _read(teller, steps, every, loss):
        if events is not None:
            keeper.take(events)
    keeper.close()
    reader = reader_of(folder)
    return dataclasses.replace(reader.read(), said=reader.by_step())


def _read(
    teller: ProgressTeller, steps: range, every: float, loss: Callable[[int], float]
) -> Iterator[Progressed | None]:
    waiting: list[LogLine] = []
    now = T0
    for number, step in enumerate(steps):
        said = T0 + number * every
        while said > now + 0.2:
            now += 0.2
            yield teller.take(waiting, now)
            waiting = []
        waiting.append(LogLine("stdout", f"step {step} loss {loss(step):.4f}", ""))
    yield teller.take(waiting, now + 0.2)
    yield teller.tell(now + 0.3)


def noisy(step: int) -> float:
    """Of a step always the same."""
    return 3.0 + random.Random(step).random()


def test_runs_with_equal_losses_have_equal_curves_however_fast_they_are(tmp_path: Path) -> None:
    """One says twelve steps a second, the other five in two."""
    one = followed(tmp_path / "a", range(200), every=0.083, loss=noisy)
    other = followed(tmp_path / "b", range(200), every=0.4, loss=noisy)
    steps = steps_of(one, other)
    by_second = [placed_points(side, "loss", steps) for side in (one, other)]
    assert by_second[0] != by_second[1], "by the second they differ"
    mine, theirs = compared(one, other, "loss", steps).curves
    assert mine == theirs
    assert [(p.x, round(p.mid, 4)) for p in mine] == [(float(n), round(noisy(n), 4)) for n in range(200)]


def test_a_run_with_more_steps_is_compared_in_rows_as_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer one is kept coarser; where both have all steps of a row it is the same."""
    monkeypatch.setattr(curve, "STEPS", Level("steps", 1, 64))
    short = followed(tmp_path / "a", range(100), every=0.1, loss=noisy)
    long = followed(tmp_path / "b", range(1000), every=0.1, loss=noisy)
    steps = steps_of(short, long)
    mine, theirs = compared(short, long, "loss", steps).curves
    assert len(mine) > 2
    for one, other in zip(mine[:-1], theirs, strict=False):
        assert one == pytest.approx(other, rel=1e-6)
    said = said_points(short, long, "loss", steps)
    assert said is not None
    first, last, old, new = same_said(*said) or ((0.0, 0.0), (0.0, 0.0), 0.0, 1.0)
    assert old == pytest.approx(new, rel=1e-6) and last[1] > 50 and last[1] - first[1] == 15


@given(st.integers(1, 3000), st.integers(1, 200))
def test_however_many_steps_the_file_stays_small(count: int, apart: int) -> None:
    """And no step is lost in it."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        made = StepCurve(Path(name))
        made._file = LevelFile(Path(name), Level("steps", 1, 32), last=True)
        for number in range(count):
            made.put({"step": float(number * apart), "loss": 1.0})
        made.flush()
        rows = read_steps(Path(name))
        assert sum(row.bins[Series("loss")].samples for row in rows) == count
        assert len(rows) <= 34
        whole = by_width(rows, 1.0)
        assert whole[-1].last_step == (count - 1) * apart
        assert all(a.last_step < b.first_step for a, b in pairwise(whole))


def test_steps_that_begin_anew_in_each_epoch_stay_apart(tmp_path: Path) -> None:
    made = StepCurve(tmp_path)
    for epoch in (1.0, 2.0):
        for step in range(3):
            made.put({"step": float(step), "epoch": epoch, "loss": epoch * 10 + step})
    made.flush()
    rows = read_steps(tmp_path)
    assert [(row.start // OF_EPOCH, row.last_step, row.bins[Series("loss")].mean) for row in rows] == [
        (epoch, step, epoch * 10 + step) for epoch in (1, 2) for step in (0, 1, 2)
    ]


def test_of_thousands_of_epochs_a_row_is_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the last one. Those between two rows are left out, at the same ones in all runs."""
    monkeypatch.setattr(curve, "STEPS", dataclasses.replace(curve.STEPS, rows=64))
    made = StepCurve(tmp_path)
    for epoch in range(1, 5001):
        for step in range(2):
            made.put({"step": float(step), "epoch": float(epoch), "loss": float(epoch)})
    made.flush()
    for rows in (read_steps(tmp_path), by_width(read_steps(tmp_path), OF_EPOCH * 512.0)):
        assert rows[-1].bins[Series("loss")].mean == 5000
        for row in rows:
            assert row.bins[Series("loss")][1:] == row.bins[Series("epoch")][1:] == (curve.epoch_of(row),) * 3
    assert len(read_steps(tmp_path)) <= 66
    assert [(curve.epoch_of(row), row.first_step, row.last_step) for row in rows][:3] == [
        (511, 0, 1), (1023, 0, 1), (1535, 0, 1),
    ]  # fmt: skip


def test_an_epoch_has_as_many_steps_as_an_environment(tmp_path: Path) -> None:
    """More than a hundred million; and some jobs tell how much of the epoch is done."""
    made = StepCurve(tmp_path)
    said = [(1.0, 67_108_864.0), (1.5, 150_000_000.0), (2.0, 200_000_000.0)]
    for epoch, step in said:
        made.put({"step": step, "epoch": epoch, "loss": 1.0})
    made.flush()
    assert [(curve.epoch_of(row), row.last_step) for row in read_steps(tmp_path)] == [
        (1, 67_108_864), (1, 150_000_000), (2, 200_000_000),
    ]  # fmt: skip


def test_numbers_that_are_no_steps_and_no_epochs_are_left_out(tmp_path: Path) -> None:
    made = StepCurve(tmp_path)
    made.put({"step": 1.0, "epoch": 2.0, "loss": 1.0})
    for number in (1e300, float("inf"), float("nan"), -1.0):
        made.put({"step": number, "epoch": 2.0, "loss": 2.0})
        made.put({"step": 2.0, "epoch": number, "loss": 2.0})
    made.flush()
    assert [(curve.epoch_of(row), row.last_step) for row in read_steps(tmp_path)] == [(2, 1)]


def test_the_rank_that_leads_from_now_on_is_believed(tmp_path: Path) -> None:
    """Rank 1 spoke first, but it is rank 0 that tells how far the run is: else two runs would differ by who was first.
    So it is with the next attempt, from where that begins.
    """
    keeper = SeriesKeeper(tmp_path)
    keeper.measure(plan_for("h1"))
    said = [{"step": float(step), "loss": 9.0} for step in range(3)]
    keeper.take(Progressed(T0, 1, "h2", said[-1], passed=tuple(said)))
    said = [{"step": float(step), "loss": float(step)} for step in range(4)]
    keeper.take(Progressed(T0 + 1, 0, "h1", said[-1], passed=tuple(said)))
    keeper.measure(dataclasses.replace(plan_for("h1"), attempt=2))
    said = [{"step": float(step), "loss": 7.0} for step in (2, 3, 4)]
    keeper.take(Progressed(T0 + 9, 0, "h1", said[-1], passed=tuple(said)))
    keeper.take(Progressed(T0 + 10, 0, "h1", said[0], passed=({"step": 1.0, "loss": 3.0},)))  # it goes back by itself
    keeper.close()
    rows = by_width(read_steps(tmp_path), 1.0)
    assert [(row.last_step, row.bins[Series("loss")].mean) for row in rows] == [
        (0, 0.0), (1, 3.0), (2, 7.0), (3, 7.0), (4, 7.0),
    ]  # fmt: skip


def test_a_run_that_is_taken_up_in_an_evaluation_keeps_its_curve(tmp_path: Path, plan: RunPlan) -> None:
    """All ranks count again in it, and which of them leads is not known at once. Another attempt begins again."""

    def follow(plan: RunPlan, *said: tuple[int, range, float]) -> list[tuple[float, float]]:
        keeper = SeriesKeeper(tmp_path)
        keeper.measure(plan)
        for rank, steps, loss in said:
            passed = tuple({"step": float(step), "loss": loss} for step in steps)
            keeper.take(Progressed(T0, rank, "h1", passed[-1], passed=passed))
        keeper.close()
        return [(row.last_step, row.bins[Series("loss")].mean) for row in by_width(read_steps(tmp_path), 1.0)]

    follow(plan, (0, range(500), 1.0))
    found = follow(plan, (1, range(3, 5), 8.0), (0, range(4, 6), 7.0), (0, range(500, 502), 1.0))
    assert found == [(step, {3: 8.0, 4: 7.0, 5: 7.0}.get(step, 1.0)) for step in range(502)]
    second = follow(dataclasses.replace(plan, attempt=2), (0, range(300, 302), 2.0))
    assert second[-3:] == [(299, 1.0), (300, 2.0), (301, 2.0)]
    again = follow(dataclasses.replace(plan, attempt=2), (0, range(3, 5), 8.0), (0, range(302, 303), 2.0))
    assert again == [(step, {3: 8.0, 4: 8.0, 5: 7.0}.get(step, 1.0 if step < 300 else 2.0)) for step in range(303)]
    third = follow(dataclasses.replace(plan, attempt=3), (0, range(4, 6), 3.0))
    assert third[-3:] == [(3, 8.0), (4, 3.0), (5, 3.0)]


def test_a_row_is_of_one_rank_where_both_said_its_steps(tmp_path: Path) -> None:
    """Rank 1 spoke first, and both are at the same step."""
    made = StepCurve(tmp_path)
    made._open()
    made._file.widest = 64.0
    for rank, loss in ((1, 9.0), (0, 1.0)):
        made.put({"step": 5.0, "loss": loss}, rank)
    made.flush()
    assert [row.bins[Series("loss")][1:] for row in read_steps(tmp_path)] == [(1.0,) * 3]


@pytest.mark.parametrize("rows", [64, 1600])
def test_what_was_said_last_of_a_step_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """The workers begin again within an attempt, from a checkpoint; in rows of one step and in wide ones."""
    monkeypatch.setattr(curve, "STEPS", dataclasses.replace(curve.STEPS, rows=rows))
    made = StepCurve(tmp_path)
    for first, last, loss in ((0, 800, 1.0), (500, 700, 9.0), (510, 600, 5.0)):
        for step in range(first, last):
            made.put({"step": float(step), "loss": loss})
            made.put({"step": float(step), "lr": 0.5})
    made.flush()
    for width in (1.0, 64.0):
        found = by_width(read_steps(tmp_path), width)
        width = found[0].width
        for row in found:
            step = row.last_step
            loss = 5.0 if 510 <= step < 600 else 9.0 if 500 <= step < 700 else 1.0
            mean = row.bins[Series("loss")].mean
            assert mean == loss or (mean in (5.0, 9.0) and row.first_step + width > 500 and width > 1)
            assert row.bins[Series("lr")].mean == 0.5


def test_an_attempt_that_begins_within_a_row_is_not_mixed_with_the_one_before(tmp_path: Path) -> None:
    """Rows are 64 steps wide by then."""
    made = StepCurve(tmp_path)
    made._open()
    made._file.widest = 64.0
    for step in range(640):
        made.put({"step": float(step), "loss": 1.0})
    made.begin(2)
    for step in range(600, 700):
        made.put({"step": float(step), "loss": 9.0})
    made.flush()
    found = {row.start: row for row in by_width(read_steps(tmp_path), 64.0)}
    assert [found[start].bins[Series("loss")][1:] for start in (512, 576, 640)] == [(1.0,) * 3, (9.0,) * 3, (9.0,) * 3]
    assert (found[576].first_step, found[576].last_step) == (600, 639)


def test_what_is_no_step_is_not_kept(tmp_path: Path) -> None:
    made = StepCurve(tmp_path)
    for values in (
        {"loss": 1.0},
        {"step": math.nan},
        {"step": -1.0},
        {"step": 1e300},
        {"step": 1.0, "epoch": math.inf},
    ):
        made.put(values)
    made.flush()
    assert read_steps(tmp_path) == []


def test_a_run_taken_up_again_goes_on_behind(tmp_path: Path) -> None:
    """As wide as the rows are by then."""
    for part in (range(20), range(20, 40)):
        made = StepCurve(tmp_path)
        for step in part:
            made.put({"step": float(step), "loss": float(step)})
        made.flush()
    assert [row.bins[Series("loss")].mean for row in read_steps(tmp_path)] == [*range(40)]
    assert said_points(Readings({}, {}, (), 0.0), Readings({}, {}, (), 0.0), "loss", Steps()) is None
