"""Lines of a log as the program meant them: without what logs and launchers put before them, and what never counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distui.regex import regex
from distui.runs.lines.prefixes import RANK_PREFIX
from distui.runs.lines.text import safe

_PREFIX = regex(
    rf"{RANK_PREFIX.pattern}"
    r"|^\[?\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?: |$)"
    r"|^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} [^\s:]{1,64}: ?"  # journald and syslog
    r"|^\s+\| "  # an exception group's margin
    r"|^\d{1,5}:$"  # srun --label before a blank line
)
_TAG = (
    r"\[(?!WARN|INFO|DEBUG)[^\]\s]{1,40}(?: \d{1,6})?\]:?"
    r"|(?:- )?(?:[\w.]{1,40} - )?(?:ERROR|CRITICAL|FATAL)(?: -|:)?"
    r"|[EF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\s\]]{1,99}\]"  # glog, absl
    r"|\d{1,5}:"  # srun --label
)
_TAGGED = regex(
    rf"^(?:(?>{_TAG}) )++(?=  |Traceback \(most recent|[A-Za-z_][\w.]*(?:Error|Exception)(?::|$)"
    r"|terminate called |Error: (?!\W{0,3}\d)|Caused by:|Aborted\b)"
)
"""Levels and ranks before a part of a logged traceback: they say no more than it does."""
_IGNORED = regex(
    r"^Exception ignored (?:in|while)\b|^Error in atexit\._run_exitfuncs"
    r"|^(?:\S+ ){0,4}Error waiting on exit barrier\. "  # torchrun, whose ranks have ended by then: agent/server/api.py
)
_TRACEBACK = "Traceback (most recent call last)"
_HEADED = regex(r"^(\S.{0,119}?)( *)Traceback \(most recent call last\)")
_DIGITS = regex(r"\d+")
_OWN_ENDS = (
    (
        regex(r"^(ConnectionResetError|BrokenPipeError|ConnectionAbortedError|ConnectionRefusedError): \[Errno "),
        regex(r"/(?:multiprocessing|multiprocess)/connection\.py\""),
    ),
    (
        regex(r"^((?:_?pickle\.)?UnpicklingError): "),
        regex(r"/torch/serialization\.py\"|/numpy/lib/|/joblib/|/pandas/io/"),
    ),
)
"""What is raised, and the files of Python's innermost frame by which it is of the program's own."""
FRAME = 6
"""Lines of a frame: its file, its source, marks below it, and what Python leaves out."""
DEEPEST = 4
"""Prefixes in a row: a launcher's, a logger's, torch's."""


def plain(text: str) -> str:
    """A line without escapes, what a progress bar overwrote, times, ranks, and the tags of a logged traceback."""
    text = safe(text).rstrip()
    for _ in range(DEEPEST):
        rest = _PREFIX.sub("", text, count=1)
        if rest == text:
            break
        text = rest
    return _TAGGED.sub("", text)


def bare(texts: Sequence[str]) -> list[str]:
    """The lines without what a logger of any form puts before each line of a traceback."""
    kept = list(texts)
    for i, text in enumerate(texts):
        head = _HEADED.match(kept[i]) if _TRACEBACK in text else None
        if head is not None:
            _behead(kept, i, _shape(head[1], head[2]))
    return kept


def _shape(head: str, blanks: str) -> re.Pattern[str]:
    """A head with any numbers: times, lines, pids. Blanks at the end of a line are lost."""
    return re.compile(r"\d+".join(map(re.escape, _DIGITS.split(head))) + f"(?:{blanks}|$)")


def _behead(texts: list[str], at: int, shape: re.Pattern[str]) -> None:
    """Take the head from the traceback that begins here, where its frames have it, too."""
    end = at
    while end < len(texts) and shape.match(texts[end]):
        end += 1
    rest = [shape.sub("", text, count=1) for text in texts[at:end]]
    if len(rest) > 1 and rest[1].startswith("  "):
        texts[at:end] = rest


def heard(texts: Sequence[str]) -> list[str]:
    """The lines, with blank ones for exceptions that Python or torchrun ignored: none changed how the program ended."""
    kept = list(texts)
    for i, text in enumerate(texts):
        if _IGNORED.match(text):
            for n in range(i, _end_of_ignored(texts, i)):
                kept[n] = ""
    return kept


def _end_of_ignored(texts: Sequence[str], at: int) -> int:
    """The line after what is said of an ignored exception: its traceback and what it was raised with."""
    end = at + 1
    if end >= len(texts) or _TRACEBACK not in texts[end]:
        return end
    end += 1
    while end < len(texts) and texts[end][:1] in (" ", "\t"):
        end += 1
    return end + 1


def without_own_ends(texts: Sequence[str]) -> list[str]:
    """The lines, with the exception's name alone of broken pipes to processes of the program's own, and of data of its
    own files that ends too early: no peer has gone there.
    """
    kept = list(texts)
    for i, text in enumerate(texts):
        for end, where in _OWN_ENDS:
            found = end.match(text)
            if found is not None and _raised_in(texts, i, where):
                kept[i] = found[1]
    return kept


def _raised_in(texts: Sequence[str], at: int, where: re.Pattern[str]) -> bool:
    """Whether the innermost frame of the traceback that ends here is in such a file."""
    for text in reversed(texts[max(0, at - FRAME) : at]):
        if text[:1] not in (" ", "\t"):
            return False
        if text.lstrip().startswith('File "'):
            return where.search(text) is not None
    return False
