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
from distui.tui.plot.curve import Point
from distui.tui.run.words import state_words
from distui.tui.runs.same_step import Steps, compared, steps_of


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


def by_time(readings: Readings, name: str, began: float | None) -> list[Point]:
    """The points of a name over the seconds since the run began; since the first of them where that is not known."""
    begin = began if began is not None else readings.span[0] if readings.span is not None else 0.0
    return [point._replace(x=point.x - begin) for point in readings.points.get(name, ()) if math.isfinite(point.mid)]


def facts(old: Side, new: Side) -> list[Fact]:
    """The rows of the table; what neither has measured is left out."""
    both = old.readings, new.readings
    steps = steps_of(*both)
    found = [*_at_same_step(*both, steps), _last_step(*both, steps)]
    paces = [mean_of(side.readings, "step_time") for side in (old, new)]
    found.append(_numbers("speed", [1 / pace if pace else None for pace in paces], lambda v: f"{v:.3g} it/s"))
    for label, series in (("tokens", "tokens_per_s"), ("samples", "samples_per_s"), ("GPU load", "gpu_load")):
        means = [mean_of(side.readings, series) for side in (old, new)]
        found.append(_numbers(label, means, partial(value_words, series)))
    hours = [side.gpus * side.took / 3600 if side.took is not None else None for side in (old, new)]
    found.append(_numbers("GPU-hours", hours, lambda v: f"{v:,.1f}" if v < 100 else f"{v:,.0f}"))
    found.append(_numbers("took", (old.took, new.took), duration))
    found.append(Fact("state", state_words(old.row), state_words(new.row)))
    return [fact for fact in found if (fact.old, fact.new, fact.change) != ("-", "-", "")]


def _at_same_step(old: Readings, new: Readings, steps: Steps) -> Iterator[Fact]:
    """What both learned; `-` where neither has a value of a step that the other has one of."""
    name = figure_of(old, new)
    if name is None:
        return
    at = compared(old, new, name, steps).last
    if at is None:
        yield Fact(f"{name} at the same step", "-", "-", "no step in common")
    else:
        first, last, *values = at
        yield _numbers(f"{name} at {steps.words(last, first)}", values, partial(value_words, name))


def _last_step(old: Readings, new: Readings, steps: Steps) -> Fact:
    places = [found[-1][1] if (found := steps.places(side)) else None for side in (old, new)]
    before, after = ("-" if place is None else steps.words(place).removeprefix("step ") for place in places)
    change = _numbers("", [place and steps.along(place) for place in places], str).change
    return Fact("last step", before, after, change)


def mean_of(readings: Readings, name: str) -> float | None:
    """The mean of a series over all the time that was read."""
    known = [point.mid for point in readings.points.get(name, ()) if math.isfinite(point.mid)]
    return sum(known) / len(known) if known else None


def _numbers(label: str, pair: Sequence[float | None], words: Callable[[float], str]) -> Fact:
    """Two figures, and how much the new one is more or less; nothing where they lie on two sides of zero."""
    old, new = pair
    before, after = ("-" if value is None else words(value) for value in pair)
    change = ""
    if old and new is not None and math.isfinite(old) and math.isfinite(new):
        ratio = new / old
        change = f"{ratio:.0f} times" if ratio >= 10 else f"{(new - old) / abs(old):+.1%}" if ratio >= 0 else ""
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
