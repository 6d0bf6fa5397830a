"""`distui metrics`: what a run measured, as a table, as JSON, as CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distui.runs.series.level import RANKS
from distui.runs.series.values import Series
from distui.runs.series.words import value_words
from distui.runs.series.writer import SeriesWriter
from distui.runs.store.runs import RunStore, StoredRun

T0 = 1_700_000_000.0


@pytest.fixture
def stored(home: Path) -> StoredRun:
    """A run of 30 s with a loss that is NaN in the end, and two GPUs."""
    made = RunStore(home / ".local/state/distui").create("r")
    writer = SeriesWriter(made.series_dir)
    for i in range(30):
        loss = float("nan") if i == 29 else 3 - i / 10
        figures = [(Series("loss"), loss), (Series("gpu_load", 0), 90.0), (Series("gpu_load", 1), 50.0)]
        writer.put(T0 + i, [*figures, (Series("net_rx", host="h1"), 12e6)], i * 2)
    writer.close()
    return made


def test_a_table_has_a_line_for_each_name(cli: Any, stored: StoredRun) -> None:
    """With units; ranks together."""
    done = cli("metrics", "r")
    assert done.code == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "30s up to 2023-11-14T22:13:50.000Z"
    assert lines[2:] == [
        "SERIES OF NEWEST MEAN LOWEST HIGHEST",
        "gpu_load 2 ranks 70% 70% 50% 90%",
        "loss the run nan 1.6 0.2 3",
        "net_rx 1 host 12 MB/s 12 MB/s 12 MB/s 12 MB/s",
    ]


def test_json_has_every_row(cli: Any, stored: StoredRun) -> None:
    """NaN is null; coarser rows and the last seconds on demand."""
    value = json.loads(cli("metrics", "r", "loss", "-o", "json").out)
    assert value["schema"] == "distui/metrics/v1"
    (loss,) = value["series"]
    assert (loss["name"], loss["rank"], loss["host"], loss["unit"]) == ("loss", None, None, None)
    first, *_, last = [dict(zip(value["columns"], row, strict=True)) for row in loss["rows"]]
    assert first == {
        "ts": "2023-11-14T22:13:20.000Z", "width_s": 1, "step": 0, "mean": 3, "low": 3, "high": 3, "samples": 1,
    }  # fmt: skip
    assert (last["step"], last["mean"], len(loss["rows"])) == (58, None, 30)
    coarse = json.loads(cli("metrics", "r", "loss", "--every", "10s", "-o", "json").out)
    assert [row[1] for row in coarse["series"][0]["rows"]] == [10, 10, *[1] * 10]
    late = json.loads(cli("metrics", "r", "--last", "5s", "-o", "json").out)
    assert {len(series["rows"]) for series in late["series"]} == {5}


def test_csv_is_a_line_for_each_value(cli: Any, stored: StoredRun) -> None:
    """Series after series."""
    head, first, *rest = cli("metrics", "r", "gpu_load", "net_rx", "-o", "csv").out.splitlines()
    assert head == "name,rank,host,ts,width_s,step,mean,low,high,samples"
    assert first == "gpu_load,0,,2023-11-14T22:13:20.000Z,1.0,0,90.0,90.0,90.0,1"
    assert len(rest) == 89
    assert rest[-1].startswith("net_rx,,h1,")


def said_by_ranks(stored: StoredRun) -> None:
    """Two ranks say a loss each; of the learning rate only one says anything."""
    writer = SeriesWriter(stored.series_dir, RANKS)
    for i in range(30):
        writer.put(T0 + i, [(Series("loss", 0), 2.0), (Series("loss", 1), float(i)), (Series("lr", 1), 0.1)])
    writer.close()


def test_each_rank_has_a_line_of_its_own(cli: Any, stored: StoredRun) -> None:
    """Also of what it says of its progress; the other series as they are, one for each rank and host."""
    said_by_ranks(stored)
    done = cli("metrics", "r", "--ranks")
    assert done.code == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "30s up to 2023-11-14T22:13:50.000Z"
    assert lines[2:] == [
        "SERIES OF NEWEST MEAN LOWEST HIGHEST",
        "gpu_load rank 0 90% 90% 90% 90%",
        "gpu_load rank 1 50% 50% 50% 50%",
        "loss rank 0 2 2 2 2",
        "loss rank 1 29 14.5 0 29",
        "net_rx h1 12 MB/s 12 MB/s 12 MB/s 12 MB/s",
    ]


def test_the_rows_of_each_rank(cli: Any, stored: StoredRun) -> None:
    """As JSON and CSV; without the flag it is the leading rank that is told."""
    said_by_ranks(stored)
    value = json.loads(cli("metrics", "r", "loss", "--ranks", "--last", "5s", "-o", "json").out)
    assert [(one["name"], one["rank"]) for one in value["series"]] == [("loss", 0), ("loss", 1)]
    assert [dict(zip(value["columns"], row, strict=True))["mean"] for row in value["series"][1]["rows"]] == [
        *range(25, 30)
    ]
    lines = cli("metrics", "r", "loss", "--ranks", "-o", "csv").out.splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == ["0"] * 30 + ["1"] * 30
    (leading,) = json.loads(cli("metrics", "r", "loss", "-o", "json").out)["series"]
    assert leading["rank"] is None
    table = [" ".join(line.split()) for line in cli("metrics", "r", "loss").out.splitlines()]
    assert table[-1] == "loss leading rank nan 1.6 0.2 3"


def test_a_run_whose_ranks_said_nothing_of_their_own_has_what_it_measured(cli: Any, stored: StoredRun) -> None:
    """As one with a single rank, or of an older distui."""
    lines = [" ".join(line.split()) for line in cli("metrics", "r", "loss", "--ranks").out.splitlines()]
    assert lines[-1] == "loss the run nan 1.6 0.2 3"
    assert "has not measured lr" in cli("metrics", "r", "lr", "--ranks").err


def test_what_is_not_there_is_said(cli: Any, stored: StoredRun, home: Path) -> None:
    """A name that was not measured, a run that measured nothing here."""
    wrong = cli("metrics", "r", "los")
    assert wrong.code == 2
    assert "has not measured los" in wrong.err
    assert "loss" in wrong.err
    RunStore(home / ".local/state/distui").create("empty")
    done = cli("metrics", "empty")
    assert done.code == 7
    assert "nothing that empty measured is recorded here" in done.err


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        ("loss", 2.10412, "2.104"), ("loss", float("nan"), "nan"), ("loss", 3.4e38, "3.4e+38"),
        ("step_time", 0.24, "240 ms"), ("step_time", 1.5, "1.5 s"), ("tokens_per_s", 18240.0, "18,240/s"),
        ("gpu_memory", 40960.0, "40 GiB"), ("gpu_power", 412.3, "412 W"), ("gpu_load", 99.6, "100%"),
        ("net_rx", 12_300_000.0, "12 MB/s"),
    ],
)  # fmt: skip
def test_values_have_units(name: str, value: float, want: str) -> None:
    """As few digits as tell it."""
    assert value_words(name, value) == want
