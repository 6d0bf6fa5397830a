"""How one rank ended, as a value with words."""

from __future__ import annotations

from distui.runs.lines.events import RankPhase
from distui.runs.verdict.ends.parts import Part
from distui.runs.verdict.evidence import Evidence, Stop
from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.failure import by_its_own_status, how_it_ended
from distui.runs.verdict.outcome import RankEnd, Relation


def end_of(evidence: Evidence, part: Part, rank: int, relation: Relation, first: str) -> RankEnd:
    """The end of one of a part's ranks."""
    return RankEnd(
        rank=rank,
        host=part.task.host,
        relation=relation,
        exit=part.code,
        words=_words(part, relation),
        at=part.failed_at if relation == "alike" else part.when.at if part.when is not None else None,
        by=stopper(part.stop) if _stopped(part, relation) else "",
        of=first if relation in ("followed", "alike") else "",
        oom=part.oom,
        state=_state(part, relation),
    )


def stopper(stop: Stop | None) -> str:
    """Who stopped it."""
    return (stop.by if stop is not None else "") or "distui"


def _stopped(part: Part, relation: Relation) -> bool:
    """Whether it ended by a stop; so did those that held the others up (`on_hang`)."""
    return relation == "stopped" or (relation == "first" and part.how == "stopped")


def _words(part: Part, relation: Relation) -> str:
    end = part.task.end
    if relation == "unknown" or end is None:
        return "" if part.how == "open" else how_it_ended(part)
    if relation == "stopped" and part.by_itself:
        return f"{how_it_ended(part)}, when the run was stopped"
    if _stopped(part, relation):
        gone = end.state == "removed" and part.code is None
        how = ", and gone" if gone else f" (exit {part.code})" if part.code is not None else ""
        return f"stopped by {stopper(part.stop)}{how}"
    if part.how == "taken":
        how = exit_words(part.code, engine=part.task.engine) if part.code is not None else "ended"
        return f"{how}, by torchrun"
    if part.how == "succeeded":
        return exit_words(0)
    return how_it_ended(part)


def _state(part: Part, relation: Relation) -> RankPhase:
    """As a `RankPhase`."""
    end = part.task.end
    if end is None:
        return "running" if part.how == "open" else "lost"
    if part.oom and part.how == "failed":
        return "oom"
    if _stopped(part, relation):
        return "stopped"
    if end.state == "never_started":
        return "never_started"
    if end.state == "removed" and part.code is None:
        return "removed"
    by_signal = part.code is not None and part.code > 128 and not by_its_own_status(part)
    return "killed" if by_signal else "exited"
