"""What a run of these tests measured: ten minutes of 16 ranks, a second each row."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from fakes import FakeLive

from distui.runs.series.values import Series
from distui.runs.series.writer import SeriesWriter

SECONDS = 600


def measured(live: FakeLive, *, end: float | None = None, loss: float = 3.0, pace: float = 1.0) -> None:
    """Write its series again, up to `end` (now): a loss that falls, a step each `pace` seconds, loads by rank."""
    folder = live.stored.series_dir
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, (time.time() if end is None else end) - SECONDS, SECONDS, loss=loss, pace=pace)


def write(folder: Path, begin: float, seconds: int, *, loss: float = 3.0, pace: float = 1.0, since: int = 0) -> None:
    """So many seconds of a run that is `since` seconds old."""
    writer = SeriesWriter(folder)
    for second in range(seconds):
        age = since + second
        figures = [(Series("loss"), loss / (1 + age / 100)), (Series("step_time"), pace)]
        figures += [(Series("gpu_load", rank), 80.0 + rank) for rank in range(16)]
        figures += [(Series("gpu_memory", rank), 70_000.0 + 100 * rank) for rank in range(16)]
        figures += [(Series(name, host=host), 2e9) for name in ("net_rx", "net_tx") for host in ("node01", "node02")]
        writer.put(begin + second, figures, float(int(age / pace)))
    writer.close()
