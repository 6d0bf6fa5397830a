"""The first failure as it is reported: who, how, why in words, what was said, and who failed alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distui.regex import regex
from distui.runs.lines.events import Failure
from distui.runs.lines.severity import severity
from distui.runs.lines.text import excerpt
from distui.runs.verdict.ends.parts import CRASHES, HANDLED, Part
from distui.runs.verdict.ends.stops import KILLED, STOP_CODES
from distui.runs.verdict.evidence import Evidence
from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.first import NAMED, First, named, who
from distui.runs.verdict.lines.by_then import said_by_then
from distui.runs.verdict.lines.diagnose import cause_of_exit
from distui.runs.verdict.lines.plain import plain
from distui.runs.verdict.lines.rules.cause import CRASH_HINT, IN_VAIN, OTHERS, Cause
from distui.runs.verdict.lines.rules.mpi import UNSTARTED

ENGINES = 125
"""The status of an engine that could not start a container: of one that said something it is the program's own."""
START_CODES = (ENGINES, 126, 127)
STARTS = 5.0
"""Seconds within which a command that can't be started has ended."""
_NOT_STARTED = regex(r"not found|no such file|permission denied|can(?:no|')t exec|\bexec\b", re.IGNORECASE)
_DUMPED = "Fatal Python error: "
"""How faulthandler begins to tell where a program crashed."""
_TELLING = regex(r"\bSIG[A-Z]{2,6}\b|\b[Ss]ignal:? \d")
"""Why a rank ended that ended well: most often somebody sent it a signal."""
TELLING, LONGEST = 20, 160
"""Last lines in which that is looked for, and characters of it that are said."""


def failure_of(evidence: Evidence, group: First) -> Failure:
    """The failure that explains the run."""
    part, task = group.first, group.first.task
    cause = cause_of_part(part)
    held = evidence.explanation if cause in IN_VAIN else None
    return Failure(
        rank=part.ranks[0] if len(part.ranks) == 1 else None,
        host=task.host,
        exit=part.code,
        words=f"torchrun {how_it_ended(part)}" if _agent_killed(evidence, part) else how_it_ended(part),
        cause="; ".join(text for text in (cause.text if cause else "", held.headline if held else "") if text),
        hint=(held.advice if held else "") or _hint(evidence, group, cause),
        excerpt=excerpt((part.words.own if part.words is not None else ()) or _said(part)),
        at=part.when.at if part.when is not None else None,
        name=task.name if len(part.ranks) == 1 else "",
        alike=tuple(sorted(rank for other in group.alike for rank in other.ranks)),
        within=group.within,
        unsure=group.unsure,
    )


def _agent_killed(evidence: Evidence, part: Part) -> bool:
    """Whether it was torchrun itself that was killed, and no rank of it said why: they went with it."""
    several = len(part.ranks) > 1 and evidence.rules.launcher == "torchrun"
    return several and part.code is not None and part.code > 128 and part.killed and not (part.oom or part.error)


def how_it_ended(part: Part) -> str:
    """Its own end in words, which may be those of several ranks."""
    end = part.task.end
    if end is None:
        return f"{_how_reported(part)}, end not known"
    if part.code is None and part.words is not None and not part.error:
        return "raised an error" if part.words.weight == "own" and part.words.raised else "reported an error"
    if part.closed:
        return f"{_how_reported(part)}, and had not ended when stopped by torchrun (exit {part.code})"
    if part.ended_for_it and (part.code in STOP_CODES or _stayed(part)):
        return f"{_how_reported(part)}, and had not ended when stopped (exit {part.code})"
    engine = "" if by_its_own_status(part) else part.task.engine
    return exit_words(part.code, oom=part.oom, error=part.error, engine=engine)


def _stayed(part: Part) -> bool:
    """Whether it was stopped long after its error: the status that it ended with came of the stop."""
    at, stop = part.failed_at, part.stop
    return at is not None and stop is not None and stop.at - at > HANDLED


def by_its_own_status(part: Part) -> bool:
    """Whether it ended by one of the statuses that engines and shells keep for commands that can't be started, though
    it had run for a while and said nothing of that, or said anything where it is the engine's. Or by mpirun's number
    for that, which is no signal's.
    """
    if part.words is not None and part.words.cause == UNSTARTED:
        return True
    end = part.task.end
    if part.code not in START_CODES or part.error or end is None or end.state == "never_started":
        return False
    said = _said(part)
    if part.code == ENGINES and said:
        return True
    if end.at is None or end.started_at is None or end.at - end.started_at < STARTS:
        return False
    return not any(_NOT_STARTED.search(text) for text in said)


def _how_reported(part: Part) -> str:
    """How it reported its failure."""
    return "raised an error" if part.words is None or part.words.raised else "reported an error"


def _hint(evidence: Evidence, group: First, cause: Cause | None) -> str:
    """What to do about the cause; nothing that was done already."""
    if cause is not None and cause.hint == OTHERS and group.ended_well:
        return f"find out why {named(group.ended_well)} ended before the others{_said_at_end(group.ended_well)}"
    if cause is not None and cause.with_code and evidence.rules.code:
        return cause.with_code
    if cause is None or cause.hint != CRASH_HINT or not any(_DUMPED in text for text in _said(group.first)):
        return cause.hint if cause else ""
    return "faulthandler's lines in its log tell where"


def _said_at_end(parts: Sequence[Part]) -> str:
    """`; rank 1 said last: "Received SIGTERM: 15"`, of the first of them that said something; empty where none did."""
    for part in parts[:NAMED]:
        lines = [line.text for rank in part.ranks for line in part.task.lines.get(rank, ())]
        texts = [text for line in lines if (text := plain(line).strip())]
        if texts:
            telling = [text for text in texts[-TELLING:] if _TELLING.search(text) or severity(text) == "error"]
            return f'; {who(part)} said last: "{(telling or texts)[-1][:LONGEST]}"'
    return ""


def cause_of_part(part: Part) -> Cause | None:
    """By its last words, else by its exit status. That a peer went away explains only who has no better cause."""
    said = part.words.cause if part.words is not None else None
    if part.oom:
        full = part.task.end is not None and part.task.end.host_full
        if said is not None and not (said.secondary or said.killed or said.vague) and part.code != KILLED:
            return said
        return cause_of_exit(part.code, oom=True, host_full=full)
    if said is not None and not said.secondary:
        return said
    if (part.outlived and not _crashed(part)) or _ended_itself(part):
        return said
    return (None if by_its_own_status(part) else cause_of_exit(part.code, error=part.error)) or said


def _crashed(part: Part) -> bool:
    """Whether it crashed, or was killed without a word: no stop and no traceback explains such an end."""
    return part.words is None or (part.code in CRASHES and not part.words.raised)


def _ended_itself(part: Part) -> bool:
    """Whether it said why before its signal: Lightning kills itself, NCCL and JAX abort when they have lost a peer."""
    if part.words is None:
        return False
    if part.words.lingered:
        return True  # it had lost the others by then
    return part.code in (134, 137) and (part.words.cause is not None or part.words.raised)


def _said(part: Part) -> Sequence[str]:
    """The last lines of the rank; of its launcher where it said nothing. Not what came of a stop after its error."""
    at = part.words.at if part.words is not None else None
    stopped = part.stop is not None and at is not None and at < part.stop.at
    return said_last(part, *part.ranks, until=part.stop.at if part.stop is not None and stopped else None)


def said_last(part: Part, *ranks: int, until: float | None = None) -> Sequence[str]:
    """The last lines of some of its ranks; of their launcher where they said nothing. What they had said by `until`, on
    our clock.
    """
    own = tuple(line for rank in ranks for line in part.task.lines.get(rank, ()))
    for lines in (own, part.task.lines.get(None, ())):
        early = said_by_then(lines, lambda line: until is None or line.at is None or line.at < until)
        before = [line.text for line in early]
        if any(text.strip() for text in before):
            return before
    return ()
