"""How a run ended and which rank explains it, from what the engines say of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distui.plan.model import Task
from distui.run.causes import Cause
from distui.run.diagnose import Ended, Root, cause_of, cause_of_exit, exit_words, first_of, torchrun_root
from distui.run.events import Failure
from distui.run.lines import excerpt

CLOCK_DOUBT = 0.002
"""Seconds two clocks may differ at the least, whatever the probe measured."""

ZONE_STEP = 900
"""Seconds: offsets of the world's time zones are multiples of a quarter of an hour."""

STOP_CODES = frozenset({130, 137, 143})
"""Exit statuses that SIGINT, SIGKILL and SIGTERM leave: a rank we stopped ends in one of these."""


@dataclass(frozen=True, slots=True)
class Exit:
    """What the engine says of one task's end. `finished_at` is the host's clock in UTC seconds."""

    code: int | None
    oom: bool = False
    error: str = ""
    finished_at: float | None = None

    @property
    def bad(self) -> bool:
        """Whether the task failed, by its code or the engine's out-of-memory flag."""
        return self.code != 0 or self.oom


@dataclass(frozen=True, slots=True)
class Evidence:
    """One task that ended badly by itself, with the last lines of each of its ranks (None: the launcher's own)."""

    task: Task
    exit: Exit
    at: float
    """When the task ended, in our clock."""
    doubt: float
    tails: Mapping[int | None, Sequence[str]]


def corrected(finished_at: float | None, offset_ms: float | None, *, otherwise: float) -> float:
    """A host's time in our clock: minus its offset; `otherwise` when the engine gave no time."""
    return otherwise if finished_at is None else finished_at - (offset_ms or 0.0) / 1000


def stopped_by_us(exit: Exit, at: float, stop_began: float | None, doubt: float) -> bool:
    """Whether an end is the effect of a stop: any status after it began (torchrun ends with 1 on SIGTERM, a program
    that saves its state with 0), within `doubt` before it only with a stop's own status. Out of memory never is.
    """
    if stop_began is None or exit.oom or exit.code is None:
        return False
    return at >= stop_began - (doubt if exit.code in STOP_CODES else 0.0)


def first_failure(evidence: Sequence[Evidence], announced: int | None = None) -> tuple[int, Failure] | None:
    """The failure that explains the run: who failed first across hosts, how, and why in words; with its task."""
    chosen = first_of([_ended(e) for e in evidence], announced)
    if chosen is None:
        return None
    return chosen.key, _failure(next(e for e in evidence if e.task.index == chosen.key))


def not_told_apart(evidence: Sequence[Evidence], first: int) -> tuple[Evidence, ...]:
    """Tasks of other hosts that ended badly so near to task `first` that the clocks can't tell who was first.

    Those that say themselves that a peer went away are not meant: they came after.
    """
    its = next(e for e in evidence if e.task.index == first)
    chosen = _ended(its)

    def near(other: Evidence) -> bool:
        end = _ended(other)
        return not end.secondary and abs(end.at - chosen.at) <= end.doubt + chosen.doubt

    return tuple(e for e in evidence if e.task.host != its.task.host and near(e))


def _ended(evidence: Evidence) -> Ended:
    cause = _cause(evidence)
    at, doubt = _when(evidence)
    return Ended(evidence.task.index, at, doubt, bool(cause and cause.secondary))


def _root(evidence: Evidence) -> Root | None:
    """What torchrun's own report blames, if the launcher printed one."""
    return torchrun_root(list(evidence.tails.get(None, ())))


def _when(evidence: Evidence) -> tuple[float, float]:
    """When it failed in our clock, and the doubt: torchrun ends only after it has stopped the node's other ranks.

    Its report tells the second, in the container's time zone, which we do not know: zones differ by quarters of an
    hour, so the failure is taken to lie less than one before the end.
    """
    root, finished = _root(evidence), evidence.exit.finished_at
    if root is None or root.second is None or finished is None:
        return evidence.at, evidence.doubt
    before = (finished - root.second) % ZONE_STEP
    return evidence.at - max(before - 0.5, 0.0), evidence.doubt + 0.5


def _all_lines(evidence: Evidence) -> list[str]:
    return [line for lines in evidence.tails.values() for line in lines]


def _own_lines(evidence: Evidence) -> Sequence[str]:
    """What the blamed rank said; nothing when it said nothing."""
    own = evidence.tails.get(_blamed(evidence)[0], ())
    return own if any(line.strip() for line in own) else ()


def _cause(evidence: Evidence) -> Cause | None:
    """The cause by the blamed rank's own words, else by all of its task. That a peer went away explains only who says
    so himself: beside a rank that failed by itself it is the others' echo of it.
    """
    own = _own_lines(evidence)
    found = cause_of(own) or cause_of(_all_lines(evidence))
    echo = found is not None and found.secondary and bool(own) and cause_of(own) is None
    return None if echo else found


def _failure(evidence: Evidence) -> Failure:
    task, exit = evidence.task, evidence.exit
    at, _ = _when(evidence)
    rank, code = _blamed(evidence)
    lines = _own_lines(evidence) or _all_lines(evidence)
    cause = _cause(evidence)
    if cause is None or cause.secondary:
        cause = cause_of_exit(code, oom=exit.oom, error=exit.error) or cause
    return Failure(
        rank=rank,
        host=task.host,
        exit=code,
        words=exit_words(code, oom=exit.oom, error=exit.error, engine=task.engine),
        cause=cause.text if cause else "",
        hint=cause.hint if cause else "",
        excerpt=excerpt(lines),
        at=at,
        name=task.name if task.labels.get("distui.name") else "",
    )


def _blamed(evidence: Evidence) -> tuple[int | None, int | None]:
    """Rank and exit code: torchrun's own report names the rank when a task holds several.

    By its local rank: with the c10d rendezvous torchrun numbers ranks as it likes.
    """
    root = _root(evidence)
    if root is not None:
        ranks = evidence.task.ranks
        return ranks[root.local] if root.local is not None and root.local < len(ranks) else root.rank, root.code
    only = evidence.task.ranks[0] if len(evidence.task.ranks) == 1 else None
    return only, evidence.exit.code
