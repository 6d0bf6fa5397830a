"""The failure of a run that was stopped since its ranks stood still (`on_hang`): who held the others up, and why."""

from __future__ import annotations

from collections.abc import Sequence

from distui.runs.lines.events import Failure
from distui.runs.lines.text import excerpt
from distui.runs.verdict.ends.parts import Part
from distui.runs.verdict.evidence import Evidence, Stop
from distui.runs.verdict.failure import said_last
from distui.runs.verdict.first import First

UNSURE = "what its ranks tell leaves other causes possible"


def ended_by_hang(stops: Sequence[Stop], group: First | None) -> bool:
    """Whether it is why the run ended: no rank failed before by something of its own."""
    first = next((stop for stop in stops if stop.reason != "done" and stop.tasks is None), None)
    if first is None or first.reason != "hang":
        return False
    words = group.first.words if group is not None else None
    return group is None or (words is not None and words.weight != "own" and not group.first.killed)


def culprits_of(evidence: Evidence, parts: Sequence[Part]) -> list[Part]:
    """Those that held the others up, in the order of their ranks."""
    held = evidence.explanation.culprits if evidence.explanation is not None else ()
    return [part for part in parts if set(part.ranks) & set(held)]


def failure_of_hang(evidence: Evidence, parts: Sequence[Part]) -> Failure:
    """The failure; of the run as a whole where nobody is to blame, or nobody here knows any more who was."""
    found, culprits = evidence.explanation, culprits_of(evidence, parts)
    cause, hint, since = (found.headline, found.advice, found.since) if found is not None else ("", "", None)
    unsure = UNSURE if found is not None and found.certainty != "certain" else ""
    if not culprits or found is None:
        words = "its ranks stood still, and it was stopped"
        return Failure(None, "", None, words, cause, hint, at=since, name="the run", unsure=unsure)
    part, rank = culprits[0], found.culprits[0]
    return Failure(
        rank=rank,
        host=part.task.host,
        exit=None,
        words="it held the others up, and the run was stopped",
        cause=cause,
        hint=hint,
        excerpt=excerpt(said_last(part, rank, until=part.stop.at if part.stop is not None else None)),
        at=since,
        name=part.task.name,
        alike=found.culprits[1:],
        unsure=unsure,
    )
