"""Which ends a stop made: when it began, and whether a rank fell to it or had ended, or failed, by itself before."""

from __future__ import annotations

from dataclasses import replace

from distui.plan.limit import reached
from distui.run.verdict.evidence import End, Evidence, Stop, TaskSeen
from distui.run.verdict.last_words import LastWords

STOP_CODES = frozenset({130, 137, 143})
"""Exit statuses that SIGINT, SIGKILL and SIGTERM leave: a rank that is stopped ends in one of these."""

SLACK = 5.0
"""Seconds by which ranks may end before the one that told of a stop from elsewhere."""

LIMIT = "max_duration"


def stops_of(evidence: Evidence) -> tuple[Stop, ...]:
    """The stops by the time they took effect, the first one first."""
    found = [_begun(evidence, stop) for stop in evidence.stops]
    limit = _limit(evidence, min((s.at for s in found), default=None))
    if limit is not None and not any(s.reason == "limit" for s in found):
        found.append(limit)
    return tuple(sorted(found, key=lambda s: (s.at, s.reason, s.by)))


def _begun(evidence: Evidence, stop: Stop) -> Stop:
    """A limit and the end of the tasks that matter had ended the run before anybody stopped the rest."""
    if stop.reason == "limit":
        ends = [t.end.at for t in evidence.tasks if t.end is not None and t.end.at is not None and _over(evidence, t)]
        return replace(stop, at=min([stop.at, *ends]), by=stop.by or LIMIT)
    if stop.reason == "done" and (done := done_at(evidence)) is not None:
        return replace(stop, at=min(stop.at, done))
    return stop


def _limit(evidence: Evidence, stopped_at: float | None) -> Stop | None:
    """The job's `max_duration` as a stop, where it ended a task before anything else did."""
    ends = [t.end.at for t in evidence.tasks if t.end is not None and t.end.at is not None and _over(evidence, t)]
    if not ends or (stopped_at is not None and stopped_at < min(ends)):
        return None
    return Stop(min(ends), "limit", LIMIT)


def _over(evidence: Evidence, task: TaskSeen) -> bool:
    """Whether the job's `max_duration` ended the task, by how long it lasted."""
    end, limit = task.end, evidence.rules.max_duration
    if end is None or end.oom or end.at is None or end.started_at is None:
        return False
    return reached(end.code, end.at - end.started_at, limit)


def done_at(evidence: Evidence) -> float | None:
    """When the last task ended whose end is the run's (`done_when`); None while one lives, or without such tasks."""
    ends = [t.end for t in evidence.tasks if t.index in evidence.rules.judges]
    times = [end.at if end.at is not None else end.seen_at for end in ends if end is not None]
    known = [at for at in times if at is not None]
    return max(known) if ends and len(known) == len(ends) else None


def stop_for(stops: tuple[Stop, ...], task: TaskSeen) -> Stop | None:
    """The first stop that meant this task."""
    return next((s for s in stops if s.tasks is None or task.index in s.tasks), None)


def _from_afar(stop: Stop) -> bool:
    """Whether somebody else stopped the run, host after host: others may have ended before its time, which is one's."""
    return stop.reason == "elsewhere" or bool(stop.by and stop.reason != "limit")


def seen_before(end: End, stop: Stop) -> bool:
    """Whether the end was known here before distui began to stop: whatever the clocks say, that was not its cause."""
    return not _from_afar(stop) and end.seen_at is not None and end.seen_at < stop.at


def caused(stop: Stop, end: End, code: int | None, at: float | None, doubt: float) -> bool:
    """Whether an end without words of its own is the stop's effect.

    After it began any status is (torchrun ends with 1 on SIGTERM, a program that saves its state with 0); within the
    clocks' doubt before it only a stop's own, or any of a task that the engine sent a signal. Out of memory never is.
    """
    if end.oom or seen_before(end, stop):
        return False
    if at is None:
        return True
    slack = doubt + (SLACK if _from_afar(stop) else 0.0)
    return at >= stop.at - (slack if code in STOP_CODES or code is None or end.signalled else 0.0)


def spoke_before(stop: Stop, words: LastWords | None, doubt: float) -> bool:
    """Whether a rank had begun to tell of its failure before the stop. What a stop can't bring about, an error of its
    own, may be as late as the clocks are off; that a peer went away must have been said clearly before.
    """
    if words is None or words.at is None:
        return False
    if words.weight == "own":
        return words.at < stop.at + doubt
    return words.at < stop.at - doubt - (SLACK if _from_afar(stop) else 0.0)
