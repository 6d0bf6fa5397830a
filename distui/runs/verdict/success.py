"""Whether a run whose tasks all ended with exit status 0 did what it was to do. Pure.

What the job asks for (`success`) and does not find makes the run a failed one; what merely looks wrong (a traceback as
the last words, an error, a `progress` that never matched) is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.lines.events import rank_words
from distui.runs.verdict.lines.diagnose import cause_of
from distui.runs.verdict.lines.last_words import WARNING, WENT_ON
from distui.runs.verdict.lines.plain import heard, plain
from distui.spec.job.job import Success

LAST_WORDS = 3
"""Lines at the end of a log that count as a rank's last words."""
_HEAD = "Traceback (most recent call last)"
_OF_SEVERAL = ("Traceback (", "Exception ignored", "Error in atexit", "\x1b")
"""What is in a line of a traceback's head or of what Python ignored; colours may stand within."""
_EXCEPTION = regex(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout)\w*(?::|$)")
_METRIC = r"\s*[-+]?(?:0|\d*\.\d+(?:e[-+]?\d+)?|\d+(?:\.\d+)? ?%)\s*$"
_ERROR = regex(rf"(?:fatal|error|critical)\b\s*[:\]!-](?!{_METRIC})", re.IGNORECASE)


@frozen
class LastWords:
    """The last lines of one rank that ended with exit status 0, or of a launcher (`rank` None)."""

    rank: int | None
    host: str
    lines: Sequence[str]
    name: str = ""

    @property
    def who(self) -> str:
        """`rank 3`, `worker/1`, `the launcher on h1`."""
        return rank_words(self.rank, self.name) if self.rank is not None else f"the launcher on {self.host}"


@frozen
class Looked:
    """What was looked for at the end of a run. None: not asked for, or it could not be looked for."""

    regex: bool | None = None
    """Whether some line matched."""
    regex_given_up: str = ""
    """Why the regex was not tried to the end, in words."""
    file_on: Sequence[str] | None = None
    """Hosts where the file was found."""
    file_asked: Sequence[str] = ()
    """Hosts that were asked for it."""
    file_errors: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    """How long the run lasted, from the start of its first task to the end of its last."""


def unmet(asked: Success, looked: Looked) -> tuple[str, ...]:
    """The parts of `success` that are not met, in words."""
    return tuple(_unmet(asked, looked))


def _unmet(asked: Success, looked: Looked) -> Iterator[str]:
    if asked.regex is not None and looked.regex_given_up:
        yield f"`success.regex` can't be looked for: {asked.regex!r} {looked.regex_given_up}"
    elif asked.regex is not None and looked.regex is False:
        yield f"no rank printed a line that matches `success.regex` {asked.regex!r}"
    if asked.file is not None and not looked.file_on:
        where = ", ".join(looked.file_asked)
        why = "".join(f"; {host}: {words}" for host, words in looked.file_errors.items())
        yield f"the file {asked.file} of `success.file` is not there (looked on {where or 'no host'}{why})"
    if asked.min_seconds is not None and looked.seconds is not None and looked.seconds < asked.min_seconds:
        yield f"it was over after {looked.seconds:.1f} s, before the {asked.min_seconds:g} s of `success.min_seconds`"


def suspicions(ends: Sequence[LastWords]) -> tuple[str, ...]:
    """What ranks that ended with exit status 0 said last that does not go with it, in words; alike ones together."""
    said: dict[str, list[LastWords]] = {}
    for end in ends:
        if (words := suspicious(end.lines)) is not None:
            said.setdefault(words, []).append(end)
    return tuple(f"{_all(ends)} ended with exit 0, but {words}" for words, ends in said.items())


def _all(ends: Sequence[LastWords]) -> str:
    if len(ends) > 3:
        return f"{ends[0].who} and {len(ends) - 1} more"
    return " and ".join(end.who for end in ends)


def suspicious(lines: Sequence[str]) -> str | None:
    """What is wrong with these last words; None when nothing is."""
    texts = _texts(lines)
    if not texts:
        return None
    if _ends_in_traceback(texts):
        return f"the last words are a traceback: {texts[-1].strip()}"
    last = texts[-LAST_WORDS:]
    for line in reversed(last):
        if WENT_ON.search(line):
            break
        cause = cause_of([line]) if not WARNING.search(line) else None
        if cause is not None and not (cause.secondary or cause.vague or cause.unclear):
            return f"said at the end: {line.strip()} ({cause.text})"
    return f"said last: {texts[-1].strip()}" if _ERROR.match(texts[-1].strip()) else None


def _texts(lines: Sequence[str]) -> list[str]:
    """The lines as they were meant, without blank ones; only the last of them where none has several lines."""
    if any(mark in line for line in lines for mark in _OF_SEVERAL):
        return [text for text in heard([plain(line) for line in lines]) if text.strip()]
    last: list[str] = []
    for line in reversed(lines):
        if (text := plain(line)).strip():
            last.append(text)
        if len(last) == LAST_WORDS:
            break
    return last[::-1]


def _ends_in_traceback(lines: Sequence[str]) -> bool:
    """Whether the last line is the exception that a traceback ends with, and nothing else was said after it."""
    heads = [i for i, line in enumerate(lines) if _HEAD in line]
    if not heads:
        return False
    indent = len(lines[heads[-1]]) - len(lines[heads[-1]].lstrip())
    outer = [line for line in lines[heads[-1] + 1 :] if line[: indent + 1].strip()]
    return len(outer) == 1 and outer[0] == lines[-1] and _EXCEPTION.match(lines[-1].strip()) is not None
