"""How far the numbers of a folded line differ: from where to where each does, which of them stands at the right, and
what it is called. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from distui.regex import regex

Ends = tuple[float, float] | None
"""The lowest and the highest of a number; None where they can't be compared (units, times of day)."""

NAME_CELLS = 16
SHAPES = 2000
"""Shapes of lines that are remembered."""

_PARTS = regex(r"([-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?)(.*)")
_BEFORE = regex(
    r"((?:[A-Za-z_][\w/.%-]*[ ]+)?(?i:in|at|to|of|is|was|for|after|by)|[A-Za-z_%][\w/.%-]*)"
    r"(?:\[\w+\]|\(\w+\))?[\s=:'\"(\[]*$"
)
"""The word that a number stands after; a preposition with the word before it."""
_AFTER = regex(r"\s*([A-Za-z][\w/%]*)")
_NEAR = 48
"""A name is looked for so near to its number."""


def parts(text: str) -> tuple[float, str] | None:
    """A number's value and its unit; None of what is none, or beyond what can be counted with."""
    found = _PARTS.fullmatch(text)
    value = float(found[1]) if found is not None else math.inf
    return (value, found[2]) if found is not None and math.isfinite(value) else None


def widened(ends: Ends, *texts: str) -> Ends:
    """The ends with these numbers; None where one of them has another unit, or can't be compared."""
    known = [one for text in texts if (one := parts(text)) is not None]
    if ends is None or len(known) < len(texts) or len({unit for _, unit in known}) > 1:
        return None
    values = [value for value, _ in known]
    return min(ends[0], *values), max(ends[1], *values)


NONE_YET: Ends = (math.inf, -math.inf)
LONG = 1e16
"""From here on a number is written with an exponent, however the others are: it would be a row of digits."""


def middle(low: float, high: float) -> float:
    """Between both, also where their sum is beyond what can be counted with."""
    return low / 2 + high / 2


def apart(low: float, high: float) -> float:
    """How far each of them is from the middle."""
    return high / 2 - low / 2


def written_as(text: str, value: float) -> str:
    """A value with the digits, exponent and unit of a number: 0.5 as `0.1438s` is `0.5000s`."""
    found = _PARTS.fullmatch(text)
    number, unit = found.groups() if found is not None else (text, "")
    mantissa, exponent, _ = number.lower().partition("e")
    form = "e" if exponent or abs(value) >= LONG else "f"
    return f"{value:.{len(mantissa.partition('.')[2])}{form}}{unit}"


def names(text: str, numbers: Iterable[re.Match[str]]) -> list[str]:
    """What the numbers of a line are called: the word before each, else the one after it (`41.3k tok/s 2.1 s/it`)."""
    found, taken = [], 0
    for number in numbers:
        near = max(taken, number.start() - _NEAR)
        before = _BEFORE.search(text[near : number.start()])
        after = _AFTER.match(text, number.end()) if before is None else None
        taken = after.end() if after is not None else number.end()
        word = before or after
        found.append(word[1][:NAME_CELLS].strip() if word is not None else "")
    return found


class Shape:
    """What is known of all lines of one shape: which of their numbers differ, and how often.

    The one that differs most often stands at the right, the first of them in the line, so that rows below each other
    speak of the same one though another may be equal by chance now and then.
    """

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times: dict[int, int] = {}

    def note(self, places: Iterable[int]) -> None:
        """The numbers at these places differ in one more row."""
        for at in places:
            self.times[at] = self.times.get(at, 0) + 1

    def chosen(self, differs: Mapping[int, Ends]) -> int | None:
        """Which of the numbers that differ in a row stands at its right."""
        known = (at for at, ends in differs.items() if ends is not None and ends[0] < ends[1])
        return min(known, key=lambda at: (-self.times.get(at, 0), at), default=None)


class Shapes:
    """The shapes of the lines of a log; only the last ones are remembered."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def of(self, text: str) -> Shape:
        """That of a line, given as what it says without its numbers."""
        found = self._known.pop(text, None) or Shape()
        self._known[text] = found
        if len(self._known) > SHAPES:
            del self._known[next(iter(self._known))]
        return found
