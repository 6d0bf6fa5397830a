"""Which rank failed first, which failed like it, and what leaves that open.

The first failure is the earliest by its own first words, on one clock. A rank that only says that a peer went away, or
that it waited in vain, is not first where another failed in a way of its own, or was killed without a word. Ranks
that fail with the same words at about the same time failed alike; where the clocks can't tell, that is said. An error
that a rank reported and did not end by may have been handled: it counts less than one that ended another rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.lines.events import rank_words
from distui.runs.verdict.ends.moments import Moment, said
from distui.runs.verdict.ends.parts import HANDLED, Part
from distui.runs.verdict.ends.stops import STOP_CODES
from distui.runs.verdict.evidence import Evidence
from distui.runs.verdict.lines.last_words import LastWords, last_words

ALIKE = 10.0
"""Seconds within which the same last words are one failure of several ranks."""
ALIKE_SILENT = 1.0
"""The same for ranks that say nothing and end with one status."""
WORKED_ON = 8.0
"""Seconds after an error in which a program that fails may still say what it cleans up; later it has gone on."""
UNCLEAR = "its words may only follow from the end of another rank"
WAITED = "it waited for others in vain"
ECHOED = "its words only follow from the end of another rank"
NOBODY = {
    UNCLEAR: "none that ended before it is known",
    WAITED: "which of them kept it waiting is not known",
    ECHOED: "none that ended before it is known",
}

ECHO_LEAD = 30.0
"""Seconds by which an echo may be heard before the failure it echoes: a program may take leave of its peers first, and
print its traceback last.
"""
ECHO = 3
"""How weak it is that a rank tells of another's end."""
LEAVING = 5.0
"""Seconds that a program may take to end, on a busy host, after it has let go of its peers."""
LONG = 100.0
"""Seconds beyond which two times are not known at all."""
NAMED = 3
"""Ranks and hosts that a doubt names, at most."""


@frozen
class First:
    """The first failure, the ranks that failed like it, and those that may have been first instead."""

    first: Part
    alike: tuple[Part, ...]
    near: tuple[Part, ...]
    unsure: str
    ended_well: tuple[Part, ...] = ()
    """Where the first one only tells that others had gone: ranks that had ended with exit 0 by then, or just after."""

    @property
    def members(self) -> tuple[Part, ...]:
        """All that may be called first, the one that is named before the others."""
        return (self.first, *self.alike, *self.near)

    def has(self, part: Part) -> bool:
        """Whether this one may be called first."""
        return any(member is part for member in self.members)

    @property
    def within(self) -> float | None:
        """Seconds between the first and the last of those that failed alike."""
        times = [at for part in (self.first, *self.alike) if (at := part.failed_at) is not None]
        return max(times) - min(times) if len(times) > 1 else None

    @property
    def who(self) -> str:
        """`rank 3`, or the launcher's host."""
        return who(self.first)


def who(part: Part) -> str:
    """`rank 13`, `worker/1`, `ranks 0-3 on h1`."""
    if len(part.ranks) == 1:
        return rank_words(part.ranks[0], part.task.name)
    return f"{named_ranks(part.ranks)} on {part.task.host}"


def settled(evidence: Evidence, parts: Sequence[Part]) -> list[Part]:
    """The parts, without failures of ranks that worked on after their error until something else ended them.

    Where the others only waited, or lost a peer, such an error explains more than theirs do: then it counts. So does
    one that a rank raised before it said that it lost the others, too.
    """
    parts = _with_crashes(evidence, _begun_earlier(evidence, parts))
    went_on = [p for p in parts if p.how == "failed" and p.ended_for_it and _quiet_for(p) > WORKED_ON]
    others = [p for p in _without(parts, went_on) if p.how == "failed"]
    if others and all(_weakness(p) for p in others):
        return list(parts)
    gone = {id(p) for p in went_on}
    return [_not_failed(p) if id(p) in gone else p for p in parts]


def _begun_earlier(evidence: Evidence, parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, by their earlier errors where nobody's last words tell of one of its own.

    An error may have been handled by a rank that lost the others only long after it. It counts where another waited
    in vain, as for one that hangs in its error, unless a host that was lost is what they waited for.
    """
    failed = [part for part in parts if part.how == "failed"]
    if not all(_weakness(part) for part in failed):
        return parts
    waited = any(part.words is not None and part.words.weight == "waited" for part in failed)
    lost = any(part.how == "open" and _lost(evidence, part.task.host) for part in parts)
    most = math.inf if waited and not lost else HANDLED
    return [_as_begun(evidence, part, most) if part.how == "failed" else part for part in parts]


def _with_crashes(evidence: Evidence, parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, with a crash that was over only after the stop began as a failure, where all that failed before only
    tell that a peer had gone and no other is known to have.
    """
    failed = [part for part in parts if part.how == "failed"]
    echoes = bool(failed) and all(part.words is not None and _weakness(part) == ECHO for part in failed)
    if not echoes or any(_suspects(evidence, parts, part) for part in failed):
        return parts
    return [replace(part, how="failed") if part.crashed_in_the_stop else part for part in parts]


def _as_begun(evidence: Evidence, part: Part, most: float) -> Part:
    earlier = part.words.earlier if part.words is not None else None
    if earlier is None or earlier.at is None or earlier.lingered > most:
        return part
    return replace(part, words=earlier, when=said(evidence, part.task, earlier.at))


def _without(parts: Iterable[Part], *others: Iterable[Part]) -> list[Part]:
    gone = {id(part) for some in others for part in some}
    return [part for part in parts if id(part) not in gone]


def _quiet_for(part: Part) -> float:
    return part.words.quiet_for if part.words is not None else 0.0


def _not_failed(part: Part) -> Part:
    return replace(part, how="taken" if part.closed else "stopped", when=part.over, words=None, error="")


def first_of(evidence: Evidence, parts: Sequence[Part]) -> First | None:
    """The first failure; None when nothing failed by itself."""
    failed = [part for part in parts if part.how == "failed"]
    if not failed:
        return None
    handled = _handled(failed)
    pool = _leading(_without(failed, handled))
    earliest = min(pool, key=_order)
    near = [p for p in pool if not _apart(p, earliest)]
    first = min(near, key=lambda p: (not p.killed, *_order(p)))
    late = [part for part in parts if _failed_in_the_stop(first, part)]
    alike = sorted((p for p in (*failed, *late) if p is not first and _alike(first, p)), key=lambda p: p.ranks)
    near = _without(near, [first], alike)
    handled = _without(handled, alike)
    mute = [p for p in _without((*failed, *late), alike, near) if _mute_beside(evidence, first, p)]
    unsure = _unsure(evidence, parts, first, near, mute, handled)
    done = tuple(_done_before(parts, first)) if _weakness(first) else ()
    return First(first, tuple(alike), (*near, *mute, *handled), unsure, done)


def _handled(failed: Sequence[Part]) -> list[Part]:
    """Ranks that reported an error and did not end by it, long before another was ended by one of its own."""
    ended = [p for p in failed if not p.ended_for_it and not _lingers(p) and not _weakness(p)]
    begun = min((_at(p) for p in ended), default=-math.inf)
    return [p for p in failed if not _weakness(p) and begun - _at(p) > HANDLED and _was_there(p, begun)]


def _lingers(part: Part) -> bool:
    """Whether it ended so long after its error that it may have handled that. A crash takes its time to be written."""
    crashed = part.code is not None and part.code > 128 and part.code not in STOP_CODES
    if part.words is None or part.when is None or part.over is None or crashed:
        return False
    return part.over.at - part.when.at > HANDLED


def _was_there(part: Part, at: float) -> bool:
    """Whether it had not ended by then, though it had reported an error."""
    return part.ended_for_it or (_lingers(part) and part.over is not None and part.over.at > at)


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
    return {"own": 0, "unclear": 1, "waited": 2, "echo": ECHO}[part.words.weight]


def _at(part: Part) -> float:
    return part.when.at if part.when is not None else math.inf


def _order(part: Part) -> tuple[float, tuple[int, ...]]:
    return _at(part), part.ranks


def _apart(a: Part, b: Part) -> bool:
    """Whether it is sure which of them failed earlier."""
    return a is not b and a.when is not None and b.when is not None and a.when.apart(b.when)


def _failed_in_the_stop(first: Part, part: Part) -> bool:
    """Whether a rank that ended after the stop began did so by its own failure: without a signal, or with what the
    first one raised.
    """
    if part.how != "stopped":
        return False
    if part.words is None or first.words is None:
        return part.by_itself
    return part.words.weight == "own" and part.words.at is not None and _same_words(part.words, first.words)


def _alike(a: Part, b: Part) -> bool:
    """Whether they failed in the same way at about the same time."""
    one, other = a.failed_at, b.failed_at
    if one is None or other is None:
        return (a.error, a.code) == (b.error, b.code) and bool(a.error) and a.task.host == b.task.host
    silent = a.words is None or b.words is None
    if abs(one - other) > (ALIKE_SILENT if silent else ALIKE):
        return False
    if a.words is None or b.words is None:
        return (a.words, a.code, a.error, a.oom) == (b.words, b.code, b.error, b.oom)
    return _same_words(a.words, b.words) and (a.killed == b.killed or b.how == "stopped")


def _same_words(a: LastWords, b: LastWords) -> bool:
    """Whether they say the same, or name one cause, by the same kind of words."""
    return a.weight == b.weight and (a.gist == b.gist or (a.cause is not None and a.cause == b.cause))


def _mute_beside(evidence: Evidence, first: Part, part: Part) -> bool:
    """Whether a rank that said nothing ended as the first one did, before it or with it: when it failed is not known.

    Only whole tasks are compared: torchrun notices the ends of a node's ranks together.
    """
    if part is first or evidence.rules.launcher == "torchrun" or first.words is None or first.ended_for_it:
        return False
    if part.words is not None or part.killed or part.code != first.code or part.when is None or first.over is None:
        return False
    return not first.over.before(part.when)


def _unsure(
    evidence: Evidence,
    parts: Sequence[Part],
    first: Part,
    near: Sequence[Part],
    mute: Sequence[Part],
    handled: Sequence[Part],
) -> str:
    """Why it is not sure that this one was first, in words; "" when it is."""
    if near:
        return f"{named(near)} failed at the same time as far as can be known ({_clocks(first, near)})"
    if mute:
        return f"{named(mute)} ended no later, and said nothing of when and why"
    if handled:
        return f"{named(handled)} reported an error long before, and had not ended by it"
    if not _weakness(first):
        return _may_have_handled(parts, first)
    words = (UNCLEAR, WAITED, ECHOED)[_weakness(first) - 1]
    held = evidence.explanation
    if words == WAITED and held is not None and held.culprits:
        return "" if held.certainty == "certain" else f"{WAITED}, most likely for {named_ranks(held.culprits)}"
    return f"{words}, and {_suspects(evidence, parts, first) or NOBODY[words]}"


def _may_have_handled(parts: Sequence[Part], first: Part) -> str:
    """The doubt that is left where a rank reported an error, was still there long after, and nothing came of that."""
    lingered = first.words.lingered if first.words is not None else 0.0
    if lingered > HANDLED:
        return f"it was still there {lingered:.0f} s after its error: it may have handled it"
    stop = first.stop
    alone = all(p.how != "failed" or p.ended_for_it for p in parts)
    if first.closed or not first.ended_for_it or stop is None or not alone or stop.at - _at(first) <= HANDLED:
        return ""
    later = stop.at - _at(first)
    return f"it was still there {later:.0f} s after its error, when it was stopped: it may have handled it"


def _suspects(evidence: Evidence, parts: Sequence[Part], first: Part) -> str:
    """Who may have brought a rank down that only tells of others: ranks that had ended well, hosts out of reach."""
    done = _done_before(parts, first)
    away = [p.task.host for p in parts if p.how == "open" and _lost(evidence, p.task.host)]
    by_then = all(_ended_by(p, _at(first)) for p in done)
    how = "had ended with exit 0 by then" if by_then else "ended with exit 0 at about that time"
    words = [f"{named(done)} {how}"] if done else []
    words += [f"{', '.join(sorted(set(away))[:NAMED])} went out of reach"] if away else []
    return " and ".join(words)


def _done_before(parts: Sequence[Part], first: Part) -> list[Part]:
    """Those that had ended well by then; or just after it, where it lost peers and they had not, too."""
    well = [p for p in parts if p.how == "succeeded"]
    if _weakness(first) != ECHO:
        return [p for p in well if _ended_by(p, _at(first))]
    return [p for p in well if _ended_by(p, _at(first)) or (_ended_by(p, _at(first) + LEAVING) and not _lost_peers(p))]


def _lost_peers(part: Part) -> bool:
    """Whether a rank that ended well says at its end that it lost others, as who handles that does."""
    words = (last_words(part.task.lines.get(rank, ())) for rank in part.ranks)
    return any(found is not None and found.weight == "echo" for found in words)


def _ended_by(part: Part, at: float) -> bool:
    return part.when is not None and part.when.early <= at


def _lost(evidence: Evidence, host: str) -> bool:
    known = evidence.hosts.get(host)
    return known is not None and known.lost_at is not None


def named(parts: Sequence[Part]) -> str:
    """`rank 1 on h1, rank 3 on h2`, the first of them."""
    on = [who(p) if len(p.ranks) > 1 else f"{who(p)} on {p.task.host}" for p in parts[:NAMED]]
    return ", ".join(on) + (f" and {len(parts) - NAMED} more" if len(parts) > NAMED else "")


def _clocks(first: Part, others: Sequence[Part]) -> str:
    moments: list[Moment] = [p.when for p in (first, *others) if p.when is not None]
    spans = [m.late - m.early + (m.doubt if len({x.host for x in moments}) > 1 else 0.0) for m in moments]
    known = sum(sorted(spans)[-2:])
    if known > LONG:
        return "what they said arrived here late: when is not known"
    return f"their times are known to {1000 * known:.0f} ms"
