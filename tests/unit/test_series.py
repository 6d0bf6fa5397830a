"""Measurements over time: bins, files of rows, what a crash, a full disk or a strange number does to them."""

from __future__ import annotations

import errno
import math
import os
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.runs.series import level as levels
from distui.runs.series.late import keep_lateness
from distui.runs.series.level import HEADER, LEVELS, Level, read_content
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Bin, Row, Series, bin_of, joined
from distui.runs.series.writer import SeriesWriter

LOSS, LOAD = Series("loss"), Series("gpu_load", 3)
SMALL = (Level("a", 1, 16), Level("b", 4, 16), Level("c", 16, 16))
T0 = 1_700_000_000.0


def put(folder: Path, values: Sequence[float], *, at: float = T0, every: float = 1.0, close: bool = True) -> None:
    """A loss, one each second, at steps 0, 1, ..."""
    writer = SeriesWriter(folder)
    for i, value in enumerate(values):
        writer.put(at + i * every, [(LOSS, value)], i)
    if close:
        writer.close()


def rows_of(folder: Path, given: Sequence[Level] = LEVELS, **more: Any) -> list[Row]:
    reader = SeriesReader(folder, given)
    reader.refresh()
    return reader.rows(**more)


def all_of(rows: Sequence[Row], series: Series) -> Bin:
    """All bins of a series in one, for how often, lowest and highest."""
    bins = [row.bins[series] for row in rows if series in row.bins]
    return Bin(
        sum(b.samples for b in bins),
        math.fsum(b.mean * b.samples for b in bins) / max(1, sum(b.samples for b in bins)),
        min((b.low for b in bins), default=0.0),
        max((b.high for b in bins), default=0.0),
    )


def test_what_was_put_is_read_back_by_the_second(tmp_path: Path) -> None:
    """Time, step, value; the folder and its files are private."""
    put(tmp_path / "series", [3.0, 2.5, 2.25])
    rows = rows_of(tmp_path / "series")
    assert [(row.start, row.width, row.last_step, row.bins[LOSS].mean) for row in rows] == [
        (T0, 1, 0, 3.0), (T0 + 1, 1, 1, 2.5), (T0 + 2, 1, 2, 2.25),
    ]  # fmt: skip
    assert (tmp_path / "series").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "series" / "1s").stat().st_mode & 0o777 == 0o600


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.floats(0, 9), min_size=1, max_size=300),
    seed=st.integers(0, 10**6),
    leave=st.lists(st.integers(0, 299), max_size=4),
)
def test_nothing_is_lost_or_counted_twice(
    gaps: list[float], seed: int, leave: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However long a run is and however often it is taken up again: each value is in one row, as fine as it is kept."""
    folder, dice = tmp_path_factory.mktemp("series"), random.Random(seed)
    writer, at, values = SeriesWriter(folder, SMALL), T0, []
    for i, gap in enumerate(gaps):
        at += gap
        values.append(dice.uniform(-5, 5))
        writer.put(at, [(LOSS, values[-1]), (LOAD, 50.0)])
        if i in leave:
            writer.close()
            writer = SeriesWriter(folder, SMALL)
    writer.close()
    for finest in (0.0, 4.0, 1e9):
        rows = rows_of(folder, SMALL, finest=finest)
        found = all_of(rows, LOSS)
        assert found.samples == len(values) == all_of(rows, LOAD).samples
        assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-4)
        assert (found.low, found.high) == pytest.approx((min(values), max(values)), rel=1e-6)
        assert all(one.end <= other.start for one, other in pairwise(rows))


@settings(deadline=None, max_examples=60)
@given(
    reported=st.lists(
        st.tuples(
            st.one_of(st.floats(), st.floats(0, 1e10), st.just(T0)),
            st.floats(),
            st.one_of(st.none(), st.floats()),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_no_number_and_no_clock_breaks_anything(
    reported: list[tuple[float, float, float | None, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """NaN, infinity, 1e300, steps that go back, a clock that jumps anywhere: rows stay finite and in order."""
    folder = tmp_path_factory.mktemp("series")
    writer = SeriesWriter(folder, SMALL)
    for at, value, step, again in reported:
        writer.put(at, [(LOSS, value)], step)
        if again:
            writer.close()
            writer = SeriesWriter(folder, SMALL)
    writer.close()
    rows = rows_of(folder, SMALL)
    assert [row.start for row in rows] == sorted(row.start for row in rows)
    for row in rows:
        found = row.bins.get(LOSS)
        assert found is None or math.isnan(found.mean) or found.low <= found.mean * (1 + 1e-6) + 1e-6 or found.mean < 0
        assert found is None or not math.isinf(found.high)


def test_what_came_late_stands_where_it_was_said(tmp_path: Path) -> None:
    """A night that is read in the morning, while hosts are measured: no hole in the loss, and no row is written twice
    or begun for each figure.
    """
    put(tmp_path, [3.0] * 600)
    writer, morning = SeriesWriter(tmp_path), T0 + 36_000
    for i in range(600, 36_000, 30):
        if i % 600 == 0:  # a host says something between two batches
            writer.put(morning + i / 36_000, [(LOAD, 97.0)])
        writer.put(T0 + i, [(LOSS, 2.0)], i)
    writer.put(morning + 2, [(LOSS, 1.0)], 36_002)
    writer.put(morning + 3, [(LOAD, 96.0)])
    writer.close()
    for finest in (0.0, 600.0):
        rows = rows_of(tmp_path, finest=finest)
        said = [row.start for row in rows if LOSS in row.bins]
        assert max(b - a for a, b in pairwise(said)) <= max(600.0, finest) and said[-1] >= morning - 600
        assert all_of(rows, LOSS).samples == 600 + 1180 + 1
        assert all_of(rows, LOAD).samples == 60
    again = SeriesWriter(tmp_path)
    for later in (700, 1400, 2100, 2800):
        again.put(morning + later, [(LOSS, 1.0)], 36_000 + later)
    again.close()
    coarse = [row for row in rows_of(tmp_path, LEVELS[3:]) if row.start <= morning < row.start + row.width]
    assert [row.bins[LOAD].samples for row in coarse] == [60], "nothing of the morning is lost to what came late"
    assert len(read_content(tmp_path / "10m").rows) < 80


def test_a_step_that_is_reported_a_second_later_stands_in_its_own_second(tmp_path: Path) -> None:
    """Between figures of now, and older by two seconds at most: each second has one row, written in its turn."""
    writer = SeriesWriter(tmp_path)
    for i in range(100):
        writer.put(T0 + i, [(LOAD, 97.0)])
        if i >= 2:
            writer.put(T0 + i - 1 - i % 2, [(LOSS, float(i - 1 - i % 2))], i - 1 - i % 2)
        assert [row.start for row in read_content(tmp_path / "1s").rows] == [T0 + n for n in range(i - 2)]
    writer.close()
    content = read_content(tmp_path / "1s")
    assert [row.start - T0 for row in content.rows] == [*range(100)]
    reported = [
        (row.start - T0, row.last_step, content.row(row).bins[LOSS].mean) for row in content.rows if row.last_step >= 0
    ]
    assert len(reported) == 49 and all(at == step == loss for at, step, loss in reported)
    assert len(read_content(tmp_path / "10s").rows) == 9, "nor has a coarse one two rows"


def test_what_is_no_number_has_no_part_in_a_mean() -> None:
    """Unless nothing else was said; beyond what four bytes hold it is the largest they do."""
    assert joined(bin_of(float("nan")), bin_of(2.0)) == Bin(1, 2.0, 2.0, 2.0)
    assert math.isnan(joined(bin_of(float("inf")), bin_of(float("nan"))).mean)
    assert bin_of(1e300).mean == 3.4e38
    assert joined(Bin(2, 1.0, 0.0, 2.0), Bin(1, 4.0, 4.0, 4.0)) == Bin(3, 2.0, 0.0, 4.0)


@pytest.mark.parametrize("cut", range(1, 90, 7))
def test_a_torn_end_is_dropped_and_written_over(cut: int, tmp_path: Path) -> None:
    """As kill -9 or a power cut leaves it: what is whole is read, and the next run of distui goes on behind it."""
    put(tmp_path, [1.0] * 20)
    whole = (tmp_path / "1s").read_bytes()
    (tmp_path / "1s").write_bytes(whole[:-cut])
    before = rows_of(tmp_path)
    assert 18 <= len(before) < 20
    put(tmp_path, [2.0] * 5, at=T0 + 100)
    assert [row.bins[LOSS].mean for row in rows_of(tmp_path)] == [1.0] * len(before) + [2.0] * 5


@settings(deadline=None, max_examples=80)
@given(junk=st.binary(max_size=200), at=st.integers(0, 2000))
def test_rubbish_in_a_file_is_no_error(junk: bytes, at: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands there is passed over, and what comes later is kept."""
    folder = tmp_path_factory.mktemp("series")
    put(folder, [1.0] * 20)
    data = bytearray((folder / "1s").read_bytes())
    data[min(at, len(data)) : at + len(junk)] = junk
    (folder / "1s").write_bytes(data)
    rows_of(folder)
    put(folder, [7.0] * 3, at=T0 + 100)
    later = data.startswith(b"distui series ") and not data.startswith(HEADER)
    assert later or [row.bins[LOSS].mean for row in rows_of(folder)][-3:] == [7.0] * 3


def test_a_torn_end_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run whose follower was killed, which is looked at each second: a file may have 16 MB. What comes is read."""
    put(tmp_path, [1.0] * 20)
    with (tmp_path / "1s").open("ab") as file:
        file.write(b"\x40\0\0\0torn")
    reader = SeriesReader(tmp_path)
    while reader.refresh():
        pass
    read: list[int] = []
    some = levels._some
    monkeypatch.setattr(levels, "_some", lambda handle, most: read.append(most) or some(handle, most))
    assert not any(reader.refresh() for _ in range(5)) and not read
    put(tmp_path, [2.0] * 3, at=T0 + 100)
    assert reader.refresh()
    assert [row.bins[LOSS].mean for row in reader.rows()] == [1.0] * 20 + [2.0] * 3


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """It is neither read nor written."""
    (tmp_path / "1s").write_bytes(b"distui series 2\nwhatever")
    put(tmp_path, [1.0] * 100)
    assert (tmp_path / "1s").read_bytes() == b"distui series 2\nwhatever"
    assert rows_of(tmp_path) == []


def test_a_full_disk_costs_the_rows_of_that_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a row is taken back; the coarser row has it all when there is room again."""
    full = False
    real = levels.open_private

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *exc: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            if full:
                self.file.write(data[:9])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return int(self.file.write(data))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    monkeypatch.setattr(levels, "open_private", lambda *given: Full(real(*given)))
    writer = SeriesWriter(tmp_path)
    for i in range(40):
        full = 12 <= i < 16
        writer.put(T0 + i, [(LOSS, float(i))])
    writer.close()
    seconds = [row.start - T0 for row in rows_of(tmp_path) if row.width == 1]
    assert seconds == [*range(9), *range(13, 40)], "a row is written when its second is over for two"
    (second,) = [row for row in read_content(tmp_path / "10s").rows if row.start == T0 + 10]
    content = read_content(tmp_path / "10s")
    assert content.row(second).bins[LOSS] == Bin(10, 14.5, 10.0, 19.0)


def test_a_folder_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    """A file in its place, a FIFO in place of a file."""
    (tmp_path / "series").write_text("")
    put(tmp_path / "series", [1.0])
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "1s")
    put(tmp_path / "other", [1.0])
    assert rows_of(tmp_path / "series") == rows_of(tmp_path / "other") == []


def test_it_stays_small_however_long_a_run_goes_on(tmp_path: Path) -> None:
    """Every level has at most twice what it keeps; the coarsest becomes wider and forgets nothing."""
    writer = SeriesWriter(tmp_path, SMALL)
    for i in range(5000):
        writer.put(T0 + i, [(LOSS, 1.0)])
    writer.close()
    counts = [len(read_content(tmp_path / one.name).rows) for one in SMALL]
    assert counts[0] <= 32
    assert counts[1] <= 32
    assert 8 <= counts[2] <= 16
    assert all_of(rows_of(tmp_path, SMALL), LOSS).samples == 5000


def test_many_ranks_are_kept_for_less_time_by_the_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bounds a file is its size, too."""
    monkeypatch.setattr(levels, "KEPT_BYTES", 100_000)
    writer = SeriesWriter(tmp_path)
    many = [(Series("gpu_load", rank), 50.0) for rank in range(200)]
    for i in range(200):
        writer.put(T0 + i, many)
    writer.close()
    assert (tmp_path / "1s").stat().st_size < 2.5 * 100_000
    assert 16 <= len(read_content(tmp_path / "1s").rows) < 100
    assert all_of(rows_of(tmp_path), Series("gpu_load", 199)).samples == 200


def test_somebody_reads_while_it_is_written(tmp_path: Path) -> None:
    """Row by row, also when the file is replaced by a shorter one; what may still grow is not there yet."""
    writer, reader = SeriesWriter(tmp_path, SMALL), SeriesReader(tmp_path, SMALL)
    for i in range(300):
        writer.put(T0 + i, [(LOSS, float(i))], i)
        reader.refresh()
        assert all_of(reader.rows(), LOSS).samples == max(0, i - 2)
    assert reader.refresh() is False
    assert reader.series == (LOSS,)
    assert reader.span == (min(row.start for row in reader.rows()), T0 + 297)
    writer.close()
    assert reader.refresh() is True and reader.span[1] == T0 + 300


def test_what_is_asked_for(tmp_path: Path) -> None:
    """Some series, some time."""
    writer = SeriesWriter(tmp_path)
    for i in range(30):
        writer.put(T0 + i, [(LOSS, 1.0)] if i < 10 else [(LOAD, 9.0)])
    writer.close()
    assert len(rows_of(tmp_path, wanted={LOSS})) == 10
    assert [row.start - T0 for row in rows_of(tmp_path, since=T0 + 5, until=T0 + 8)] == [5, 6, 7]
    assert {row.width for row in rows_of(tmp_path, finest=10)} == {1, 10}


def test_lateness_is_kept_whenever_it_was_measured(tmp_path: Path) -> None:
    """Beside what the follower writes, of each rank, for the seconds in which it was watched."""
    put(tmp_path, [1.0] * 3)
    keep_lateness(tmp_path, T0 + 60, 8.0, {0: 0.0, 3: 0.2})
    keep_lateness(tmp_path, T0 + 90, 8.0, {})
    rows = rows_of(tmp_path, wanted={Series("late", 3)})
    assert [(row.start, row.width, round(row.bins[Series("late", 3)].mean, 6)) for row in rows] == [(T0 + 52, 8.0, 0.2)]


def test_the_same_seconds_of_lateness_are_kept_once(tmp_path: Path) -> None:
    """What two ask at a time, or what is asked while it is followed; a clock that was set back loses no new row."""
    for at, seconds in ((60, 8.0), (60.2, 8.0), (63, 8.0), (100, 60.0), (10, 8.0)):
        keep_lateness(tmp_path, T0 + at, seconds, {3: 0.2})
    rows = rows_of(tmp_path, wanted={Series("late", 3)})
    assert [(row.start - T0, row.end - T0) for row in rows] == [(2, 10), (52, 60), (60, 63), (63, 100)]


def test_lateness_goes_on_where_a_clock_was_set_back_into_kept_minutes(tmp_path: Path) -> None:
    """Rows from before that are of the same time of day are of other steps."""
    for minute in (*range(1, 61), *range(30, 70)):
        keep_lateness(tmp_path, T0 + 60 * minute, 50.0, {3: 0.2})
    rows = rows_of(tmp_path, wanted={Series("late", 3)})
    assert sum(row.bins[Series("late", 3)].samples for row in rows) == 100


def test_lateness_of_a_run_of_weeks_becomes_coarser_and_is_never_lost(tmp_path: Path) -> None:
    """Whoever follows the run measures it every two minutes."""
    for number in range(1100):
        keep_lateness(tmp_path, T0 + 120 * (number + 1), 30.0, {3: 0.2})
    rows = rows_of(tmp_path, wanted={Series("late", 3)})
    assert len(rows) <= 1000 and sum(row.bins[Series("late", 3)].samples for row in rows) == 1100


def test_the_begin_of_a_run_is_as_fine_as_it_was_measured(tmp_path: Path) -> None:
    """Rows of a minute and of ten begin before the run does: they stand for nothing as long as seconds are kept."""
    put(tmp_path, [float(i) for i in range(700)], at=T0 + 7)
    reader = SeriesReader(tmp_path)
    reader.refresh()
    assert reader.span == (T0 + 7, T0 + 707)
    assert [row.bins[LOSS].mean for row in reader.rows()] == [float(i) for i in range(700)]
