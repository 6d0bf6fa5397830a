"""A run of a week with 64 ranks, as `distui/runs/series/` keeps it: made without a week's wait."""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from distui.runs.series.late import keep_lateness
from distui.runs.series.level import LEVELS, RANKS, Level, LevelFile
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Bin, Row, Series
from distui.tui.metrics.painting import Looks, Page, page_lines
from distui.tui.metrics.panels import panels_of
from distui.tui.metrics.reading import RunReader
from distui.tui.metrics.window import Window
from distui.tui.paint.glyphs import UNICODE
from distui.tui.paint.theme import DARK, palette

STEP_S = 2.3
MakeBins = Callable[[float, float], Iterator[tuple[Series, Bin]]]
"""Of a row: seconds since the run began, its width."""


def write_week(folder: Path, end: float, *, ranks: int = 64, days: float = 7.0) -> None:
    """All levels full, as they are after so many days up to `end`."""
    chance = random.Random(4)
    _write(folder, LEVELS, end, days, partial(_bins, ranks=ranks, chance=chance))
    _write(folder, RANKS, end, days, partial(_bins_of_ranks, ranks=ranks, chance=chance))
    for number in range(200):
        late = {rank: chance.expovariate(40) for rank in range(ranks)}
        keep_lateness(folder, end - (200 - number) * days * 86400 / 200, 10.0, late)


def _write(folder: Path, levels: Sequence[Level], end: float, days: float, bins: MakeBins) -> None:
    """Levels as full as they may be."""
    for level in levels:
        file = LevelFile(folder, level, last=level is levels[-1])
        file.open()
        kept = min(2 * level.rows - 1 if level is not levels[-1] else level.rows, int(days * 86400 / level.width))
        last = math.floor(end / level.width) * level.width
        for number in range(kept):
            start = last - (kept - number) * level.width
            file.append(_row(start, level.width, start - (end - days * 86400), bins))


def _row(start: float, width: float, since: float, bins: MakeBins) -> Row:
    first, last = since / STEP_S, (since + width) / STEP_S
    return Row(start, width, float(int(first)), float(int(last)), dict(bins(since, width)))


def _around(mean: float, spread: float, width: float, chance: random.Random) -> Bin:
    mean += chance.gauss(0, spread / 4)
    wide = spread * (1 + math.log10(max(1.0, width)))
    return Bin(max(1, int(width)), mean, mean - wide * chance.random(), mean + wide * chance.random())


def _loss(since: float) -> float:
    return 1.9 + 8.5 / (1 + since / 9000)


def _bins_of_ranks(since: float, width: float, ranks: int, chance: random.Random) -> Iterator[tuple[Series, Bin]]:
    for rank in range(ranks):
        yield Series("loss", rank), _around(_loss(since), 0.05, width, chance)
        yield Series("step_time", rank), _around(STEP_S, 0.1, width, chance)
        yield Series("tokens_per_s", rank), _around(41_000 / ranks, 20, width, chance)


def _bins(since: float, width: float, ranks: int, chance: random.Random) -> Iterator[tuple[Series, Bin]]:
    def around(mean: float, spread: float) -> Bin:
        return _around(mean, spread, width, chance)

    yield Series("loss"), around(_loss(since), 0.05)
    yield Series("step_time"), around(STEP_S, 0.1)
    yield Series("tokens_per_s"), around(41_000, 900)
    for rank in range(ranks):
        yield Series("gpu_load", rank), around(93, 2)
        yield Series("gpu_memory", rank), around(76_000, 100)
        yield Series("gpu_power", rank), around(610, 12)
    for host in range(max(1, ranks // 8)):
        name = f"node{host + 1:02d}"
        yield Series("cpu_load", host=name), around(40, 5)
        yield Series("net_rx", host=name), around(21e9, 4e8)
        yield Series("net_tx", host=name), around(20e9, 4e8)


def main() -> None:
    """How long the Metrics page takes to be read and painted: `python -m bench.series`."""
    with tempfile.TemporaryDirectory() as name:
        write_week(Path(name), 1_760_000_000.0)
        look = palette(DARK, {**DARK.to_color_system().generate(), **DARK.variables})
        for size in ((80, 24), (120, 36), (200, 50)):
            began, cpu = time.perf_counter(), time.process_time()
            reader = RunReader(partial(SeriesReader, Path(name)))
            window = Window.of(*(reader.span() or (0.0, 1.0)))
            found = reader.read(finest=window.span / (2 * size[0]), ranks=True)
            page_lines(look, UNICODE, Page(found, panels_of(found.names), window, Looks()), size[0], size[1] - 5)
            took, used = time.perf_counter() - began, time.process_time() - cpu
            print(f"{size[0]}x{size[1]}: a week of 64 ranks read and painted in {took:.2f} s, {used:.2f} s of CPU")


if __name__ == "__main__":
    main()
