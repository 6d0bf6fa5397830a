"""The Metrics page without a terminal: the window over time, which plots there are, what is read, how far a run is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.events import Progressed
from distui.runs.series.late import keep_lateness
from distui.runs.series.level import Level
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Series
from distui.runs.series.writer import SeriesWriter
from distui.runs.state.standstill import Standstill
from distui.tui.metrics.painting import LEAST_ROWS, Looks, Page, page_lines, panel_lines, shares, state_line
from distui.tui.metrics.panels import Panel, panels_of, unit_at
from distui.tui.metrics.progress import progress_line, seconds_left
from distui.tui.metrics.reading import NOTHING, RunReader
from distui.tui.metrics.window import LEAST_S, Window
from distui.tui.paint import theme
from distui.tui.paint.glyphs import ASCII, UNICODE

LOOK = theme.palette(theme.DARK, {**theme.DARK.to_color_system().generate(), **theme.DARK.variables})
T0 = 1_760_000_000.0

# The window.

step = st.one_of(
    st.tuples(st.just("zoomed"), st.sampled_from([0.5, 2.0])),
    st.tuples(st.just("panned"), st.sampled_from([-0.5, 0.5])),
    st.tuples(st.just("moved"), st.floats(-1e5, 1e5)),
    st.tuples(st.sampled_from(["first", "last", "whole"])),
)


@given(st.floats(1, 1e6), st.lists(step, max_size=30), st.floats(0, 1e5))
def test_the_window_stays_where_there_is_something(length: float, steps: list[tuple], more: float) -> None:  # type: ignore[type-arg]
    """Whatever keys are pressed, and when there is more; the cursor is in it."""
    window = Window.of(T0, T0 + length)
    for name, *given_ in steps:
        window = getattr(window, name)(*given_)
        check(window)
    grown = window.grown(T0, T0 + length + more)
    check(grown)
    assert grown.is_whole or not window.is_whole
    assert grown.cursor == pytest.approx(window.cursor, abs=1e-3)


def check(window: Window) -> None:
    room = 1e-6 * (window.end - window.begin) + 1e-6
    assert window.begin - room <= window.low < window.high <= window.end + room
    assert window.span >= min(LEAST_S, window.end - window.begin) - room
    assert window.cursor is None or window.low - room <= window.cursor <= window.high + room


def test_what_shows_the_end_goes_with_it() -> None:
    """Not while there is a cursor."""
    window = Window.of(T0, T0 + 1000).zoomed(0.1)
    assert (window.low, window.high) == (T0 + 900, T0 + 1000)
    assert window.grown(T0, T0 + 1100).high == T0 + 1100
    held = window.moved(-10)
    assert held.grown(T0, T0 + 1100).high == T0 + 1000
    assert held.last().grown(T0, T0 + 1100).cursor is None


def test_zoom_keeps_the_cursor_where_it_is() -> None:
    window = Window.of(T0, T0 + 1000).moved(-750)
    near = window.zoomed(0.5)
    assert (near.low, near.high, near.cursor) == (T0 + 125, T0 + 625, T0 + 250)
    assert near.zoomed(2).low == T0


def test_the_window_goes_along_with_the_cursor() -> None:
    window = Window.of(T0, T0 + 1000).zoomed(0.1).moved(-150)
    assert (window.low, window.cursor) == (T0 + 850, T0 + 850)
    assert window.moved(120).high == T0 + 970
    assert window.moved(1e6).cursor is None
    assert window.panned(-0.5).cursor == T0 + 800


# The plots.


def test_plots_are_the_figure_speed_gpus_network_and_the_rest() -> None:
    names = [
        "net_tx",
        "gnorm",
        "late",
        "cpu_load",
        "loss",
        "gpu_load",
        "net_rx",
        "tokens_per_s",
        "step_time",
        "gpu_power",
    ]
    assert [(panel.title, panel.names) for panel in panels_of(names)] == [
        ("Loss", ("loss",)), ("Step time", ("step_time",)), ("Tokens", ("tokens_per_s",)), ("GPU load", ("gpu_load",)),
        ("GPU power", ("gpu_power",)), ("Network", ("net_rx", "net_tx")), ("Late", ("late",)),
        ("CPU load", ("cpu_load",)), ("gnorm", ("gnorm",)),
    ]  # fmt: skip
    assert panels_of([]) == ()


@given(st.sets(st.sampled_from(["loss", "acc", "step_time", "gpu_load", "net_rx", "net_tx", "late", "x"])))
def test_each_series_is_in_one_plot(names: set[str]) -> None:
    found = [name for panel in panels_of(names) for name in panel.names]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("name", "top", "unit"),
    [
        ("gpu_memory", 76_000, (1024, "GiB")), ("gpu_memory", 300, (1, "MiB")), ("net_rx", 21e9, (1e9, "GB/s")),
        ("net_rx", 9e6, (1e6, "MB/s")), ("net_rx", 3, (1, "B/s")), ("step_time", 0.2, (1e-3, "ms")),
        ("step_time", 2.3, (1, "s")), ("gpu_load", 97, (1, "%")), ("loss", 2.1, (1, "")),
    ],
)  # fmt: skip
def test_an_axis_has_the_unit_that_fits(name: str, top: float, unit: tuple[float, str]) -> None:
    assert unit_at(name, top) == unit


@given(st.integers(2, 80), st.integers(1, 20), st.integers(0, 19), st.booleans())
def test_plots_share_the_rows(height: int, panels: int, focus: int, alone: bool) -> None:
    """All of them, the plot with the keys is shown, and none is lower than may be where there is room for one."""
    focus %= panels
    found = shares(height, panels, Looks(focus=focus, alone=alone))
    assert sum(found.values()) == height and focus in found
    assert not alone or list(found) == [focus]
    assert height < LEAST_ROWS or min(found.values()) >= LEAST_ROWS
    assert list(found) == sorted(found)


# What is read.

SMALL = (Level("a", 1, 16), Level("b", 4, 16), Level("c", 16, 16))
RANKS, HOSTS = [Series("gpu_load", rank) for rank in range(5)], [Series("net_rx", host=h) for h in "ab"]


def measured(folder: Path, seconds: int, *, levels: tuple[Level, ...] | None = None) -> None:
    writer = SeriesWriter(folder, *([levels] if levels else []))
    for second in range(seconds):
        load = [(series, 50.0 + second + 10 * number) for number, series in enumerate(RANKS)]
        net = [(series, 1e6 * (number + 1)) for number, series in enumerate(HOSTS)]
        writer.put(T0 + second, [*load, *net, (Series("loss"), 8 / (1 + second))], second * 2)
    writer.close()


@given(st.integers(1, 200), st.sampled_from([0.0, 1.0, 4.0, 16.0, 100.0]))
def test_what_is_folded_is_what_the_rows_have(seconds: int, finest: float) -> None:
    """Median of means, lowest, highest, of every name in every row."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        measured(Path(name), seconds, levels=SMALL)
        reader = SeriesReader(Path(name), SMALL)
        reader.refresh()
        rows, folded = reader.rows(finest=finest), reader.folded(finest=finest)
        assert [(r.start, r.width, r.last_step) for r in rows] == [(f.start, f.width, f.last_step) for f in folded]
        for row, found in zip(rows, folded, strict=True):
            assert set(found.values) == {series.name for series in row.bins}
            for name, spread in found.values.items():
                bins = [one for series, one in row.bins.items() if series.name == name]
                assert spread.mid == pytest.approx(median(one.mean for one in bins))
                assert (spread.low, spread.high) == (min(b.low for b in bins), max(b.high for b in bins))


def test_a_rank_without_a_number_has_no_part_in_the_fold(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path)
    writer.put(T0, [(RANKS[0], 10.0), (RANKS[1], float("nan")), (RANKS[2], 30.0), (Series("loss"), float("nan"))], 1)
    writer.close()
    reader = SeriesReader(tmp_path)
    reader.refresh()
    (found,) = reader.folded()
    assert found.values["gpu_load"] == (20.0, 10.0, 30.0)
    assert all(value != value for value in found.values["loss"])


def test_a_run_is_read_as_points_steps_and_single_ranks(tmp_path: Path) -> None:
    measured(tmp_path, 30)
    keep_lateness(tmp_path, T0 + 20, 10.0, {0: 0.2, 1: 0.1})
    found = RunReader(partial(SeriesReader, tmp_path)).read(each=["gpu_load"])
    assert found.span == (T0, T0 + 30)
    assert found.names == ("gpu_load", "late", "loss", "net_rx")
    assert [p.mid for p in found.points["gpu_load"][:2]] == [70.0, 71.0]
    assert found.points["gpu_load"][0][2:] == (50.0, 90.0)
    assert [p.mid for p in found.members["gpu_load"][RANKS[4]][:2]] == [90.0, 91.0]
    assert list(found.members) == ["gpu_load"]
    assert found.points["late"][0].mid == pytest.approx(0.15)
    assert (found.step_at(T0 + 3.5), found.step_at(T0 - 1)) == (6, None)
    assert len(found.between("loss", T0 + 10, T0 + 20)) == 10


def test_a_run_that_measured_nothing_is_read_as_nothing(tmp_path: Path) -> None:
    reader = RunReader(partial(SeriesReader, tmp_path / "none"))
    assert reader.span() is None
    assert reader.read() == NOTHING


# As rows.


def a_page(folder: Path, looks: Looks | None = None, *, each: bool = False, back: float = 0.0) -> Page:
    measured(folder, 60)
    found = RunReader(partial(SeriesReader, folder)).read(each=["gpu_load", "net_rx"] if each else [])
    window = Window.of(*(found.span or (0, 0)))
    return Page(found, panels_of(found.names), window.moved(-back) if back else window, looks or Looks())


def title_of(page: Page, name: str, width: int = 80) -> str:
    number = next(i for i, panel in enumerate(page.panels) if panel.name == name)
    return panel_lines(LOOK, UNICODE, page, number, width, 5)[0].plain


def test_a_title_has_the_newest_values_or_those_at_the_cursor(tmp_path: Path) -> None:
    """Folded the lowest, the highest and the median."""
    page = a_page(tmp_path / "a")
    assert title_of(page, "gpu_load").endswith("109% to 149%  129%")
    assert title_of(page, "loss").split()[-1] == "0.1333"
    assert title_of(page, "net_rx").endswith("1.0 MB/s to 2.0 MB/s  1.5 MB/s")
    assert title_of(a_page(tmp_path / "b", back=59.5), "loss").split()[-1] == "8"


def test_what_is_a_sum_of_the_gpus_of_a_rank_says_so() -> None:
    """Of a rank with four GPUs 2504 W is no GPU's; a load is a mean, and needs no word."""
    page = Page(NOTHING, panels_of(["gpu_load", "gpu_memory", "gpu_power"]), Window.of(T0, T0 + 60), Looks())
    units = [title_of(page, name) for name in ("gpu_load", "gpu_memory", "gpu_power")]
    assert ["per rank" in title for title in units] == [False, True, True]
    assert "GPU power  W per rank" in units[2]


def test_each_rank_by_itself_is_reported_by_its_name(tmp_path: Path) -> None:
    assert title_of(a_page(tmp_path, Looks(each=True, member=4), each=True), "gpu_load").endswith("rank 4  149%")
    other = a_page(tmp_path / "b", Looks(each=True, member=1), each=True)
    assert title_of(other, "net_rx").endswith("b  2.0 MB/s")


def test_far_from_any_value_nothing_is_reported(tmp_path: Path) -> None:
    page = a_page(tmp_path)
    window = Window(T0, T0 + 10_000, T0, T0 + 10_000, T0 + 5000)
    assert title_of(Page(page.readings, page.panels, window, page.looks), "loss").split()[-1] == "-"


def test_lateness_of_a_long_run_hides_no_gap_of_the_others(tmp_path: Path) -> None:
    """It is looked at once a minute, later its rows are of ten: half an hour without a GPU's load is seen as such."""
    writer = SeriesWriter(tmp_path)
    for second in (*range(600), *range(2400, 3000)):
        writer.put(T0 + second, [(Series("gpu_load", 0), 50.0)])
    writer.close()
    keep_lateness(tmp_path, T0 + 2000, 1200.0, {0: 0.2, 1: 0.1})
    found = RunReader(partial(SeriesReader, tmp_path)).read(T0, T0 + 3000, finest=1.0)
    page = Page(found, panels_of(found.names), Window.of(T0, T0 + 3000).moved(-1500), Looks())
    assert title_of(page, "gpu_load").split()[-1] == "-"
    assert title_of(page, "late").split()[-2:] == ["150", "ms"]


@pytest.mark.parametrize("size", [(80, 18), (120, 30), (200, 44), (20, 3), (9, 1), (3, 2)])
@pytest.mark.parametrize("looks", [Looks(), Looks(alone=True, log=True, smooth=2), Looks(each=True, clock=False)])
def test_the_page_has_its_size(tmp_path: Path, size: tuple[int, int], looks: Looks) -> None:
    page = a_page(tmp_path, looks, each=looks.each, back=20)
    lines = page_lines(LOOK, ASCII, page, *size)
    assert len(lines) <= size[1]
    assert size[0] < 40 or all(line.width <= size[0] for line in (*lines, state_line(LOOK, page, size[0])))
    assert all(line.plain.isascii() for line in lines)


def test_a_page_without_plots_says_so() -> None:
    page = Page(NOTHING, (), Window.of(0, 1), Looks())
    assert "nothing was measured" in page_lines(LOOK, UNICODE, page, 80, 20)[0].plain


def test_an_amount_begins_at_zero_and_a_figure_of_the_job_does_not() -> None:
    assert Panel("", ("step_time",)).has_zero and not Panel("", ("loss",)).has_zero
    assert Panel("", ("gpu_load",)).top == 100 and Panel("", ("loss",)).top is None


# How far it is.


def progressed(values: dict[str, float], pace: float | None = 2.0, **words: str) -> Progressed:
    return Progressed(T0, 0, "h1", values, words, pace)


def test_a_run_that_tells_its_last_step_says_what_is_left() -> None:
    reported = progressed({"step": 18_240, "total": 50_000, "loss": 2.104}, 2.31, checkpoint="step-18000")
    line = progress_line(LOOK, reported, over=False, room=200).plain
    assert line == "step 18,240 of 50,000   20h 22m left   loss 2.104   2.31 s/it   checkpoint step-18000"
    assert progress_line(LOOK, reported, over=True, room=200).plain.startswith("last step 18,240 of 50,000   loss")
    assert progress_line(LOOK, reported, over=False, room=40).plain == "step 18,240 of 50,000   20h 22m left"
    assert progress_line(LOOK, None, over=False, room=200).plain == ""


def test_a_run_that_stands_still_has_no_speed() -> None:
    """Since when, in amber, and what was learned; nothing of what it did when it went on, and no time that is left."""
    reported = progressed({"step": 300, "total": 600, "loss": 0.75}, 2.0, checkpoint="step-200")
    line = progress_line(LOOK, reported, over=False, room=200, stands=Standstill(T0, 300), now=T0 + 400)
    assert line.plain == "STALLED 6m, last step 300   loss 0.75   checkpoint step-200"
    assert line.pieces[0][1] == LOOK.watch
    alone = progress_line(LOOK, None, over=False, room=200, stands=Standstill(T0), now=T0 + 400)
    assert alone.plain == "STALLED 6m"


@pytest.mark.parametrize(
    ("values", "pace", "left"),
    [
        ({"step": 10, "steps": 20}, 2.0, 20.0), ({"step": 20, "total": 20}, 2.0, 0.0), ({"step": 10}, 2.0, None),
        ({"step": 30, "total": 20}, 2.0, None), ({"step": 10, "total": 20}, None, None),
        ({"step": 1, "total": float("inf")}, 2.0, None), ({"total": 20}, 2.0, None),
        ({"step": 400, "total": 500, "epoch": 1, "epochs": 10}, 0.5, None),
        ({"step": 400, "total": 500, "epoch": 1}, 0.5, None),
        ({"step": 400, "total": 500, "epoch": 10, "epochs": 10}, 0.5, 50.0),
    ],
)  # fmt: skip
def test_what_is_left_is_only_reported_where_it_is_known(
    values: dict[str, float], pace: float | None, left: float | None
) -> None:
    assert seconds_left(progressed(values, pace)) == left
