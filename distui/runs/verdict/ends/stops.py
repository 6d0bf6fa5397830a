"""Which ends a stop made: when it began, and whether a rank fell to it or had ended, or failed, by itself before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from distui.plan.command.limit import SLACK as LATE
from distui.plan.command.limit import reached
from distui.runs.verdict.evidence import End, Evidence, Stop, TaskSeen
from distui.runs.verdict.lines.last_words import LastWords

STOP_CODES = frozenset({130, 137, 143})
"""Exit statuses that SIGINT, SIGKILL and SIGTERM leave: a rank that is stopped ends in one of these."""

KILLED = 137
"""The one that a stop leaves at its end only."""

SLACK = 5.0
"""Seconds by which ranks may end before the one that reported a stop from elsewhere."""

LIMIT = "max_duration"


class Over(NamedTuple):
    """The end of a task that the job's `max_duration` brought about, by how long it lasted."""

    early: float
    """When it was asked to end, at the earliest: engines stamp its start after the fact."""
    due: float
    """The same by that stamp, or by its end."""
    ended: float


def stops_of(evidence: Evidence) -> tuple[Stop, ...]:
    """The stops by the time they took effect, the first one first."""
    over = list(_over(evidence))
    found = [_begun(evidence, stop, over) for stop in evidence.stops]
    if over and not any(s.reason == "limit" or _before(s, over) for s in found):
        found.append(Stop(min(o.early for o in over), "limit", LIMIT))
    return tuple(sorted(found, key=lambda s: (s.at, s.reason, s.by)))


def _begun(evidence: Evidence, stop: Stop, over: Iterable[Over]) -> Stop:
    """A limit and the end of the tasks that matter had ended the run before anybody stopped the rest."""
    if stop.reason == "limit":
        return replace(stop, at=min([stop.at, *(o.early for o in over)]), by=stop.by or LIMIT)
    if stop.reason == "done" and (done := done_at(evidence)) is not None:
        return replace(stop, at=min(stop.at, done))
    return stop


def _before(stop: Stop, over: Sequence[Over]) -> bool:
    """Whether a stop began before the limit did. One that follows on the end of a task counts from that end on."""
    if stop.reason in ("failure", "done"):
        return stop.at < min(o.ended for o in over)
    return stop.at < min(o.due for o in over)


def _over(evidence: Evidence) -> Iterator[Over]:
    """The tasks that the job's `max_duration` ended."""
    limit = evidence.rules.max_duration
    for task, end in ((task, task.end) for task in evidence.tasks if task.end is not None):
        if limit is None or end.oom or end.at is None or end.started_at is None:
            continue
        doubt = evidence.set_by(task)
        if reached(end.code, end.at - end.started_at, limit, doubt):
            due = end.at if doubt else end.started_at + limit
            yield Over(due - LATE, min(due, end.at), end.at)


def done_at(evidence: Evidence) -> float | None:
    """When the last task ended whose end is the run's (`done_when`); None while one lives, or without such tasks."""
    ends = [t.end for t in evidence.tasks if t.index in evidence.rules.judges]
    known = [at for end in ends if end is not None and (at := end.when) is not None]
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


def done_by_then(evidence: Evidence, stop: Stop, end: End, doubt: float) -> bool:
    """Whether a task had ended when a stop was asked for that counts from an earlier moment on, at which the tasks had
    ended whose end is the run's: what others failed of since then is its effect, but who was done was not stopped.
    """
    asked = min((known.at for known in evidence.stops if known.reason == "done"), default=stop.at)
    if stop.reason != "done" or _from_afar(stop):
        return False
    seen = end.seen_at is not None and end.seen_at < asked
    return seen or (end.at is not None and end.at < asked - doubt)


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


def fell(stop: Stop, task: TaskSeen, end: End, code: int | None) -> bool:
    """Whether distui saw a task fall to its stop, whatever the host's clock says: it lived when the stop was sent to
    it, was seen to end afterwards, and ended as a stop ends one.

    An engine tells whom it sent a signal. Without one, SIGKILL comes only once a stop's grace is over.
    """
    lived = task.index in stop.live and not _from_afar(stop) and end.seen_at is not None
    if not lived or end.oom or end.state != "exited" or code not in STOP_CODES or seen_before(end, stop):
        return False
    return bool(end.signalled) or (task.engine == "process" and code != KILLED)


def spoke_before(stop: Stop, words: LastWords | None, doubt: float) -> bool:
    """Whether a rank had begun to tell of its failure before the stop. What a stop can't bring about, an error of its
    own, may be as late as the clocks are off; that a peer went away must have been said clearly before.
    """
    if words is None or words.at is None:
        return False
    if words.weight == "own":
        return words.at < stop.at + doubt
    return words.at < stop.at - doubt - (SLACK if _from_afar(stop) else 0.0)
