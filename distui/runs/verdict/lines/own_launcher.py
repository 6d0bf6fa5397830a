"""What a rank's command says of its processes where it is a launcher of the job's own: `command: [torchrun, ...]`, or
what is built on it (`accelerate launch`), mpirun, DeepSpeed and others.

One that ends without a word leaves only those of others, that it went away; its launcher's report has how it ended.
"""

from __future__ import annotations

from dataclasses import replace

from distui.runs.verdict.evidence import Lines, lines_of
from distui.runs.verdict.exit_words import KILLED, exit_words
from distui.runs.verdict.lines.diagnose import cause_of_exit
from distui.runs.verdict.lines.last_words import LastWords, last_words, numbers
from distui.runs.verdict.lines.launchers import Reported, reported_end
from distui.runs.verdict.lines.rules.cause import Cause
from distui.runs.verdict.lines.torchrun import agent_words

_AFTER_OTHERS = (1, 134, 143)
"""Statuses of a process that has lost another one: an exception that nobody caught, what NCCL's watchdog does, and
what a launcher or a person sends.
"""


def with_its_own(words: LastWords | None, lines: Lines, code: int | None) -> LastWords | None:
    """The last words of a task that ended with this status. They name the process that ended by itself where all that
    was said is of others, and where nothing was said but its launcher's report.
    """
    if words is None or _only_tells(words):
        return _by_report(words, lines, code)
    if words.weight == "own" or words.earlier is not None:
        return words
    end = _ended_by_itself(lines, numbers(lines[words.start :]))
    return words if end is None else _named(words, end)


def _only_tells(words: LastWords) -> bool:
    """Whether they are a launcher's report, which has no cause."""
    return words.cause is None and reported_end(lines_of([words.headline])) is not None


def _by_report(words: LastWords | None, lines: Lines, code: int | None) -> LastWords | None:
    """What had been said when a launcher that ends with the status of its process began to report that; others may
    print after it. Else the report itself.
    """
    end = reported_end(lines)
    if end is None or (words is None and not _ends_it_so(end, code)):
        return words
    if words is None and (before := last_words(lines[: end.line])) is not None:
        own = tuple(line.text for line in lines[before.start : end.line])
        return with_its_own(replace(before, own=before.own or own), lines, code)
    if end.code in _AFTER_OTHERS and code != KILLED:
        return words
    at = lines[end.line].at
    return _named(words or LastWords(at, "", "own", None, end.line, raised=False), end)


def _ends_it_so(end: Reported, code: int | None) -> bool:
    """Whether a launcher that reports this ends with that status: Lightning kills itself, too."""
    return code == (KILLED if end.by == "Lightning" else end.code)


def _named(words: LastWords, end: Reported) -> LastWords:
    how = cause_of_exit(end.code)
    text = f"{end.who} ended by itself, by {end.by}'s report: {exit_words(end.code, engine='process')}"
    hint = how.hint if how is not None else "what it printed last is in the log; look for what in the program exits so"
    return replace(words, weight="own", headline=text, cause=Cause(text, hint))


def _ended_by_itself(lines: Lines, lost_others: set[int]) -> Reported | None:
    """The one that its launcher reports first, if neither that nor the end of others ended it."""
    return next((end for end in _reported(lines) if _by_itself(end, lost_others)), None)


def _by_itself(end: Reported, lost_others: set[int]) -> bool:
    if end.number in lost_others:
        return False
    return (bool(lost_others) and end.number is not None) or end.code not in _AFTER_OTHERS


def _reported(lines: Lines) -> list[Reported]:
    """The ends that a launcher reports: torchrun the one that it blames first; not those that it brought about."""
    report = agent_words(lines)
    blamed_first = sorted(report.ends.values(), key=lambda end: (end.local != report.root, end.local))
    ends = [
        Reported("torchrun", f"its process with rank {end.number}", end.code, end.number)
        for end in blamed_first
        if report.reported and end.number is not None and end.code and not report.stopped(end)
    ]
    other = reported_end(lines)
    return ends if ends or other is None else [other]
