"""What a rank had said by some moment: a traceback that had begun counts whole, though its last line came later."""

from __future__ import annotations

from collections.abc import Callable

from distui.runs.lines.traceback import HEAD
from distui.runs.verdict.evidence import Line, Lines
from distui.runs.verdict.lines.last_words import CHAINED
from distui.runs.verdict.lines.plain import plain

PRINTED = 1.0
"""Seconds that the lines of one traceback may take."""


def said_by_then(lines: Lines, early: Callable[[Line], bool]) -> Lines:
    """The lines that are early, with the rest of a traceback of which the last ones are a part: which error it is, one
    of the rank's own or that a peer went away, stands in its last line. Tracebacks in a chain are one.
    """
    places = [place for place, line in enumerate(lines) if early(line)]
    if not places:
        return ()
    before, rest = tuple(lines[place] for place in places), lines[places[-1] + 1 :]
    return (*before, *rest[: _rest_of(before, _at_once(before[-1], rest))])


def _at_once(last: Line, rest: Lines) -> Lines:
    """Those of the lines after the `last` early one that may be of one traceback with it."""
    late = (
        place for place, line in enumerate(rest) if line.at is None or last.at is None or line.at - last.at > PRINTED
    )
    return rest[: next(late, len(rest))]


def _rest_of(before: Lines, rest: Lines) -> int:
    """How many of the lines after those `before` end tracebacks that have begun there, or are chained to them."""
    end, is_open = 0, _open(before)
    chained = next((_is_link(line) for line in reversed(before) if plain(line.text).strip()), False)
    for count, line in enumerate(rest, 1):
        if is_open and _ends(line):
            end, is_open, chained = count, False, False
        elif not is_open and plain(line.text).strip():
            is_open, chained = chained and HEAD in line.text, _is_link(line)
            if not (is_open or chained):
                break
    return end


def _is_link(line: Line) -> bool:
    return CHAINED.match(plain(line.text)) is not None


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
