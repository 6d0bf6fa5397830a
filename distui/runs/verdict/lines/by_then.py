"""What a rank had said by some moment: a traceback that had begun counts whole, though its last line came later."""

from __future__ import annotations

from collections.abc import Callable

from distui.runs.lines.traceback import HEAD
from distui.runs.verdict.evidence import Line, Lines
from distui.runs.verdict.lines.plain import plain

PRINTED = 1.0
"""Seconds that the lines of one traceback may take."""


def said_by_then(lines: Lines, early: Callable[[Line], bool]) -> Lines:
    """The lines that are early, with the rest of a traceback of which the last ones are a part: which error it is, one
    of the rank's own or that a peer went away, stands in its last line.
    """
    places = [place for place, line in enumerate(lines) if early(line)]
    before = tuple(lines[place] for place in places)
    if not before or not _open(before):
        return before
    rest = list[Line]()
    for line in lines[places[-1] + 1 :]:
        if line.at is None or before[-1].at is None or line.at - before[-1].at > PRINTED:
            break
        rest.append(line)
        if _ends(line):
            return (*before, *rest)
    return before


def _open(lines: Lines) -> bool:
    """Whether the last lines are of a traceback without its error."""
    for line in reversed(lines):
        if HEAD in line.text:
            return True
        if _ends(line):
            return False
    return False


def _ends(line: Line) -> bool:
    """Whether a line in a traceback is no frame of it."""
    return not plain(line.text)[:1].isspace()
