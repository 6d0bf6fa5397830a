"""How a run ended and which rank explains it: `judge`, a pure function of all that is known.

Who was first is decided in `first.py`; here is what became of the others, and of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from distui.runs.verdict.ends.moments import Moment
from distui.runs.verdict.ends.parts import Part, parts_of
from distui.runs.verdict.ends.stops import STOP_CODES, stops_of
from distui.runs.verdict.evidence import Evidence, Stop
from distui.runs.verdict.failure import failure_of
from distui.runs.verdict.first import First, first_of, settled
from distui.runs.verdict.hang import culprits_of, ended_by_hang, failure_of_hang
from distui.runs.verdict.outcome import Relation, Verdict
from distui.runs.verdict.result import bad_tasks, fails, result_of
from distui.runs.verdict.silences import silence_words
from distui.runs.verdict.success import LastWords, suspicions
from distui.runs.verdict.words import end_of


def judge(evidence: Evidence) -> Verdict:
    """The verdict on everything that is known. The same facts in any order give the same verdict."""
    stops = stops_of(evidence)
    parts = settled(evidence, parts_of(evidence, stops))
    group = first_of(evidence, parts)
    outcome, code = result_of(evidence, parts, stops)
    hung = outcome == "failed" and ended_by_hang(stops, group)
    group = None if hung else group
    held = culprits_of(evidence, parts) if hung else []
    relations = {id(part): _relation(part, group, stops) for part in parts}
    relations |= {id(part): "first" for part in held if part.how == "stopped"}
    ends = {
        rank: end_of(evidence, part, rank, relations[id(part)], group.who if group else "")
        for part in parts
        for rank in part.ranks
    }
    bad = bad_tasks(parts)
    failure = failure_of_hang(evidence, parts) if hung else failure_of(evidence, group) if group is not None else None
    return Verdict(
        outcome=outcome,
        exit=code,
        failure=failure,
        first=tuple(rank for part in (group.members if group is not None else held) for rank in part.ranks),
        certainty="uncertain" if failure is not None and failure.unsure else "certain",
        ranks=ends,
        bad=bad,
        failed=fails(evidence, bad),
        over_limit=any(stop.reason == "limit" for stop in stops),
        notes=silence_words(evidence.silences, stops[0].at) if outcome == "stopped" and stops else (),
        odd=_odd_ends(parts) if evidence.all_in and outcome in ("failed", "stopped") else (),
    )


def _odd_ends(parts: Sequence[Part]) -> tuple[str, ...]:
    """Ranks that ended with exit status 0 and last words that tell of an error: the others may have missed them."""
    well = [(rank, part.task) for part in parts if part.how == "succeeded" for rank in part.ranks]
    said = [(rank, task, [line.text for line in task.lines.get(rank, ())]) for rank, task in well]
    return suspicions([LastWords(rank, task.host, texts, task.name) for rank, task, texts in said])


def _relation(part: Part, group: First | None, stops: Sequence[Stop]) -> Relation:
    match part.how:
        case "open":
            return "unknown"
        case "stopped":
            return _after_the_stop(part, group)
        case "succeeded":
            return "before" if _before(part.when, group, stops) else "succeeded"
        case "taken":
            return "followed"
        case "failed":
            return _among_failed(part, group)


def _among_failed(part: Part, group: First | None) -> Relation:
    if group is None or part is group.first:
        return "first"
    return "alike" if group.has(part) else "followed"


def _after_the_stop(part: Part, group: First | None) -> Relation:
    """A rank that raised what the first one raised did so by itself, though distui had begun to stop it."""
    words, end = part.words, part.task.end
    if group is None:
        return "stopped"
    if group.has(part):
        return "alike"
    if words is None or words.at is None:
        return "followed" if part.by_itself and _surely_after(part, group.first) else "stopped"
    unsignalled = end is not None and end.seen_at is not None and end.signalled is False and part.code not in STOP_CODES
    if unsignalled and (words.weight != "own" or _surely_after(part, group.first)):
        return "followed"  # it ended by its own words before a signal reached it
    early = words.weight != "own" and part.stop is not None and words.at < part.stop.at
    return "followed" if early else "stopped"


def _surely_after(part: Part, first: Part) -> bool:
    return part.when is None or first.when is None or first.when.before(part.when)


def _before(when: Moment | None, group: First | None, stops: Sequence[Stop]) -> bool:
    """Whether a rank that ended well had surely done so before the first failure, or before the stop without one."""
    if when is None:
        return False
    if group is not None and group.first.when is not None:
        return when.before(group.first.when)
    return bool(stops) and when.late + when.doubt < stops[0].at
