"""The outcome of the run and its exit code: from how its ranks ended, who stopped it, what the job says of its end."""

from __future__ import annotations

from collections.abc import Sequence

from distui.errors import ExitCode
from distui.runs.lines.events import RunOutcome
from distui.runs.state import elastic
from distui.runs.verdict.ends.parts import Part
from distui.runs.verdict.evidence import Evidence, Stop


def bad_tasks(parts: Sequence[Part]) -> frozenset[int]:
    """Tasks that ended badly by themselves."""
    return frozenset(p.task.index for p in parts if p.how == "failed" and p.task.end is not None)


def fails(evidence: Evidence, bad: frozenset[int]) -> bool:
    """Whether the run fails because of these tasks."""
    rules = evidence.rules
    return elastic.too_few(len(evidence.tasks), rules.min_nodes, rules.keeper, bad)


def result_of(evidence: Evidence, parts: Sequence[Part], stops: Sequence[Stop]) -> tuple[RunOutcome, int]:
    """Outcome and exit code, first match wins: unknown, the job's limit, the tasks that count, a stop, a failure."""
    bad = bad_tasks(parts)
    if evidence.unfound or _unknown(evidence, bad):
        return "unknown", ExitCode.CONTACT_LOST
    if any(stop.reason == "limit" for stop in stops):
        return "stopped", ExitCode.TIMEOUT
    if (code := _judged(evidence, parts)) is not None:
        return ("failed", code) if code else ("succeeded", ExitCode.OK)
    first = next((s for s in stops if s.reason != "done" and s.tasks is None), None)
    if first is not None and first.reason in ("user", "timeout"):
        return _stopped(first, parts)
    failed = fails(evidence, bad) or (first is not None and first.reason in ("failure", "hang"))
    if failed:
        return "failed", ExitCode.RANK_FAILED
    if first is not None and first.reason == "elsewhere" and any(p.how == "stopped" for p in parts):
        return "stopped", ExitCode.TERMINATED
    return "succeeded", ExitCode.OK


def _stopped(stop: Stop, parts: Sequence[Part]) -> tuple[RunOutcome, int]:
    if all(part.how == "succeeded" for part in parts):
        return "succeeded", ExitCode.OK
    usual = ExitCode.TIMEOUT if stop.reason == "timeout" else ExitCode.INTERRUPTED
    return "stopped", usual if stop.exit is None else stop.exit


def _unknown(evidence: Evidence, bad: frozenset[int]) -> bool:
    """Whether tasks' ends were never seen, and matter."""
    unseen = frozenset(t.index for t in evidence.tasks if t.end is None)
    if not unseen:
        return False
    return evidence.rules.min_nodes is None or fails(evidence, unseen | bad)


def _judged(evidence: Evidence, parts: Sequence[Part]) -> int | None:
    """The exit code of a run that `done_when` ends: its first judge's own (the chief's, or worker 0's), not one that
    our stop gave it.

    None when the run has no such tasks, or not all of them ended by themselves.
    """
    judges = evidence.rules.judges
    own = {p.task.index: p for p in parts if p.task.index in judges and p.how in ("failed", "succeeded")}
    if not judges or len(own) < len(judges):
        return None
    if all(p.how == "succeeded" for p in own.values()):
        return ExitCode.OK
    chief = own[judges[0]]
    return ExitCode.RANK_FAILED if chief.outlived else chief.code or ExitCode.RANK_FAILED
