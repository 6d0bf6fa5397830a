"""The last look at a run that seems to have succeeded, while its logs are here and its containers still there.

Exit status 0 is not yet success: what the job asks for (`success`, `same`) must be so, and what looks wrong is said.
The rules are pure (`verdict/success.py`, `verdict/drift.py`); here is what they go by: the ends of the log files, and
whether a file is there.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from distui.errors import DistuiError
from distui.files import lines_back, tail_lines
from distui.frozen import frozen
from distui.patterns import LimitedPattern, PatternMatch
from distui.plan.labels import named_ranks
from distui.plan.model import RunPlan, Task
from distui.runs.attempt.attempt import Attempt
from distui.runs.lines.events import Failure
from distui.runs.lines.text import safe, text_of
from distui.runs.store.runs import StoredRun
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.drift import Drift, Said, compared
from distui.runs.verdict.lines.torchrun import after_rounds
from distui.runs.verdict.success import LastWords, Looked, suspicions, unmet

READ_BYTES = 16 << 20
"""Of a log at a time; of a longer one only its end is looked at for what is expected there."""
READ_SECONDS = 120.0
"""How long logs are looked through for a line that is not at their ends."""
READ_CHARS = 1 << 16
"""Of a longer line only this much."""
TAIL_LINES = 200
FILE_SECONDS = 30.0
"""How long a host is asked for a file."""


@frozen
class Review:
    """What came of it: words that belong to the result, and the failure when the run did not do what it was to do."""

    warnings: tuple[str, ...] = ()
    failure: Failure | None = None


async def review(attempt: Attempt) -> Review:
    """Look at the end of a run whose tasks all ended well. Its hosts are asked for `success.file` only."""
    plan = attempt.plan
    on, asked, errors = await _file_on(attempt) if plan.success and plan.success.file else (None, (), {})
    well = [t.task for t in attempt.tracker.tracks.values() if t.end is not None and t.end.code == 0 and not t.end.oom]
    cut = attempt.tracker.incomplete_tasks()
    read = await asyncio.to_thread(
        _read, plan, attempt.run.stored, well, cut, progress=attempt.state.progress is not None
    )
    looked = Looked(read.regex, read.given_up, on, asked, errors, _seconds(attempt))
    reasons = unmet(plan.success, looked) if plan.success is not None else ()
    warnings = tuple(safe(words) for words in (*read.warnings, *_unchecked(plan)))
    return Review(warnings, _failure(attempt, reasons, read.drift))


@frozen
class _Read:
    """What the log files say."""

    regex: bool | None
    given_up: str
    drift: Drift
    warnings: tuple[str, ...]


def _read(plan: RunPlan, stored: StoredRun, well: Sequence[Task], cut: frozenset[int], *, progress: bool) -> _Read:
    """In a thread of its own: logs are long. `well` are the tasks that ended with status 0, and were not stopped.

    Of the tasks in `cut` lines are missing here: that something is not in their logs proves nothing. `progress` is
    whether some was seen.
    """
    ranks = [(rank, task) for task in plan.tasks for rank in task.ranks]
    logs = [stored.rank_log(rank) for rank, _ in ranks] + [stored.node_log(task.index) for task in plan.tasks]
    regex = plan.success.regex if plan.success is not None else None
    pattern = LimitedPattern(regex) if regex else None
    found, late = _printed(pattern, logs) if pattern is not None else (None, "")
    drift, not_compared = _drift(plan, stored, well, cut) if plan.same else (Drift(), ())
    unsure = found is False and bool(cut)
    warnings = (
        *suspicions([*_last_words(plan, stored, well)]),
        *(_no_progress(plan, stored) if not progress else ()),
        *([f"`success.regex` {regex!r} was not found, but {missing_lines(plan, cut)}"] if unsure else []),
        *([drift.warning] if drift.warning else []),
        *not_compared,
    )
    return _Read(None if unsure else found, (pattern.given_up or late) if pattern is not None else "", drift, warnings)


def _printed(pattern: LimitedPattern[str], logs: Sequence[Path]) -> tuple[bool, str]:
    """Whether some line of a log matches, and why that is not known for certain, in words that follow the pattern.

    The ends of all logs are looked at first: most programs say it there.
    """
    if any(pattern.first(_lines(path)[::-1]) is not None for path in logs):
        return True, ""
    until = time.monotonic() + READ_SECONDS
    for path in logs:
        for lines in itertools.islice(lines_back(path, READ_BYTES), 1, None):
            if pattern.first(_plain(lines)[::-1]) is not None:
                return True, ""
            if pattern.given_up:
                return False, ""
            if time.monotonic() > until:
                return False, f"was not found in what could be read of the logs in {READ_SECONDS:g} s"
    return False, ""


def _lines(path: Path, most: int = READ_BYTES) -> list[str]:
    """The last lines of a log; none where there is no log."""
    return _plain(tail_lines(path, most))


def _plain(lines: Sequence[bytes]) -> list[str]:
    """Without what steers a terminal."""
    return [safe(text_of(line[:READ_CHARS])) for line in lines]


def _last_words(plan: RunPlan, stored: StoredRun, well: Sequence[Task]) -> Iterator[LastWords]:
    for task in well:
        for rank in task.ranks:
            lines = _lines(stored.rank_log(rank), 1 << 16)[-TAIL_LINES:]
            yield LastWords(rank, task.host, lines, plan.rank_names.get(rank, ""))
        lines = _lines(stored.node_log(task.index), 1 << 16)[-TAIL_LINES:]
        yield LastWords(None, task.host, after_rounds(lines) if plan.launcher == "torchrun" else lines)


def _no_progress(plan: RunPlan, stored: StoredRun) -> Iterator[str]:
    """That ranks printed lines, and none of them was progress."""
    logs = {rank: stored.rank_log(rank) for task in plan.tasks for rank in task.ranks}
    if not plan.progress or not logs:
        return
    pattern = LimitedPattern(plan.progress)
    until = time.monotonic() + READ_SECONDS
    said: dict[int, int] = {}
    for rank, log in sorted(logs.items()):
        lines = _lines(log)
        said[rank] = len(lines)
        if pattern.first(lines[::-1]) is not None or pattern.given_up or time.monotonic() > until:
            return
    yield no_progress_words(plan.progress, said)


def no_progress_words(regex: str, said: Mapping[int, int]) -> str:
    """The same in words, of how many lines each rank said."""
    spoke = [rank for rank, lines in said.items() if lines]
    who = f"rank {(spoke or sorted(said))[0]}" if len(spoke or said) == 1 else f"{len(spoke or said)} ranks"
    if not spoke:
        return f"no line at all came from {who}"
    return f"none of the {sum(said.values())} lines of {who} matched `progress` {regex!r}"


def _drift(
    plan: RunPlan, stored: StoredRun, well: Sequence[Task], cut: frozenset[int]
) -> tuple[Drift, tuple[str, ...]]:
    """What the ranks must print alike, compared; and why that could not be done with all of them, in words."""
    assert plan.same is not None
    pattern = LimitedPattern(plan.same)
    ranks = [rank for task in well if task.index not in cut for rank in _trains(plan, task)]
    until = time.monotonic() + READ_SECONDS
    found = {rank: _last(pattern, stored.rank_log(rank), until) for rank in ranks}
    last = {rank: said for rank, (said, whole) in found.items() if said is not None or whole}
    if pattern.given_up:
        return Drift(), (f"`same` could not be compared: {plan.same!r} {pattern.given_up}",)
    left_out = frozenset(task.index for task in well if task.index in cut and _trains(plan, task))
    warnings = [f"`same` leaves ranks out: {missing_lines(plan, left_out)}"] if left_out else []
    if late := tuple(rank for rank in ranks if rank not in last):
        those = f"{named_ranks(late)} could not be read whole in {READ_SECONDS:g} s"
        warnings.append(f"`same` leaves ranks out: the logs of {those}")
    return compared(last), tuple(warnings)


def missing_lines(plan: RunPlan, tasks: frozenset[int]) -> str:
    """`lines of rank 1 are missing here`."""
    ranks = tuple(rank for task in plan.tasks if task.index in tasks for rank in task.ranks)
    return f"lines of {named_ranks(ranks)} are missing here"


def _trains(plan: RunPlan, task: Task) -> Sequence[int]:
    """The ranks of a task that is a replica: parameter servers and evaluators are none."""
    return () if plan.done_when is not None and task.role in ("ps", "evaluator") else task.ranks


def _last(pattern: LimitedPattern[str], log: Path, until: float) -> tuple[Said | None, bool]:
    """The last match in a log, and whether all of that was looked at if need be: beyond its end only until then."""
    for number, lines in enumerate(lines_back(log, READ_BYTES)):
        if number and time.monotonic() > until:
            return None, False
        if (found := pattern.first(_plain(lines)[::-1])) is not None:
            return _said(found[1]), True
        if pattern.given_up:
            break
    return None, True


def _said(found: PatternMatch[str]) -> Said:
    words = found.group(0) or ""
    try:
        return Said(found.group(1) or "", words)
    except IndexError:
        return Said(words, words)


async def _file_on(attempt: Attempt) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Hosts that have the file `success` asks for, hosts that were asked, and why one could not tell."""
    plan = attempt.plan
    assert plan.success is not None and plan.success.file is not None
    path = plan.success.file
    answers = await asyncio.gather(*(_has_file(attempt.hosts[t.host], t, path) for t in plan.tasks))
    pairs = list(zip(plan.tasks, answers, strict=True))
    found = dict.fromkeys(t.host for t, answer in pairs if answer is True)
    return tuple(found), plan.hosts, {t.host: answer for t, answer in pairs if isinstance(answer, str)}


_COPIED = 'case "$("$@" 2>/dev/null | dd bs=1 skip=257 count=5 2>/dev/null)" in ustar) exit 0 ;; esac; exit 1'
"""Whether the engine copies something out of a container that has ended: the head of a tar archive says so."""


async def _has_file(host: HostRun, task: Task, path: str) -> bool | str:
    """Whether a task that has ended sees this path; in words why that is not known."""
    argv: tuple[str, ...] = ("test", "-e", path)
    try:
        if task.engine != "process":
            argv = ("sh", "-c", _COPIED, "sh", *task.engine_command, "cp", f"{await host.ref(task)}:{path}", "-")
        done = await host.link.run(argv, timeout=FILE_SECONDS, idempotent=True, give_up=FILE_SECONDS)
    except DistuiError as exc:
        return exc.message
    return done.ok


def _seconds(attempt: Attempt) -> float | None:
    """From the start of the first task to the end of the last; None where nobody knows when that was."""
    tracks = list(attempt.tracker.tracks.values())
    begun = [t.started_at for t in tracks if t.started_at is not None] or [attempt.began] * (not attempt.run.adopted)
    return max(t.exit_at for t in tracks) - min(begun) if begun else None


def _unchecked(plan: RunPlan) -> Iterator[str]:
    if plan.unchecked:
        keys = " and ".join(f"`{key}`" for key in plan.unchecked)
        yield f"{keys} of the job was not looked at: its regular expression is known where the run was started"


def _failure(attempt: Attempt, reasons: Sequence[str], drift: Drift) -> Failure | None:
    """Exit status 0 of all, and all the same no success: why, and where one rank is to blame, which."""
    words = [f"`same`: {drift.words}"] if drift.words else []
    if not reasons and not words:
        return None
    hint = "compare their logs; what differs most often are data, seeds or weights that were not broadcast"
    rank = drift.odd[0] if drift.odd and not reasons else None
    task = next((t for t in attempt.plan.tasks if rank in t.ranks), None) if rank is not None else None
    return Failure(
        rank=rank,
        host=task.host if task is not None else "",
        exit=0,
        words=safe("ended with exit 0, but " + "; ".join([*reasons, *words])),
        cause="the replicas do not hold the same" if drift.words and not reasons else "`success` of the job is not met",
        hint=hint if drift.words and not reasons else "",
        at=max(t.exit_at for t in attempt.tracker.tracks.values()),
        name=attempt.plan.rank_names.get(rank, "") if rank is not None else "the run",
    )
