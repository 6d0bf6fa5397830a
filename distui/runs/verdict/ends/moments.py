"""When something happened: a moment with its error, and which of two came first, if that can be known."""

from __future__ import annotations

import math
from dataclasses import replace

from distui.frozen import frozen
from distui.runs.verdict.ends.explain import down_at
from distui.runs.verdict.evidence import Evidence, HostSeen, TaskSeen
from distui.runs.verdict.lines.torchrun import AgentWords, ProcessEnd, since_report

SAID = 0.02
"""Seconds that a line may be older than Docker's stamp of it."""
TAILED = 0.15
"""The same under torchrun, which reads its ranks' files every 0.1 s (`tail_log.py`)."""
ARRIVED = 1.0
"""The same for processes, whose lines are stamped when they arrive here."""
CAUGHT_UP = 10.0
"""Seconds after which what was said while a host was out of reach has arrived, once it is back."""
NOTICED_LATE = 60.0
"""Seconds after which it is noticed that a host is out of reach, at the latest: pings have to fail first."""
ENDED = 0.3
"""Seconds that an end may be older than the engine says: it has a container to take down first."""
AWAY = 30.0
"""Seconds that a host may have been down before it was found to be out of reach."""
NOTICED = 0.6
"""Seconds that a rank's end may be older than torchrun's word of it; it looks every 0.1 s, or slower when busy."""


@frozen
class Moment:
    """A time on our clock. The truth lies between `early` and `late` by the host's own clock, which may be off by
    `doubt` seconds.
    """

    at: float
    early: float
    late: float
    host: str
    doubt: float
    shift: float = 0.0
    """Seconds by which that clock may have been set about then: so far its own times may be in the wrong order."""

    def before(self, other: Moment) -> bool:
        """Whether it was surely earlier."""
        return self.late + self._clocks(other) < other.early

    def apart(self, other: Moment) -> bool:
        """Whether it is sure which was earlier."""
        return self.before(other) or other.before(self)

    def _clocks(self, other: Moment) -> float:
        return max(self.shift, other.shift) if self.host == other.host else self.doubt + other.doubt


def said(evidence: Evidence, task: TaskSeen, at: float) -> Moment:
    """When a line was said that has this stamp; never after its task's end. Of a process's line, which is stamped when
    it arrives, nobody knows how long before that was where nothing could arrive for a while.
    """
    lag = ARRIVED if task.engine == "process" else TAILED if evidence.rules.launcher == "torchrun" else SAID
    end = task.end.at if task.end is not None else None
    latest = at if end is None else min(at, end)
    moment = _moment(evidence, task, latest, lag)
    gap = _unheard_since(evidence, task, at) if task.engine == "process" else None
    return moment if gap is None else replace(moment, early=min(moment.early, gap))


def _unheard_since(evidence: Evidence, task: TaskSeen, at: float) -> float | None:
    """Since when a line that arrived then may have been said, where it arrived late: with what came of a task that had
    ended before, or once its host was back. None where it came at once.
    """
    end, host = task.end.at if task.end is not None else None, evidence.hosts.get(task.host, HostSeen())
    if end is not None and at > end + ARRIVED + evidence.doubt(task.host, end):
        return _heard_last(task, end + ARRIVED)
    gone = max((since for since, back in host.away if since <= at <= back + CAUGHT_UP), default=None)
    return None if gone is None else min(max(_heard_last(task, gone), gone - NOTICED_LATE), gone)


def _heard_last(task: TaskSeen, until: float) -> float:
    """When the last line of a task arrived by then; when it started where none did, as far as that is known."""
    came = [line.at for lines in task.lines.values() for line in lines if line.at is not None and line.at <= until]
    started = task.end.started_at if task.end is not None else None
    return max(came, default=started if started is not None else -math.inf)


def ended(evidence: Evidence, task: TaskSeen) -> Moment | None:
    """When a task ended: with its host, by the engine's word, else when it was seen to have ended."""
    if task.end is None:
        return None
    if (down := down_at(evidence, task)) is not None:
        return _moment(evidence, task, down, AWAY)
    if (at := task.end.when) is None:
        return None
    lag = ENDED if task.end.at is not None else max(ENDED, ARRIVED)
    return _moment(evidence, task, at, lag)


def noticed(evidence: Evidence, task: TaskSeen, report: AgentWords, end: ProcessEnd | None) -> Moment | None:
    """When torchrun noticed that a rank had ended: by its words' stamp, else by the second in its report."""
    if report.noticed_at is not None:
        moment = said(evidence, task, report.noticed_at)
        return replace(moment, early=min(moment.early, moment.at - NOTICED))
    whole = ended(evidence, task)
    if whole is None or end is None or end.second is None:
        return whole
    ago = since_report(end.second, whole.at)
    at = whole.at - max(ago - 0.5, 0.0)
    return replace(whole, at=at, early=at - 0.5, late=min(at + 0.5, whole.late))


def _moment(evidence: Evidence, task: TaskSeen, at: float, lag: float) -> Moment:
    host = task.host
    return Moment(at, at - lag, at, host, evidence.doubt(host, at, at - lag), evidence.shift(host, at))
