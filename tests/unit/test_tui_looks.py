"""What the app keeps of the runs that the cursor was on in their list."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

from distui.runs.report.history import RunRow
from distui.runs.series.values import Series
from distui.runs.series.writer import SeriesWriter
from distui.runs.store.runs import RunStore, StoredRun
from distui.tui.runs.live import KEPT, Looks

T0 = 1_760_000_000.0


def a_run(folder: Path, name: str) -> tuple[RunRow, StoredRun]:
    stored = RunStore(folder).adopt(name)
    measured(stored, T0)
    return RunRow(name, "j", "running", ("h1",), 1, live=True, recorded=True), stored


def measured(stored: StoredRun, begin: float) -> None:
    writer = SeriesWriter(stored.series_dir)
    for second in range(5):
        writer.put(begin + second, [(Series("loss"), 2.0)], float(second))
    writer.close()


def test_only_the_files_of_the_last_run_are_kept(tmp_path: Path) -> None:
    """One that lives is read on; those of an ended run, and of one that the cursor left, go."""
    looks, (one, stored), (other, beside) = Looks(), a_run(tmp_path, "one"), a_run(tmp_path, "other")
    looks.read(one, stored, 80)
    looker = looks._looker
    assert looker is not None
    measured(stored, T0 + 100)
    assert (looks.read(one, stored, 80).readings.span, looks._looker) == ((T0, T0 + 105), looker)
    gone = weakref.ref(looker)
    del looker
    looks.read(other, beside, 80)
    gc.collect()
    assert gone() is None and looks._looker is not None
    looks.read(replace(other, live=False), beside, 80)
    assert looks._looker is None


def test_what_was_read_is_kept_of_the_last_runs(tmp_path: Path) -> None:
    """An ended one is not read again, unless something of it is news."""
    looks, (row, stored) = Looks(), a_run(tmp_path, "one")
    look = looks.read(row, stored, 80)
    looks.keep(row, look)
    ended = replace(row, live=False, state="succeeded")
    assert looks.of("one") is look and not looks.are_final(row) and not looks.are_final(ended)
    looks.keep(ended, look)
    assert looks.are_final(ended) and not looks.are_final(replace(ended, state="failed"))
    for number in range(KEPT):
        looks.keep(replace(ended, run=f"r{number}"), look)
    assert looks.of("one") is None and looks.of("r0") is look
