"""What a rank's command says of its processes where it is a launcher of the job's own: `command: [torchrun, ...]`, or
what is built on it (`accelerate launch`), mpirun, DeepSpeed and others.

One that ends without a word leaves only those of others, that it went away; its launcher's report has how it ended.
"""

from __future__ import annotations

from dataclasses import replace

from distui.runs.verdict.evidence import Lines
from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.lines.diagnose import cause_of_exit
from distui.runs.verdict.lines.last_words import LastWords, numbers
from distui.runs.verdict.lines.launchers import Reported, reported_end
from distui.runs.verdict.lines.rules.cause import Cause
from distui.runs.verdict.lines.torchrun import agent_words

_AFTER_OTHERS = (1, 134)
"""Statuses of a process that has lost another one: an exception that nobody caught, and what NCCL's watchdog does."""


def with_its_own(words: LastWords | None, lines: Lines) -> LastWords | None:
    """The last words of a task, which name the process that ended by itself where all that was said is of others."""
    if words is None or words.weight == "own" or words.earlier is not None:
        return words
    end = _ended_by_itself(lines, numbers(lines[words.start :]))
    if end is None:
        return words
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
