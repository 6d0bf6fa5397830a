"""Two runs side by side: figures at the same step, what they cost, what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.plan.model import RunPlan
from distui.runs.lines.events import Progressed
from distui.runs.report.history import RunRow
from distui.runs.series.values import OpenRow, Series
from distui.tui.metrics.reading import NOTHING, Readings, with_last
from distui.tui.plot.curve import Point, point
from distui.tui.runs import compare
from distui.tui.runs.compare import Side, by_time, changed_keys, facts, figure_of
from distui.tui.runs.same_step import Steps, compared, placed_points, steps_of
from distui.tui.runs.same_step import same_step as same_place

T0 = 1_760_000_000.0


def readings(pace: float, steps: int, **series: Sequence[float]) -> Readings:
    """A value of each series at each step, `pace` seconds apart."""
    points = {name: [point(T0 + i * pace, value) for i, value in enumerate(values)] for name, values in series.items()}
    reported = tuple((T0 + i * pace, float(i * 10)) for i in range(steps))
    return Readings(points, {}, reported, 1.0, tuple(series), (T0, T0 + steps * pace))


def reported(steps: Sequence[float], losses: Sequence[float], epochs: Sequence[float] = ()) -> Readings:
    """A loss at each of these steps, a second apart."""
    times = [T0 + i for i in range(len(steps))]
    points = {"loss": list(map(point, times, losses))}
    of_epochs = tuple(zip(times, epochs, strict=True)) if epochs else ()
    return Readings(points, {}, tuple(zip(times, steps, strict=True)), 1.0, ("loss",), (T0, T0 + len(steps)), of_epochs)


def by_step(found: Readings, steps: Steps) -> list[Point]:
    """The losses as they were at the end of each second, along the steps."""
    return [point for _, point in placed_points(found, "loss", steps)]


def same_step(old: Readings, new: Readings, name: str) -> tuple[float, float, float] | None:
    """The last step that both were at, where steps go on through all epochs."""
    found = same_place(*(placed_points(side, name, Steps()) for side in (old, new)))
    return found and (found[0][1], *found[1:])


OLD = readings(1.0, 5, loss=[5, 4, 3, 2, 1], step_time=[1.0] * 5, gpu_load=[90.0] * 5)
NEW = readings(2.0, 3, loss=[5, 3.5, 2.5], step_time=[0.5] * 3, gpu_load=[99.0] * 3)


def test_the_last_step_that_both_were_at_is_compared() -> None:
    assert figure_of(OLD, NEW) == "loss"
    assert same_step(OLD, NEW, "loss") == (20, 3, 2.5)
    assert same_step(OLD, NOTHING, "loss") is None


def test_curves_are_over_steps_or_over_the_time_since_the_begin() -> None:
    assert [(p.x, p.mid) for p in by_step(NEW, Steps())] == [(0, 5), (10, 3.5), (20, 2.5)]
    assert [(p.x, p.mid) for p in by_time(NEW, "loss", None)] == [(0, 5), (2, 3.5), (4, 2.5)]
    assert by_step(NOTHING, Steps()) == by_time(NOTHING, "loss", T0) == []


def test_a_run_that_was_taken_up_late_is_not_drawn_too_early() -> None:
    """Nothing was measured before: its curve begins that much after the run did."""
    assert [p.x for p in by_time(NEW, "loss", T0 - 40)] == [40, 42, 44]


def test_a_run_that_went_on_behind_where_the_other_ended_has_no_step_in_common() -> None:
    late = Readings({"loss": [point(T0, 1.0)]}, {}, ((T0, 900.0),), 1.0, ("loss",), (T0, T0 + 1))
    assert same_step(OLD, late, "loss") is None


def loss_row(old: Readings, new: Readings, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """What the table says first."""
    first = facts(side(old, monkeypatch), side(new, monkeypatch))[0]
    return first.label, first.old, first.new


PER_EPOCH = [0.0, 1, 2, 3] * 3, [9.0, 8, 7, 6, 5, 4, 3, 2, 1.9, 1.8, 1.7, 1.2]
ONE_EPOCH = [0.0, 1, 2, 3], [9.1, 8.1, 7.1, 6.1]


@pytest.mark.parametrize("told_epochs", [True, False])
def test_steps_that_begin_anew_in_each_epoch_are_compared_with_those_of_the_same(
    told_epochs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step of both is the fourth of the first epoch, though the longer run was at it twice more since."""
    long, short = reported(*PER_EPOCH, [1.0] * 4 + [2] * 4 + [3] * 4), reported(*ONE_EPOCH, [1.0] * 4)
    if not told_epochs:
        long, short = reported(*PER_EPOCH), reported(*ONE_EPOCH)
    assert loss_row(long, short, monkeypatch) == ("loss at epoch 1, step 3", "6", "6.1")
    assert loss_row(short, long, monkeypatch) == ("loss at epoch 1, step 3", "6.1", "6")
    last = facts(side(long, monkeypatch), side(short, monkeypatch))[1]
    assert (last.label, last.old, last.new) == ("last step", "epoch 3, step 3", "epoch 1, step 3")
    curve = by_step(long, steps_of(long, short))
    assert [p.x for p in curve] == [*range(12)]
    assert [p.mid for p in curve] == PER_EPOCH[1]


def test_the_last_value_is_the_one_that_the_run_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of several steps has their mean; `show` and the run view have what the last one said."""
    rows = reported([0.0, 10, 20], [3.0, 2.0, 1.5])
    said = Progressed(T0 + 60, 0, "h1", {"step": 20.0, "loss": 1.25})
    for goes_on in (True, False):
        exact = with_last(rows, said, goes_on=goes_on)
        assert loss_row(exact, rows, monkeypatch) == ("loss at step 20", "1.25", "1.5")
        assert (exact.steps, exact.span) == (rows.steps, rows.span), "it is no newer one"
    newer = replace(said, at=T0 + 5, values={"step": 25.0, "loss": 1.125, "epoch": 1.0})
    assert with_last(rows, newer, goes_on=False) == rows, "when that was said is not known"
    seen = with_last(rows, newer, goes_on=True)
    assert (seen.steps[-1], seen.points["loss"][-1], seen.span) == ((T0 + 5, 25), point(T0 + 5, 1.125), (T0, T0 + 5))
    assert with_last(NOTHING, said, goes_on=True) == NOTHING and with_last(rows, None, goes_on=True) == rows


def test_a_run_that_began_in_a_later_epoch_is_compared_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken up from a checkpoint, and says so."""
    late = reported([0.0, 1, 2], [1.8, 1.7, 1.6], [3.0] * 3)
    long = reported(*PER_EPOCH, [1.0] * 4 + [2] * 4 + [3] * 4)
    assert loss_row(late, long, monkeypatch) == ("loss at epoch 3, step 2", "1.6", "1.7")


def test_epochs_whose_steps_go_on_are_no_part_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (
        reported([1.0, 2, 3, 4], [4.0, 3, 2, 1], [1.0, 1, 2, 2]),
        reported([1.0, 2, 3], [4.0, 3, 2.5], [1.0, 1, 1]),
    )
    assert loss_row(one, other, monkeypatch) == ("loss at step 3", "2", "2.5")


def test_a_run_taken_up_again_from_a_checkpoint_is_in_no_other_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody tells the epoch, steps that fall back but not to the first one are of the same."""
    again = reported([*range(0, 100, 10), *range(60, 200, 10)], [1.0] * 24)
    assert loss_row(again, reported([*range(0, 100, 10)], [2.0] * 10), monkeypatch) == ("loss at step 90", "1", "2")


def test_of_steps_that_came_again_the_last_ones_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a checkpoint at step 4, after a loss that went wrong; an evaluation in between counts again."""
    again = [*range(8), 4, 5, 6, 0, 1, 7, 8]
    losses = [9.0, 8, 7, 6, 50, 60, 70, 80, 5, 4, 3, 20, 30, 2, 1]
    one, other = reported(again, losses), reported(range(9), [9.0, 8, 7, 6, 5, 4, 3, 2, 1])
    assert [(p.x, p.mid) for p in by_step(one, Steps())] == [
        (0, 20), (1, 30), (2, 7), (3, 6), (4, 5), (5, 4), (6, 3), (7, 2), (8, 1),
    ]  # fmt: skip
    coarse = reported([0, 10, 20, 30, 40, 15, 26, 37], [9.0, 8, 7, 60, 50, 6, 5, 4])
    assert [(p.x, p.mid) for p in by_step(coarse, Steps())] == [
        (0, 9), (10, 8), (15, 6), (26, 5), (37, 4), (40, 50),
    ]  # fmt: skip
    assert loss_row(reported(again[:11], losses[:11]), other, monkeypatch) == ("loss at step 7", "80", "2")


def test_a_value_from_elsewhere_is_not_called_that_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody followed the old run from step 100 to 50,000: the last step of which both have a value is 100."""
    holes = reported([*range(0, 101, 10), 50_000], [6.1] * 11 + [1.0])
    dense = reported([*range(0, 20_001, 10)], [2.0] * 2001)
    assert loss_row(holes, dense, monkeypatch) == ("loss at step 100", "6.1", "2")
    later = reported([*range(30_000, 30_100, 10)], [1.0] * 10)
    assert loss_row(later, dense, monkeypatch) == ("loss at the same step", "-", "-")


def said(found: Readings, steps: Iterable[int], width: int, loss: float) -> Readings:
    """The same, and what was said of each of these steps, in rows of so many."""
    rows: dict[float, OpenRow] = {}
    for step in steps:
        row = rows.setdefault(step - step % width, OpenRow(step - step % width, width))
        row.put(Series("loss"), loss)
        row.at_step(step, step)
    return replace(found, said=[row.row() for row in rows.values()])


def test_a_far_later_step_counts_before_an_early_row_that_both_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One was read many lines at once from step 200 on, and has not said all steps of a row since: both are at 1000."""
    whole = said(reported([*range(0, 1001, 10)], [2.0] * 101), range(1001), 8, 3.0)
    parts = [step for step in range(1001) if step < 200 or step % 50 > 46]
    torn = said(reported([*range(0, 1001, 50)], [1.0] * 21), parts, 8, 4.0)
    assert loss_row(whole, torn, monkeypatch) == ("loss at step 1,000", "2", "1")
    assert loss_row(torn, whole, monkeypatch) == ("loss at step 1,000", "1", "2")


def test_the_plot_has_the_values_that_are_compared() -> None:
    """What was said by the step and what was seen by the second differ: figure and curves are of one of them."""
    whole = said(reported([*range(0, 1001, 10)], [2.0] * 101), range(1001), 8, 3.0)
    late = said(reported([*range(0, 1001, 10)], [2.0] * 101), range(600, 1001), 8, 3.0)
    early = said(reported([*range(0, 501, 10)], [1.0] * 51), range(501), 8, 4.0)
    torn = said(reported([*range(0, 1001, 50)], [1.0] * 21), [*range(200), *range(247, 1001, 50)], 8, 4.0)
    same = said(reported([*range(0, 1001, 10)], [1.0] * 101), range(1001), 8, 4.0)
    for one, other, values in ((whole, torn, (2.0, 1.0)), (late, early, (2.0, 1.0)), (whole, same, (3.0, 4.0))):
        found = compared(one, other, "loss", Steps())
        assert found.last is not None and found.last[2:] == values
        assert tuple({at.mid for at in curve} for curve in found.curves) == tuple({value} for value in values)


def test_the_value_of_a_row_is_called_that_of_all_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is their mean; the last row may be one that only one of them has whole."""
    one = said(reported([*range(0, 1001, 10)], [2.0] * 101), range(1001), 8, 3.0)
    other = said(reported([*range(0, 1004, 10)], [1.0] * 101), range(1004), 8, 4.0)
    assert loss_row(one, other, monkeypatch) == ("loss at step 992..999", "3", "4")
    fine = said(reported([*range(0, 101, 10)], [2.0] * 11), range(0, 101, 10), 1, 3.0)
    assert loss_row(fine, fine, monkeypatch) == ("loss at step 100", "3", "3")
    assert Steps(1000.0).words((2.0, 15.0), (2.0, 8.0)) == "epoch 2, step 8..15"


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_whichever_comes_first_the_same_step_is_compared(one: list[float], other: list[float]) -> None:
    a, b = readings(1.0, len(one), loss=one), readings(3.0, len(other), loss=other)
    there, back = same_step(a, b, "loss"), same_step(b, a, "loss")
    assert there is not None and back is not None
    assert there == (back[0], back[2], back[1])
    assert there[0] == 10 * (min(len(one), len(other)) - 1)


def side(found: Readings, monkeypatch: pytest.MonkeyPatch, **row: Any) -> Side:
    monkeypatch.setattr(compare, "placed", lambda plan: {rank: (None, (rank,)) for rank in range(8)})
    values: dict[str, Any] = {"run": "a", "job": "j", "state": "succeeded", "hosts": (), "ranks": 8} | row
    plan: Any = object()
    assert not isinstance(plan, RunPlan)
    return Side(RunRow(**values), plan, found, T0 + 7200)


def test_the_table_says_what_each_did_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on has taken what it took so far."""
    old = side(OLD, monkeypatch, took=1800.0)
    new = side(NEW, monkeypatch, state="running", live=True, started=T0)
    assert [(f.label, f.old, f.new, f.change) for f in facts(old, new)] == [
        ("loss at step 20", "3", "2.5", "-16.7%"), ("last step", "40", "20", "-50.0%"),
        ("speed", "1 it/s", "2 it/s", "+100.0%"), ("GPU load", "90%", "99%", "+10.0%"),
        ("GPU-hours", "4.0", "16.0", "+300.0%"), ("took", "30m", "2h", "+300.0%"),
        ("state", "succeeded", "RUNNING", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (-200.0, -100.0, "+50.0%"), (-1.0, -2.0, "-100.0%"), (0.5, -0.5, ""), (1.0, 20.0, "20 times"),
        (5.0, 0.0, "-100.0%"), (-5.0, 0.0, "+100.0%"),
    ],
)  # fmt: skip
def test_more_is_more_below_zero_too(old: float, new: float, change: str) -> None:
    """Rewards and likelihoods are negative; across zero there is no part of anything."""
    assert compare._numbers("reward", (old, new), str).change == change


def test_what_neither_measured_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts(side(NOTHING, monkeypatch), side(NOTHING, monkeypatch))
    assert [fact.label for fact in found] == ["state"]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"env": {"LR": "1"}, "x": [1]}, {"env": {"LR": "2"}, "x": [1]}, ['env.LR: "1" -> "2"']),
        ({}, {"image": "a"}, ['image: not set -> "a"']), ({"a": 1}, None, ["a: 1 -> not set"]),
        ({"a": 1}, {"a": 1}, []),
    ],
)  # fmt: skip
def test_keys_of_the_jobs_that_differ(old: Mapping[str, Any], new: Mapping[str, Any] | None, lines: list[str]) -> None:
    assert changed_keys(old, new) == lines
