"""Runs from before series were kept: what they measured is made of the figures in their folders."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.plan.serialize import to_json
from distui.runs.lines.events import GpuReading, HostSampled, Progressed
from distui.runs.series.older import series_of
from distui.runs.series.values import Series
from distui.runs.series.writer import SeriesWriter
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore, StoredRun
from distui.tui.metrics.reading import RunReader
from fakehosts.runs import plan_for

T0 = 1_700_000_000.0


@pytest.fixture
def stored(home: Path) -> StoredRun:
    """Ten seconds of a loss and a GPU."""
    made = RunStore(home / ".local/state/distui").create("old")
    plan = plan_for("h1")
    task = replace(plan.tasks[0], gpus=(0,), rank_gpus=((0,),))
    made.write_plan(to_json(replace(plan, run_id="old", tasks=(task,))))
    journal = Journal(made)
    for i in range(10):
        gpu = GpuReading(0, utilization_pct=80.0 + i, memory_used_mib=100, power_w=300.0)
        journal.write(
            [HostSampled(T0 + i, "h1", (gpu,)), Progressed(T0 + i, 0, "h1", {"step": i, "loss": 3.0 - i / 10})]
        )
    journal.close()
    return made


def files(stored: StoredRun) -> list[str]:
    """All that is in its folder."""
    return sorted(str(path.relative_to(stored.path)) for path in stored.path.rglob("*"))


def test_they_have_curves_and_their_folders_stay_as_they_are(stored: StoredRun) -> None:
    """As the metrics page and Compare read them: with steps."""
    before = files(stored)
    found = RunReader.of(stored).read()
    assert {"loss", "gpu_load", "gpu_power"} <= set(found.names)
    assert [point.mid for point in found.points["loss"]] == [pytest.approx(3.0 - i / 10) for i in range(10)]
    assert (found.step_at(math.inf), found.span) == (9, (T0, T0 + 10))
    assert files(stored) == before


def test_distui_metrics_prints_them(cli: Callable[..., Any], stored: StoredRun) -> None:
    """As those of any run."""
    value = json.loads(cli("metrics", "old", "loss", "-o", "json").out)
    assert len(value["series"][0]["rows"]) == 10


def test_what_was_kept_as_series_counts(stored: StoredRun) -> None:
    """Also beside figures; a run without any has nothing, and a torn line is left out."""
    with (stored.path / "metrics.ndjson").open("a") as file:
        file.write('{"type": "progress", "ts"')
    assert len(series_of(stored).rows({Series("loss")})) == 10
    writer = SeriesWriter(stored.series_dir)
    writer.put(T0, [(Series("other"), 1.0)])
    writer.close()
    assert [series.name for series in series_of(stored).series] == ["other"]


def test_a_run_that_is_followed_is_read_on(stored: StoredRun) -> None:
    """Whoever follows it is about to write its series."""
    with stored.followed():
        reader = series_of(stored)
        assert reader.span is None
        writer = SeriesWriter(stored.series_dir)
        writer.put(T0, [(Series("loss"), 1.0)])
        writer.close()
        assert reader.refresh() and reader.span is not None
