"""How far each rank is, read out of the logs here: of a run that has ended, and beside the process that follows one.

The steps themselves are not stored: they stand in the logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, LogLines, RanksStepped, RunOpened
from distui.runs.store.runs import StoredRun
from distui.runs.watch.progress.steps import StepWatch
from distui.runs.watch.track import lines_in

MOST_LINES = 200
"""Of a rank, that wait until they are looked at."""


def last_steps(stored: StoredRun, plan: RunPlan, now: float) -> RanksStepped | None:
    """The last step of each rank of the newest attempt, as of when it was said."""
    return StepWatch(plan).of_lines({rank: _tail(stored, rank, now) for task in plan.tasks for rank in task.ranks}, now)


def _tail(stored: StoredRun, rank: int, now: float) -> list[tuple[float | None, bytes]]:
    """Its last lines, the newest first; where no times are kept, as of when its log was last written to."""
    path = stored.rank_log(rank)
    try:
        written = min(now, path.stat().st_mtime)
    except OSError:
        return []
    return [(written if at is None else at, line) for at, line in reversed(lines_in(path))]


class LoggedSteps:
    """Takes the lines of ranks as they are read, and tells once a second which ranks said another step."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._watch = StepWatch(plan)
        self._said: dict[int, deque[tuple[float | None, bytes]]] = {}

    def before(self, stored: StoredRun, now: float) -> RanksStepped | None:
        """What the logs say already."""
        return last_steps(stored, self._plan, now)

    def take(self, events: Iterable[Event]) -> None:
        """What ranks said; another attempt begins again."""
        for event in events:
            if isinstance(event, RunOpened):
                self._watch, self._said = StepWatch(self._plan), {}
            elif isinstance(event, LogLines) and event.rank is not None:
                kept = self._said.setdefault(event.rank, deque(maxlen=MOST_LINES))
                kept.extendleft((event.at, line.text.encode(errors="replace")) for line in event.lines)

    def news(self, now: float, *, last: bool = False) -> RanksStepped | None:
        """What is new since this was asked last; None also less than a second after that, unless this is the `last`."""
        if not self._said or not (last or self._watch.due(now)):
            return None
        said, self._said = self._said, {}
        return self._watch.of_lines({rank: tuple(lines) for rank, lines in said.items()}, now)
