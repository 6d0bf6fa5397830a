"""Curves over an axis: scales, ticks, bins, smoothing, and the rows that are painted from them."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.tui.paint import theme
from distui.tui.paint.glyphs import ASCII, UNICODE
from distui.tui.plot.curve import Point, binned, joined, nearest, point, smoothed, usual_gap
from distui.tui.plot.dots import Dots
from distui.tui.plot.plot import AXIS, Curve, Plot, axis_line, column_of, plot_lines
from distui.tui.plot.scale import (
    Scale,
    clock_words,
    length_words,
    log_words,
    scale_of,
    tick_words,
    ticks,
    time_ticks,
)

LOOK = theme.palette(theme.DARK, {**theme.DARK.to_color_system().generate(), **theme.DARK.variables})

numbers = st.floats(-1e12, 1e12).map(lambda v: 0.0 if abs(v) < 1e-6 else v)
odd = st.floats(allow_nan=True, allow_infinity=True)


def plain(plot: Plot, width: int = 40, height: int = 5, *, ascii: bool = False) -> list[str]:
    return [line.plain for line in plot_lines(LOOK, ASCII if ascii else UNICODE, plot, width, height)]


def curve(*values: float, band: bool = False) -> Curve:
    return Curve([point(float(x), value) for x, value in enumerate(values)], LOOK.text, band=band)


# Scales and ticks.


@pytest.mark.parametrize(
    ("values", "most", "more", "ends"),
    [
        ([2.05, 2.15], 4, {}, (2.05, 2.15)),
        ([0.3, 10.4], 6, {}, (0, 12)),
        ([1.99, 10.4], 6, {"zero": True}, (0, 12)),
        ([93.0], 4, {"zero": True}, (0, 100)),
        ([0.0, 0.0], 4, {"zero": True}, (0, 1)),
        ([], 4, {}, (0, 1)),
        ([math.nan, math.inf], 4, {}, (0, 1)),
        ([0.002, 7.0], 4, {"log": True}, (0.002, 10)),
        ([2.0, 3.1], 4, {"log": True}, (2, 3.5)),
        ([-1.0, 0.0], 4, {"log": True}, (-1, 0)),
    ],
)  # fmt: skip
def test_the_ends_of_an_axis_are_round(
    values: list[float], most: int, more: dict[str, bool], ends: tuple[float, float]
) -> None:
    """And no further away than a step; a logarithmic axis without anything above zero is a linear one."""
    scale = scale_of(values, most, **more)
    assert (scale.low, scale.high) == pytest.approx(ends)


@given(st.lists(numbers, min_size=1), st.integers(1, 40), st.booleans())
def test_every_value_has_a_place_on_its_axis(values: list[float], most: int, zero: bool) -> None:
    scale = scale_of(values, most, zero=zero)
    assert scale.low < scale.high
    for value in [*values, *([0.0] if zero else [])]:
        part = scale.part(value)
        assert part is not None and -1e-6 <= part <= 1 + 1e-6
        assert scale.at(part) == pytest.approx(value, rel=1e-6, abs=1e-6 * (scale.high - scale.low))


@given(st.lists(st.floats(1e-30, 1e30), min_size=1), st.integers(1, 40))
def test_every_value_has_a_place_on_a_logarithmic_axis(values: list[float], most: int) -> None:
    scale = scale_of(values, most, log=True)
    assert 0 < scale.low < scale.high
    for value in values:
        part = scale.part(value)
        assert part is not None and (part >= -1e-6 or value < scale.high / 1e59) and part <= 1 + 1e-6
    assert scale.part(0.0) is None and scale.part(-1.0) is None and scale.part(math.nan) is None


@given(st.lists(numbers, min_size=2), st.integers(1, 12), st.booleans())
def test_ticks_are_few_in_order_and_on_the_axis(values: list[float], most: int, log: bool) -> None:
    scale = scale_of(values, most, log=log)
    found = ticks(scale, most)
    assert len(found) <= most + 1
    assert all(a < b for a, b in pairwise(found))
    room = 1e-6 * (scale.high - scale.low)
    assert all(scale.low - room <= value <= scale.high + room for value in found)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0, 50, 100], ["0", "50", "100"]),
        ([2.05, 2.1, 2.15], ["2.05", "2.10", "2.15"]),
        ([0, 25_000], ["0", "25k"]),
        ([0, 1500], ["0", "1500"]),
        ([0, 2.5e6], ["0", "2.5M"]),
        ([0, 0.002], ["0", "0.002"]),
        ([0, 1e-9], ["0", "1e-09"]),
        ([0, 0], ["0", "0"]),
    ],
)  # fmt: skip
def test_ticks_are_written_in_the_digits_that_matter(values: list[float], words: list[str]) -> None:
    assert tick_words(values) == words


def test_ticks_of_a_logarithmic_axis_are_written_each_for_itself() -> None:
    assert log_words([0.001, 1, 20_000]) == ["0.001", "1", "20k"]


@given(numbers, st.floats(1e-3, 1e9), st.integers(1, 8))
def test_ticks_that_differ_read_differently(low: float, span: float, most: int) -> None:
    scale = scale_of([low, low + span], most)
    if scale.high - scale.low > 1e-3 * max(abs(scale.high), abs(scale.low)):
        words = tick_words(ticks(scale, most))
        assert len(set(words)) == len(words)


@given(st.floats(0, 4e9), st.floats(1, 1e8), st.integers(2, 12), st.booleans())
def test_moments_are_few_round_and_in_the_window(low: float, span: float, most: int, clock: bool) -> None:
    found = time_ticks(low, low + span, most, clock=clock)
    assert len(found) <= most + 1
    assert all(low - 1e-3 <= at <= low + span + 1e-3 for at in found)
    assert len({round(b - a) for a, b in pairwise(found)}) <= 1
    assert len(clock_words(found)) == len(length_words(found)) == len(found)


@pytest.mark.parametrize(
    ("low", "days"),
    [
        (1_792_792_800, ["24 Oct", "25 Oct", "26 Oct", "27 Oct"]),
        (1_774_566_000, ["27 Mar", "28 Mar", "29 Mar", "30 Mar"]),
    ],
)
def test_days_begin_at_midnight_before_and_after_clocks_are_set(
    monkeypatch: pytest.MonkeyPatch, low: int, days: list[str]
) -> None:
    """Summer time ends or begins within them: the days after it began at 23:00 or 01:00."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert clock_words(time_ticks(low, low + 3.3 * 86400, 4, clock=True)) == days
        hours = [word for word in clock_words(time_ticks(low, low + 3.3 * 86400, 14, clock=True)) if ":" in word]
        assert set(hours) == {"06:00", "12:00", "18:00"}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_moments_are_reported_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-02")
    time.tzset()
    try:
        assert clock_words(time_ticks(1_760_000_000, 1_760_007_200, 4, clock=True)) == [
            "11:00",
            "11:30",
            "12:00",
            "12:30",
        ]
        assert clock_words([1_760_000_000.0, 1_760_000_015.0]) == ["10:53:20", "10:53:35"]
        assert clock_words([1_760_047_200.0]) == ["10 Oct"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lengths_of_time_are_reported_from_zero() -> None:
    assert length_words([-300, 0, 5400]) == ["-5m", "0", "1h 30m"]


# Bins, gaps, smoothing.


def test_points_of_one_column_are_one() -> None:
    """Its mean, lowest and highest; what is no number, and what is outside, has no part in it."""
    points = [Point(0, 1, 0.5, 2), Point(1, 3, 3, 9), Point(1.5, math.nan, 0, 0), Point(6, 4, 4, 4), Point(99, 7, 7, 7)]
    assert binned(points, 0, 8, 4) == [Point(0, 2, 0.5, 9), None, None, Point(6, 4, 4, 4)]
    assert binned(points, 0, 0, 4) == [None] * 4 and binned(points, 0, 8, 0) == []


@given(st.lists(st.tuples(st.floats(0, 100), odd)), st.integers(1, 50))
def test_bins_lie_between_what_was_told(reported: list[tuple[float, float]], cells: int) -> None:
    values = [v for _, v in reported if math.isfinite(v) and abs(v) < 1e300]
    points = [point(x, v) for x, v in reported if not math.isfinite(v) or abs(v) < 1e300]
    found = [p for p in binned(points, 0, 100, cells) if p is not None]
    assert bool(found) == bool(values)
    assert all(p.low <= p.mid <= p.high for p in found)
    if values:
        assert min(p.low for p in found) == min(values) and max(p.high for p in found) == max(values)


def test_columns_between_near_points_are_filled_and_gaps_stay() -> None:
    columns = [point(0, 0), None, point(2, 2), None, None, point(5, 5)]
    assert joined(columns, 2) == [point(0, 0), point(1, 1), point(2, 2), None, None, point(5, 5)]
    assert all(joined(columns, 3))
    assert usual_gap([point(x, 0) for x in (0, 1, 2, 3, 50)], 2) == 3
    assert usual_gap([], 2) == 2


@given(st.lists(st.one_of(st.none(), numbers)), st.integers(0, 10))
def test_smoothing_stays_within_what_was_measured(values: list[float | None], radius: int) -> None:
    """It is as long, has the same gaps, and of equal values makes the same ones."""
    columns = [None if v is None else point(i, v) for i, v in enumerate(values)]
    found = smoothed(columns, radius)
    assert [p is None for p in found] == [v is None for v in values]
    known = [v for v in values if v is not None]
    room = 1e-6 * max(map(abs, known), default=0)
    assert all(min(known) - room <= p.mid <= max(known) + room for p in found if p is not None)
    assert smoothed(columns, 0) == columns
    equal = [point(i, 3.0) for i in range(20)]
    assert smoothed(equal, radius) == equal


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(-10, 110))
def test_the_nearest_point_is_the_nearest(xs: list[float], x: float) -> None:
    points = [point(at, 0) for at in sorted(xs)]
    found = nearest(points, x)
    assert found is not None and abs(found.x - x) == min(abs(at - x) for at in xs)
    assert nearest([], x) is None


# Dots.


def test_dots_of_a_cell_are_one_sign() -> None:
    dots = Dots(2, 1)
    for x, y in ((0, 0), (0, 3), (1, 0), (3, 1)):
        dots.put(x, y, 1)
    assert [dots.cell(column, 0) for column in (0, 1)] == [("⣁", 1), ("⠠", 1)]
    assert Dots(1, 1).cell(0, 0) is None


def test_of_two_curves_in_a_cell_the_higher_layer_is_shown() -> None:
    """Whichever came first."""
    for order in ((1, 2), (2, 1)):
        dots = Dots(1, 1)
        for layer in order:
            dots.put(0, layer, layer)
        assert dots.cell(0, 0) == ("⠂", 2)


def test_what_is_outside_is_left_out() -> None:
    dots = Dots(1, 1)
    for x, y in ((-1, 0), (2, 0), (0, -1), (0, 4)):
        dots.put(x, y, 1)
    dots.upright(0, -5, -2, 1)
    assert dots.cell(0, 0) is None
    dots.upright(0, -5, 50, 1)
    assert dots.cell(0, 0) == ("⡇", 1)


def test_ascii_signs_lie_where_the_dots_are() -> None:
    signs = []
    for y in range(4):
        dots = Dots(1, 1, ascii=True)
        dots.put(0, y, 1)
        signs.append(dots.cell(0, 0))
    assert [sign.sign if sign else "" for sign in signs] == ["_", ".", "-", "'"]


# Plots.


def test_a_line_that_rises_goes_from_the_lower_left_to_the_upper_right() -> None:
    rows = plain(Plot([curve(0, 1, 2, 3)], 0, 3), AXIS + 8, 4)
    assert [row[: AXIS - 1].strip() for row in rows] == ["3", "", "", "0"]
    assert [len(row.rstrip()) - AXIS for row in rows] == [8, 6, 4, 2]


def test_values_lie_where_the_labels_say() -> None:
    """A value of half the axis is in the middle, zero on the lowest row of dots, the top on the highest."""
    for value, row, sign in ((10.0, 0, "⠉"), (5.0, 2, "⠉"), (0.0, 4, "⣀")):
        rows = plain(Plot([curve(value, value)], 0, 1, zero=True, top=10.0), AXIS + 4, 5)
        assert [label for line in rows if (label := line[: AXIS - 1].strip())] == ["10", "5", "0"]
        drawn = [number for number, line in enumerate(rows) if line[AXIS:].strip()]
        assert drawn == [row]
        assert row == 2 or rows[row][AXIS:] == sign * 4


def test_an_area_stands_on_zero_and_is_as_high_as_its_values() -> None:
    rows = plain(Plot([curve(8.0, 4.0, 0.0)], 0, 2, area=True, zero=True), AXIS + 3, 2)
    assert rows == ["     8 █  ", "     0 ██▁"]


def test_an_axis_that_does_not_begin_at_zero_says_so() -> None:
    rows = plain(Plot([curve(2.05, 2.15)], 0, 1), AXIS + 4, 3)
    assert rows[0].startswith("  2.16") and rows[2].startswith("  2.04")


def test_a_gap_stays_empty() -> None:
    points = [point(x, 1) for x in (0, 1, 2, 8, 9, 10)]
    row = plain(Plot([Curve(points, LOOK.text, gap=2)], 0, 10), AXIS + 10, 1)[0][AXIS:]
    assert row[4:7] == "   " and row[0] != " " and row[9] != " "


def test_on_a_logarithmic_axis_equal_factors_are_equally_far() -> None:
    rows = plain(Plot([curve(1, 10, 100)], 0, 2, log=True), AXIS + 6, 3)
    assert [row[: AXIS - 1].strip() for row in rows] == ["100", "10", "1"]
    assert plain(Plot([curve(0, -1)], 0, 1, log=True), AXIS + 6, 3)


def test_the_cursor_is_a_line_through_the_plot() -> None:
    rows = plain(Plot([curve(0, 0, 0)], 0, 2, zero=True, cursor=1.0), AXIS + 10, 3)
    assert [row[AXIS + column_of(1.0, 0, 2, 10)] for row in rows][:2] == ["│", "│"]
    assert not any("│" in row for row in plain(Plot([curve(0, 0)], 0, 1, cursor=5.0)))


def test_smoothing_shows_what_was_measured_behind_it() -> None:
    values = [0.0, 10.0] * 20
    raw = plain(Plot([curve(*values)], 0, 39), 30, 6)
    soft = plot_lines(LOOK, UNICODE, Plot([curve(*values)], 0, 39, smooth=10), 30, 6)
    inks = {style for line in soft for text, style in line.pieces if text.strip() and not text.strip().isdigit()}
    assert inks >= {LOOK.text, LOOK.data[1]}
    assert [line.plain for line in soft] != raw


wild = st.lists(st.tuples(st.floats(-50, 150), odd), max_size=60)


@given(
    wild, wild, st.integers(0, 80), st.integers(0, 12), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 9)
)
def test_whatever_is_drawn_has_its_size(
    one: list[tuple[float, float]], other: list[tuple[float, float]], width: int, height: int,
    log: bool, area: bool, ascii: bool, smooth: int,
) -> None:  # fmt: skip
    """All rows as wide as asked, and ASCII where that is asked for."""
    curves = [
        Curve([point(x, v) for x, v in sorted(reported)], LOOK.text, band=i == 0)
        for i, reported in enumerate((one, other))
    ]
    plot = Plot(curves, 0, 100, log=log, area=area, smooth=smooth, cursor=40.0, zero=not log)
    rows = plain(plot, width, height, ascii=ascii)
    assert len(rows) in (0, height) and all(len(row) == width for row in rows)
    assert not ascii or all(row.isascii() for row in rows)


@given(st.lists(st.tuples(st.floats(0, 10), st.text("0123456789:", min_size=1, max_size=12))), st.integers(10, 80))
def test_words_below_the_axis_do_not_touch(placed: list[tuple[float, str]], width: int) -> None:
    """And the cursor's own word is always there where it fits."""
    line = axis_line(LOOK, 0, 10, [x for x, _ in placed], [text for _, text in placed], width, here=(5.0, "now"))
    assert line.width <= width
    assert "now" in line.plain.split()
    assert set(line.plain.split()) <= {"now", *(text for _, text in placed)}


def test_the_middle_of_a_scale() -> None:
    assert (Scale(1e21, 1e81, log=True).part(1e-303) or 0) < -1
    assert Scale(1, 100, log=True).at(0.5) == pytest.approx(10)
    assert Scale(0, 10).at(0.25) == 2.5
