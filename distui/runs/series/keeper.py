"""All that is kept of a run's measurements: over time, of each rank, and by the step. Never raises."""

from __future__ import annotations

from pathlib import Path

from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, HostSampled, Progressed, RanksStepped
from distui.runs.series.level import RANKS
from distui.runs.series.measure import Measure
from distui.runs.series.ranks import RankMeasure
from distui.runs.series.steps import StepCurve
from distui.runs.series.writer import SeriesWriter


class SeriesKeeper:
    """Takes the events of a run in, whatever they are."""

    def __init__(self, folder: Path) -> None:
        self._run = SeriesWriter(folder)
        self._ranks = SeriesWriter(folder, RANKS)
        self._steps = StepCurve(folder)
        self._measure: tuple[Measure, RankMeasure] | None = None

    def measure(self, plan: RunPlan) -> None:
        """What comes is of this plan from now on. Of a run that is attached to it may be another attempt than is in its
        files.
        """
        self._steps.begin(plan.attempt)
        self._measure = Measure(plan), RankMeasure(plan)

    def take(self, event: Event) -> None:
        """Keep what an event measures."""
        if self._measure is None:
            return
        run, ranks = self._measure
        match event:
            case HostSampled():
                self._run.put(event.at, run.figures(event))
            case Progressed():
                self._run.put(event.at, run.figures(event), event.values.get("step"))
                for values in event.passed:
                    self._steps.put(values, event.rank)
            case RanksStepped():
                for at, figures in ranks.figures(event):
                    self._ranks.put(at, figures)
            case _:
                pass

    def close(self) -> None:
        """Write what there is so far."""
        self._run.close()
        self._ranks.close()
        self._steps.flush()
