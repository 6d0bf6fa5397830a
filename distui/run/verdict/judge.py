"""How a run ended and which rank explains it: `judge`, a pure function of all that is known.

The first failure is the earliest by its own first words, on one clock. A rank that only says that a peer went away, or
that it waited in vain, is not first where another failed in a way of its own, or was killed without a word. Ranks
that fail with the same words at about the same time failed alike; where the clocks can't tell, that is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from distui.plan.labels import format_ranks
from distui.run.events import rank_words
from distui.run.verdict.evidence import Evidence, Stop
from distui.run.verdict.failure import failure_of
from distui.run.verdict.last_words import LastWords
from distui.run.verdict.moments import Moment
from distui.run.verdict.outcome import Relation, Verdict
from distui.run.verdict.parts import Part, parts_of
from distui.run.verdict.result import bad_tasks, fails, result_of
from distui.run.verdict.silences import silence_words
from distui.run.verdict.stops import STOP_CODES, stops_of
from distui.run.verdict.words import end_of

ALIKE = 10.0
"""Seconds within which the same last words are one failure of several ranks."""
ALIKE_SILENT = 1.0
"""The same for ranks that say nothing and end with one status."""
WAITED = "it waited for others in vain, and which of them kept it waiting is not known"
ECHOED = "its words only follow from the end of another rank, and none that ended before it is known"

ECHO_LEAD = 30.0
"""Seconds by which an echo may be heard before the failure it echoes: a program may take leave of its peers first, and
print its traceback last.
"""


def judge(evidence: Evidence) -> Verdict:
    """The verdict on everything that is known. The same facts in any order give the same verdict."""
    stops = stops_of(evidence)
    parts = parts_of(evidence, stops)
    group = _first(parts)
    outcome, code = result_of(evidence, parts, stops)
    relations = {id(part): _relation(part, group, stops) for part in parts}
    ends = {
        rank: end_of(evidence, part, rank, relations[id(part)], group.who if group else "")
        for part in parts
        for rank in part.ranks
    }
    bad = bad_tasks(parts)
    return Verdict(
        outcome=outcome,
        exit=code,
        failure=None if group is None else failure_of(evidence, group.chief, group.alike, group.within, group.unsure),
        first=() if group is None else tuple(rank for part in group.members for rank in part.ranks),
        certainty="uncertain" if group is not None and group.unsure else "certain",
        ranks=ends,
        bad=bad,
        failed=fails(evidence, bad),
        over_limit=any(stop.reason == "limit" for stop in stops),
        notes=silence_words(evidence.silences, stops[0].at) if outcome == "stopped" and stops else (),
    )


@dataclass(frozen=True, slots=True)
class First:
    """The first failure, the ranks that failed like it, and those that may have been earlier."""

    chief: Part
    alike: tuple[Part, ...]
    near: tuple[Part, ...]
    unsure: str

    @property
    def members(self) -> tuple[Part, ...]:
        """All that may be called first, the one that is named before the others."""
        return (self.chief, *self.alike, *self.near)

    @property
    def within(self) -> float | None:
        """Seconds between the first and the last of those that failed alike."""
        times = [part.when.at for part in (self.chief, *self.alike) if part.when is not None]
        return max(times) - min(times) if len(times) > 1 else None

    @property
    def who(self) -> str:
        """`rank 3`, or the launcher's host."""
        return who(self.chief)


def who(part: Part) -> str:
    """`rank 13`, `worker/1`, `ranks 0-3 on h1`."""
    if len(part.ranks) == 1:
        return rank_words(part.ranks[0], part.task.name)
    return f"ranks {format_ranks(part.ranks)} on {part.task.host}"


def _first(parts: Sequence[Part]) -> First | None:
    failed = [part for part in parts if part.how == "failed"]
    if not failed:
        return None
    pool = _leading(failed)
    earliest = min(pool, key=_order)
    near = [p for p in pool if not _apart(p, earliest)]
    chief = min(near, key=lambda p: (not p.killed, *_order(p)))
    alike = tuple(p for p in failed if p is not chief and _alike(chief, p))
    others = tuple(p for p in near if p is not chief and p not in alike)
    return First(chief, alike, others, _doubts(chief, others))


def _leading(failed: Sequence[Part]) -> list[Part]:
    """Those that may have brought the others down: with a cause of their own, else that waited in vain, else all."""
    least = min(_weakness(p) for p in failed)
    strong = [p for p in failed if _weakness(p) == least]
    begun = min(_at(p) for p in strong)
    long_before = [p for p in failed if _weakness(p) > least and _at(p) < begun - ECHO_LEAD]
    return long_before or strong


def _weakness(part: Part) -> int:
    if part.words is None or part.killed:
        return 0
    return {"own": 0, "waited": 1, "echo": 2}[part.words.weight]


def _at(part: Part) -> float:
    return part.when.at if part.when is not None else math.inf


def _order(part: Part) -> tuple[float, tuple[int, ...]]:
    return _at(part), part.ranks


def _apart(a: Part, b: Part) -> bool:
    """Whether it is sure which of them failed earlier."""
    return a is not b and a.when is not None and b.when is not None and a.when.apart(b.when)


def _alike(a: Part, b: Part) -> bool:
    """Whether they failed in the same way at about the same time."""
    if a.when is None or b.when is None:
        return (a.error, a.code) == (b.error, b.code) and bool(a.error) and a.task.host == b.task.host
    silent = a.words is None or b.words is None
    if abs(a.when.at - b.when.at) > (ALIKE_SILENT if silent else ALIKE):
        return False
    if a.words is None or b.words is None:
        return (a.words, a.code, a.error, a.oom) == (b.words, b.code, b.error, b.oom)
    return _same_words(a.words, b.words) and a.killed == b.killed


def _same_words(a: LastWords, b: LastWords) -> bool:
    """Whether they say the same, or name one cause by the same kind of words."""
    return a.gist == b.gist or (a.cause is not None and (a.cause, a.weight) == (b.cause, b.weight))


def _doubts(chief: Part, others: Sequence[Part]) -> str:
    """Why it is not sure that this one was first, in words; "" when it is."""
    if others:
        named = ", ".join(who(p) + f" on {p.task.host}" for p in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        return f"{named}{more} failed at the same time as far as can be told ({_clocks(chief, others)})"
    return ("", WAITED, ECHOED)[_weakness(chief)]


def _clocks(chief: Part, others: Sequence[Part]) -> str:
    moments = [p.when for p in (chief, *others) if p.when is not None]
    spans = [m.late - m.early + (m.doubt if len({x.host for x in moments}) > 1 else 0.0) for m in moments]
    return f"their times are known to {1000 * sum(sorted(spans)[-2:]):.0f} ms"


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
    if group is None or part is group.chief:
        return "first"
    return "alike" if part in (*group.alike, *group.near) else "followed"


def _after_the_stop(part: Part, group: First | None) -> Relation:
    """A rank that raised what the first one raised did so by itself, though distui had begun to stop it."""
    words, end = part.words, part.task.end
    if group is None or words is None or words.at is None:
        return "stopped"
    unsignalled = end is not None and end.seen_at is not None and end.signalled is False and part.code not in STOP_CODES
    if unsignalled and (words.weight != "own" or _surely_after(part, group.chief)):
        return "followed"  # it ended by its own words before a signal reached it
    if words.weight != "own" and part.stop is not None and words.at < part.stop.at:
        return "followed"
    chief = group.chief
    if words.weight != "own" or chief.when is None or chief.words is None or not _same_words(words, chief.words):
        return "stopped"
    return "alike" if abs(words.at - chief.when.at) <= ALIKE else "stopped"


def _surely_after(part: Part, chief: Part) -> bool:
    return part.when is None or chief.when is None or chief.when.before(part.when)


def _before(when: Moment | None, group: First | None, stops: Sequence[Stop]) -> bool:
    """Whether a rank that ended well had surely done so before the first failure, or before the stop without one."""
    if when is None:
        return False
    if group is not None and group.chief.when is not None:
        return when.before(group.chief.when)
    return bool(stops) and when.late < stops[0].at
