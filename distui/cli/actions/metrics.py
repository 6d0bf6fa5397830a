"""`distui metrics`: what a run measured over time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

from distui import columns
from distui.amounts import counted, duration
from distui.cli.console import Console
from distui.cli.printing.csv_rows import csv_text
from distui.cli.settings import Settings
from distui.errors import NotFound, UsageError
from distui.runs.lines.events import iso
from distui.runs.lines.text import safe
from distui.runs.series.older import series_of
from distui.runs.series.ranks import said_by_several
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Bin, Row, Series, in_order, unit_of
from distui.runs.series.words import value_words
from distui.spec.yaml.problems import did_you_mean

COLUMNS = ("ts", "width_s", "step", "mean", "low", "high", "samples")


def act(
    settings: Settings,
    out: Console,
    run: str,
    names: Sequence[str],
    every: float | None,
    last: float | None,
    ranks: bool,
) -> int:
    """See `metrics --help`."""
    place = settings.places.locate(run)
    reader = series_of(place.stored) if place.stored is not None else None
    if reader is None or reader.span is None:
        message = f"nothing that {run} measured is recorded here"
        raise NotFound(message, hint=f"it is from when a run is followed on this machine: `distui attach {run}`")
    parts = _parts(reader, names, ranks=ranks)
    wanted = sorted((series for _, found in parts for series in found), key=in_order)
    since = -math.inf if last is None else reader.span[1] - last
    rows = [row for part, found in parts for row in part.rows(found, since=since, finest=every or 0.0)]
    match settings.output:
        case "json":
            out.json(_json(run, wanted, rows))
        case "csv":
            out.write(_csv(wanted, rows))
        case _:
            _show(out, wanted, rows, each=ranks, leading=_said_by_several(reader))
    return 0


def _parts(reader: SeriesReader, names: Sequence[str], *, ranks: bool) -> list[tuple[SeriesReader, list[Series]]]:
    """The series of these names, and where each is read. With `ranks` what several of them said of their own progress
    stands for what the leading one said, as on the app's Metrics page.
    """
    if not ranks:
        return [(reader, _wanted(reader.series, names))]
    of_ranks = reader.of_ranks()
    several = said_by_several(of_ranks.series)
    by_rank = {series.name for series in several}
    wanted = _wanted([*several, *(series for series in reader.series if series.name not in by_rank)], names)
    of_run = [series for series in wanted if series.name not in by_rank]
    return [(reader, of_run), (of_ranks, [series for series in wanted if series.name in by_rank])]


def _wanted(known: Sequence[Series], names: Sequence[str]) -> list[Series]:
    """The series of these names, all without one. Raises UsageError for a name that there is not."""
    there = list(dict.fromkeys(series.name for series in known))
    for name in names:
        if name not in there:
            hint = did_you_mean(name, there) or f"there are {', '.join(map(safe, there))}"
            raise UsageError(f"the run has not measured {safe(name)}", hint=hint)
    return [series for series in known if not names or series.name in names]


def _heads(rows: Sequence[Row]) -> list[tuple[Row, tuple[Any, ...]]]:
    """Each row with its time, width and step, which all series have in it; None for what is no number."""
    steps = (round(row.last_step) if math.isfinite(row.last_step) else None for row in rows)
    return [(row, (iso(row.start), row.width, step)) for row, step in zip(rows, steps, strict=True)]


def _cells(head: tuple[Any, ...], found: Bin) -> list[Any]:
    """Time, width, step and values; None for what is no number."""
    values = (None if math.isnan(value) else float(f"{value:.7g}") for value in found[1:])
    return [*head, *values, found.samples]


def _json(run: str, wanted: Sequence[Series], rows: Sequence[Row]) -> dict[str, Any]:
    headed = _heads(rows)
    return {
        "schema": "distui/metrics/v1",
        "run": run,
        "columns": list(COLUMNS),
        "series": [
            {
                "name": series.name,
                "rank": series.rank,
                "host": series.host or None,
                "unit": unit_of(series) or None,
                "rows": [_cells(head, one) for row, head in headed if (one := row.bins.get(series)) is not None],
            }
            for series in wanted
        ],
    }


def _csv(wanted: Sequence[Series], rows: Sequence[Row]) -> str:
    """A line for each value, series after series."""
    headed = _heads(rows)
    cells = (
        (series.name, "" if series.rank is None else series.rank, series.host, *_cells(head, one))
        for series in wanted
        for row, head in headed
        if (one := row.bins.get(series)) is not None
    )
    return csv_text((("name", "rank", "host", *COLUMNS), *cells))


def _said_by_several(reader: SeriesReader) -> frozenset[str]:
    """Names of what several ranks say of their progress: what stands for the run then is what the leading one said."""
    return frozenset(series.name for series in said_by_several(reader.of_ranks().series))


def _show(out: Console, wanted: Sequence[Series], rows: Sequence[Row], *, each: bool, leading: Collection[str]) -> None:
    """One line for each name: of several ranks or hosts the median of the newest values, then all of them together;
    or one for each rank and host.
    """
    if rows:
        end = max(row.end for row in rows)
        out.print(f"{duration(end - min(row.start for row in rows))} up to {iso(end)}")
        out.print("")
    by_name = (list(group) for _, group in groupby(wanted, key=lambda series: series.name))
    groups = [[series] for series in wanted] if each else list(by_name)
    cells = [_line(group, _whose(group[0]) if each else _of(group, leading), rows) for group in groups]
    head = ("SERIES", "OF", "NEWEST", "MEAN", "LOWEST", "HIGHEST")
    out.print("\n".join(columns.table(head, cells, width=out.width)))


def _line(group: Sequence[Series], of: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """Of series with one name."""
    name = group[0].name
    bins = {series: [row.bins[series] for row in rows if series in row.bins] for series in group}
    newest = [found[-1].mean for found in bins.values() if found]
    known = [one for found in bins.values() for one in found if math.isfinite(one.mean)]
    count = sum(one.samples for one in known)
    values = (
        statistics.median(newest) if newest else math.nan,
        sum(one.mean * one.samples for one in known) / count if count else math.nan,
        min((one.low for one in known), default=math.nan),
        max((one.high for one in known), default=math.nan),
    )
    return (safe(name), of, *(value_words(name, value) for value in values))


def _whose(series: Series) -> str:
    """`rank 3`, `node01`, `the run`."""
    return f"rank {series.rank}" if series.rank is not None else safe(series.host) or "the run"


def _of(group: Sequence[Series], leading: Collection[str]) -> str:
    """`8 ranks`, `2 hosts`; `leading rank` of what others say, too, whose median the Metrics page has."""
    return ", ".join(_counts(group)) or ("leading rank" if group[0].name in leading else "the run")


def _counts(group: Sequence[Series]) -> Iterator[str]:
    ranks, hosts = sum(one.rank is not None for one in group), sum(bool(one.host) for one in group)
    if ranks:
        yield counted(ranks, "rank")
    if hosts:
        yield counted(hosts, "host")
