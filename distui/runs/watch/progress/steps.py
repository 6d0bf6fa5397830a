"""How far each rank is: read out of what ranks print, with the job's own pattern, once a second for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from distui.frozen import replace
from distui.plan.model import RunPlan
from distui.runs.lines.events import RanksStepped, RankStep
from distui.runs.lines.text import last_drawn, safe, text_of
from distui.runs.state.figures import FigurePattern
from distui.runs.state.progress import EVERY_S, PACE, READ_CHARS, number
from distui.runs.watch.track import TaskTrack

NEAR = 4
"""So many lines of all ranks are looked at in one question; most say their step in one of them."""
MOST = 1e15
"""No step and no epoch is beyond this: they are compared, and shown without a fraction."""

Said = Sequence[tuple[float | None, bytes]]
"""Lines with their times, the newest first."""


class StepWatch:
    """Tells once a second which ranks said another step."""

    def __init__(self, plan: RunPlan) -> None:
        regex = plan.progress or ""
        self._pattern = FigurePattern(regex, pace=PACE) if "(?P<step>" in regex else None
        self._reported_at = float("-inf")
        self._known: dict[int, RankStep] = {}

    def news(self, tracks: Iterable[TaskTrack], now: float, *, last: bool = False) -> RanksStepped | None:
        """What is new since this was asked last; None where nothing is, or the last time was less than a second ago,
        unless this is the `last`.
        """
        if not (last or self.due(now)):
            return None
        return self.of_lines({rank: said for track in tracks for rank, said in track.news_of_ranks().items()}, now)

    def due(self, now: float) -> bool:
        """Whether it is to be asked again: steps are looked for, and the last time was a second ago."""
        return self._pattern is not None and not 0 <= now - self._reported_at < EVERY_S

    def of_lines(self, said: Mapping[int, Said], now: float) -> RanksStepped | None:
        """What is new in what these ranks said last."""
        if self._pattern is None:
            return None
        self._reported_at = now
        said = {rank: lines for rank, lines in said.items() if lines}
        found = self._near(said, now)
        for rank, lines in said.items():
            if rank not in found and len(lines) > NEAR:
                found.update(self._search(rank, lines[NEAR:], now))
        news = [self._dated(step, now) for _, step in sorted(found.items()) if self._is_new(step)]
        self._known.update({step.rank: step for step in news})
        return RanksStepped(now, tuple(news)) if news else None

    def _is_new(self, step: RankStep) -> bool:
        known = self._known.get(step.rank)
        return known is None or (known.step, known.epoch) != (step.step, step.epoch)

    def _dated(self, step: RankStep, now: float) -> RankStep:
        """A line has the time of its beginning, of a progress bar long ago: one that tells another step than the last
        one, and has an earlier time, went on since.
        """
        known = self._known.get(step.rank)
        return replace(step, at=now) if known is not None and step.at < known.at else step

    def _near(self, said: Mapping[int, Said], now: float) -> dict[int, RankStep]:
        """The newest step of each rank that has one in its last lines."""
        assert self._pattern is not None
        asked = [(rank, at, line) for rank, lines in said.items() for at, line in lines[:NEAR]]
        found: dict[int, RankStep] = {}
        for index, match in self._pattern.each([_text(line) for _, _, line in asked]):
            rank, at, _ = asked[index]
            step = _step(rank, match.groupdict(), at, now)
            if step is not None and rank not in found:
                found[rank] = step
        return found

    def _search(self, rank: int, lines: Said, now: float) -> dict[int, RankStep]:
        assert self._pattern is not None
        match = self._pattern.first([_text(line) for _, line in lines])
        step = _step(rank, match[1].groupdict(), lines[match[0]][0], now) if match is not None else None
        return {rank: step} if step is not None else {}


def _text(line: bytes) -> str:
    return safe(text_of(last_drawn(line)[:READ_CHARS]))


def _step(rank: int, groups: dict[str, str | None], at: float | None, now: float) -> RankStep | None:
    values = {name: value for name, text in groups.items() if text and (value := number(text)) is not None}
    if not (abs(values.get("step", math.nan)) < MOST and abs(values.get("epoch", 0.0)) < MOST):
        return None
    step, epoch = values.pop("step"), values.pop("epoch", None)
    return RankStep(rank, step, now if at is None else min(at, now), epoch, values)
