"""Two runs side by side: figures at the same step, what they cost, how they ended, what differs in their jobs. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from distui.amounts import duration
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.report.history import RunRow
from distui.runs.series.words import value_words
from distui.runs.state.load import placed
from distui.tui.metrics.panels import panels_of
from distui.tui.metrics.reading import Readings
from distui.tui.plot.curve import Point, nearest
from distui.tui.run.words import state_words


@frozen
class Side:
    """One of the two runs."""

    row: RunRow
    plan: RunPlan
    readings: Readings
    now: float
    """For a run that goes on."""

    @property
    def took(self) -> float | None:
        """Seconds that it took, or has been running."""
        if self.row.took is not None:
            return self.row.took
        return self.now - self.row.started if self.row.goes_on and self.row.started is not None else None

    @property
    def gpus(self) -> int:
        """How many it has."""
        return sum(len(gpus) for _, gpus in placed(self.plan).values())


@frozen
class Fact:
    """One row of the table."""

    label: str
    old: str
    new: str
    change: str = ""
    """How much the new one is more or less, where both are numbers."""


def figure_of(old: Readings, new: Readings) -> str | None:
    """The series that both have and that tells how well it goes; None where there is none."""
    both = [name for name in old.names if name in new.names]
    return next((panel.name for panel in panels_of(both) if not panel.has_zero), None)


def by_step(readings: Readings, name: str) -> list[Point]:
    """The points of a name over the steps of the run."""
    found = []
    for point in readings.points.get(name, ()):
        step = readings.step_at(point.x)
        if step is not None and math.isfinite(point.mid):
            found.append(point._replace(x=step))
    return sorted(found)


def by_time(readings: Readings, name: str) -> list[Point]:
    """The points of a name over the seconds since its begin."""
    begin = readings.span[0] if readings.span is not None else 0.0
    return [point._replace(x=point.x - begin) for point in readings.points.get(name, ()) if math.isfinite(point.mid)]


def same_step(old: Readings, new: Readings, name: str) -> tuple[float, float, float] | None:
    """The last step that both were at, and what each measured there; None where they have none in common."""
    sides = by_step(old, name), by_step(new, name)
    if not all(sides):
        return None
    step = min(points[-1].x for points in sides)
    if any(points[0].x > step for points in sides):
        return None
    found = [nearest(points, step) for points in sides]
    return (step, *(point.mid for point in found if point is not None))  # type: ignore[return-value]


def facts(old: Side, new: Side) -> list[Fact]:
    """The rows of the table; what neither has measured is left out."""
    found: list[Fact] = []
    name = figure_of(old.readings, new.readings)
    if name is not None and (at := same_step(old.readings, new.readings, name)) is not None:
        step, before, after = at
        found.append(_numbers(f"{name} at step {step:,.0f}", (before, after), partial(value_words, name)))
    steps = [side.readings.steps[-1][1] if side.readings.steps else None for side in (old, new)]
    found.append(_numbers("last step", steps, lambda v: f"{v:,.0f}"))
    paces = [mean_of(side.readings, "step_time") for side in (old, new)]
    found.append(_numbers("speed", [1 / pace if pace else None for pace in paces], lambda v: f"{v:.3g} it/s"))
    for label, series in (("tokens", "tokens_per_s"), ("samples", "samples_per_s"), ("GPU load", "gpu_load")):
        means = [mean_of(side.readings, series) for side in (old, new)]
        found.append(_numbers(label, means, partial(value_words, series)))
    hours = [side.gpus * side.took / 3600 if side.took is not None else None for side in (old, new)]
    found.append(_numbers("GPU-hours", hours, lambda v: f"{v:,.1f}" if v < 100 else f"{v:,.0f}"))
    found.append(_numbers("took", (old.took, new.took), duration))
    found.append(Fact("state", state_words(old.row), state_words(new.row)))
    return [fact for fact in found if (fact.old, fact.new) != ("-", "-")]


def mean_of(readings: Readings, name: str) -> float | None:
    """The mean of a series over all the time that was read."""
    known = [point.mid for point in readings.points.get(name, ()) if math.isfinite(point.mid)]
    return sum(known) / len(known) if known else None


def _numbers(label: str, pair: Sequence[float | None], words: Callable[[float], str]) -> Fact:
    old, new = pair
    before, after = ("-" if value is None else words(value) for value in pair)
    change = ""
    if old and new is not None and math.isfinite(old) and math.isfinite(new):
        ratio = new / old
        change = f"{ratio:.0f} times" if ratio >= 10 else f"{ratio - 1:+.1%}"
    return Fact(label, before, after, "" if change in ("+0.0%", "-0.0%") else change)


def changed_keys(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[str]:
    """What differs between two jobs as they were recorded: `lr: 0.1 -> 0.2`, one a line."""
    before, after = dict(_flat(old or {}, "")), dict(_flat(new or {}, ""))
    found = []
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            found.append(f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}")
    return found


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
