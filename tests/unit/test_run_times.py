"""Times of log lines: one a line, on our clock, cut back with the log after a crash."""

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.times import Stamps, pack, read_times, times_of
from distui.runs.store.logs import TaskLog
from distui.runs.store.runs import RunStore, StoredRun

NOON = 1_795_176_000.0  # 2026-11-20T12:00:00Z


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return RunStore(tmp_path).create("r1")


def said(*lines: tuple[str, bytes]) -> Batch:
    """What the follower gives for lines with these stamps."""
    stamps, pieces = zip(*lines, strict=True)
    return Batch((STDOUT,) * len(pieces), tuple(s.encode() for s in stamps), pieces)


def test_each_line_has_its_time_on_our_clock(stored: StoredRun) -> None:
    """The host's clock is 2 s ahead: its stamps count 2 s less here."""
    log = TaskLog(stored, 0, [3], offset=2.0)
    log.feed(said(("2026-11-20T12:00:02.500000000Z", b"a\nb\n"), ("2026-11-20T12:00:03Z", b"c\n")))
    log.close()

    assert list(read_times(times_of(stored.rank_log(3)), 0, 9)) == [NOON + 0.5, NOON + 0.5, NOON + 1]
    assert list(read_times(times_of(stored.rank_log(3)), 2, 9)) == [NOON + 1]


def test_lines_without_a_stamp_have_the_time_they_came(stored: StoredRun) -> None:
    """Processes have no engine that stamps; the offset of the host's clock does not matter then."""
    log = TaskLog(stored, 0, [3], offset=2.0, clock=lambda: 7.0)
    log.feed(said(("", b"a\n")))
    log.close()

    assert list(read_times(times_of(stored.rank_log(3)), 0, 9)) == [7.0]


def test_an_endless_line_counts_once(stored: StoredRun) -> None:
    """A line stored in parts of a megabyte is one line of the file and has one time."""
    log = TaskLog(stored, 0, [3], clock=lambda: 7.0)
    for part in (b"x" * (1 << 20), b"y" * (1 << 20), b"end\nnext\n"):
        log.feed(said(("", part)))
    log.close()

    lines = stored.rank_log(3).read_bytes().count(b"\n")
    assert (lines, len(read_times(times_of(stored.rank_log(3)), 0, 9))) == (2, 2)


def test_after_a_crash_times_are_cut_with_the_log(stored: StoredRun) -> None:
    """What is read again is timed again, so that line and time stay together."""
    log = TaskLog(stored, 0, [0], clock=lambda: 1.0)
    log.feed(said(("", b"one\n")))
    log.checkpoint({"at": 1})
    log.feed(said(("", b"two\n")))
    log.close()

    again = TaskLog(stored, 0, [0], clock=lambda: 2.0)
    again.restore(dict)
    again.feed(said(("", b"two\n")))
    again.close()
    assert list(read_times(times_of(stored.rank_log(0)), 0, 9)) == [1.0, 2.0]


@given(st.datetimes(min_value=datetime(1971, 1, 1)))
def test_stamps_are_read_as_the_library_reads_them(at: datetime) -> None:
    """The fast reader agrees with the slow one, to the microsecond."""

    stamp = at.isoformat(timespec="microseconds")
    want = at.replace(tzinfo=UTC).timestamp()
    assert Stamps().parse(stamp + "000Z") == pytest.approx(want, abs=1e-5)
    assert Stamps().parse(stamp + "+00:00") == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("text", ["", "Z", "yesterday", "2026-11-20T12:00:00", "2026-13-20T12:00:00Z", "x" * 40 + "Z"])
def test_what_is_no_stamp_is_none(text: str) -> None:
    """Never an exception: stamps come from outside."""
    assert Stamps().parse(text) is None


def test_reading_is_total(tmp_path: Path) -> None:
    """Without a file there are no times; a torn last one is left out."""
    assert not read_times(tmp_path / "none.times", 0, 5)
    (tmp_path / "torn.times").write_bytes(pack([1.0, 2.0])[:-3])
    assert list(read_times(tmp_path / "torn.times", 0, 5)) == [1.0]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e300, 253_402_300_800.0, -62_135_596_801.0])
def test_what_is_no_time_in_the_file_is_unknown(tmp_path: Path, odd: float) -> None:
    """No clock can show it."""
    (tmp_path / "odd.times").write_bytes(pack([1.0, odd, 2.0]))
    assert list(read_times(tmp_path / "odd.times", 0, 5)) == [1.0, None, 2.0]


@pytest.mark.parametrize("fraction", [b"       nan", b"  infinity", b"1.000e+300", b".1e0000300", b"-000000.25"])
def test_a_fraction_that_is_none_makes_no_time(fraction: bytes) -> None:
    """Python reads these as numbers."""
    assert Stamps().parse_all([b"2026-11-20T12:00:00" + fraction + b"Z"] * 2) == [None, None]
