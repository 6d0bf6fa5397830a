"""What a rank's command says of its processes where it is a torchrun of the job's own: `command: [torchrun, ...]`, or
what is built on it (`accelerate launch`).

One that ends without a word leaves only those of others, that it went away; torchrun's report has how it ended.
"""

from __future__ import annotations

from dataclasses import replace

from distui.runs.verdict.evidence import Lines
from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.lines.diagnose import cause_of_exit
from distui.runs.verdict.lines.last_words import LastWords, numbers
from distui.runs.verdict.lines.rules.cause import Cause
from distui.runs.verdict.lines.torchrun import ProcessEnd, agent_words

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
    text = f"its process with rank {end.number} ended by itself, by torchrun's report: "
    text += exit_words(end.code, engine="process")
    hint = how.hint if how is not None else "what it printed last is in the log; look for what in the program exits so"
    return replace(words, weight="own", headline=text, cause=Cause(text, hint))


def _ended_by_itself(lines: Lines, lost_others: set[int]) -> ProcessEnd | None:
    """The one that torchrun blames, or another that it reports, if neither torchrun nor the end of others ended it."""
    report = agent_words(lines)
    blamed_first = sorted(report.ends.values(), key=lambda end: (end.local != report.root, end.local))
    for end in blamed_first if report.reported else ():
        if end.number is None or end.number in lost_others or not end.code or report.stopped(end):
            continue
        if lost_others or end.code not in _AFTER_OTHERS:
            return end
    return None
