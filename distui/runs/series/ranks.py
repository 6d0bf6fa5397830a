"""What each rank says of its progress -> its own figures, step time and throughput. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from distui.plan.model import RunPlan
from distui.runs.lines.events import RanksStepped, RankStep
from distui.runs.series.figures import Figure, Said, figures_of
from distui.runs.series.values import Series

LATE_S = 5.0
"""What was said longer ago than that when it is reported is of then, not of now."""


def said_by_several(series: Sequence[Series]) -> list[Series]:
    """Those that more than one rank said of itself."""
    counts = Counter(one.name for one in series)
    return [one for one in series if counts[one.name] > 1]


class RankMeasure:
    """Knows what each rank said before. Of a run with one rank nothing: that is the run itself."""

    def __init__(self, plan: RunPlan) -> None:
        self._several = sum(len(task.ranks) for task in plan.tasks) > 1
        self._before: dict[int, RankStep] = {}

    def figures(self, event: RanksStepped) -> Iterator[tuple[float, list[Figure]]]:
        """What ranks said by when, those of one moment together."""
        if not self._several:
            return
        found: dict[float, list[Figure]] = {}
        for step in event.steps:
            before, self._before[step.rank] = self._before.get(step.rank), step
            at = event.at if event.at - step.at <= LATE_S else step.at
            values = figures_of(_said(step), _said(before) if before is not None else None, _pace(step, before))
            found.setdefault(at, []).extend((Series(name, step.rank), value) for name, value in values)
        yield from sorted(found.items(), key=lambda pair: pair[0])


def _said(step: RankStep) -> Said:
    return Said(step.at, step.values)


def _pace(step: RankStep, before: RankStep | None) -> float | None:
    """Seconds from step to step since this rank was asked last; None where they began again, or it said none before."""
    if before is None or step.epoch != before.epoch or step.step <= before.step or step.at <= before.at:
        return None
    return (step.at - before.at) / (step.step - before.step)
