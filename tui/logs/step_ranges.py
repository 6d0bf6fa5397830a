"""Rows of the merged log that say the same at one step after another, as one row: `step 10..19  loss 2.1 to 2.0`. Pure.

The newest rows, and what could still get another line, stand alone; so does a row that not the same ranks said.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from distui.regex import regex
from distui.tui.logs.groups import NUMBERS, Group, written_as

LEAST = 4
"""Fewer steps are no range."""
MOST = 50
"""Steps of one row: where the log was at what time can still be seen."""
KEPT = 5
"""The newest rows that stay as they are."""
NO_STEP = ("", 0)

_DIGITS = regex(r"\d[\d,_]*")


class StepRanges:
    """Folds the rows of a list, in place, from where it was left."""

    def __init__(self, rows: list[Group]) -> None:
        self._rows = rows
        self._at = 0
        """The first row that was not looked at."""

    def inserted(self, index: int) -> None:
        """A row came in there."""
        self._at += index < self._at

    def dropped(self, count: int) -> None:
        """So many rows went at the front."""
        self._at = max(0, self._at - count)

    def fold(self, until: float) -> int:
        """Fold rows that were said before this moment; how many fewer there are."""
        before = len(self._rows)
        while self._at < len(self._rows) - KEPT and self._rows[self._at].last < until:
            self._at += 1 - self._fold_at(self._at)
        return before - len(self._rows)

    def _fold_at(self, index: int) -> int:
        """Fold the row there with those before it, where that can be; how many fewer there are."""
        rows, row = self._rows, self._rows[index]
        if index and rows[index - 1].parts and _follows(rows[index - 1], row):
            _extend(rows[index - 1], row)
            del rows[index]
            return 1
        begin = index - LEAST + 1
        if begin < 0 or any(one.parts for one in rows[begin : index + 1]):
            return 0
        if not all(_follows(rows[i - 1], rows[i]) for i in range(begin + 1, index + 1)):
            return 0
        made = _range(rows[begin : index + 1])
        rows[begin : index + 1] = [made]
        return LEAST - 1

    def open(self, row: Group) -> None:
        """Put the rows of a range back into its place; they stay."""
        at = next(i for i, one in enumerate(self._rows) if one is row)
        for part in row.parts:
            part.alone, part.folded = True, False
        self._rows[at : at + 1] = row.parts
        self._at += (len(row.parts) - 1) * (at < self._at)


def step_of(row: Group) -> tuple[str, int]:
    """What a row says but for its numbers, and its step: the first number that counts; `NO_STEP` without one."""
    if row.step is None:
        text = row.common or row.text
        counts = next((match for match in NUMBERS.finditer(text) if match.lastgroup == "counts"), None)
        digits = _DIGITS.search(counts.group()) if counts is not None else None
        if digits is None or row.level or row.shift or row.inserted:
            row.step = NO_STEP
        else:
            row.step = NUMBERS.sub(_shape, text), int(re.sub("[,_]", "", digits.group())[:18])
    return row.step


def _shape(match: re.Match[str]) -> str:
    return match.group() if match.lastgroup == "whole" else "#"


def _follows(before: Group, row: Group) -> bool:
    """Whether a row is the next step of the one before, said by the same ranks."""
    last = before.parts[-1] if before.parts else before
    if row.alone or last.alone or row.parts or len(before.parts) >= MOST:
        return False
    (shape, step), (other, later) = step_of(last), step_of(row)
    return bool(shape) and shape == other and later > step and last.said_by() == row.said_by()


def _range(rows: list[Group]) -> Group:
    first = rows[0]
    made = Group(first.at, first.last, "", ranks=array("i"), lines=array("Q"), times=array("d"))
    for row in rows:
        _extend(made, row)
    return made


def _extend(made: Group, row: Group) -> None:
    row.folded = True
    made.parts.append(row)
    made.ranks.extend(row.ranks)
    made.lines.extend(row.lines)
    made.times.extend(row.times)
    made.last = max(made.last, row.last)
    made.text = range_text(made.parts[0], row)


def range_text(first: Group, last: Group) -> str:
    """One line for all from the first to the last: steps and the first figure from where to where, `*` for others."""
    text, parts, seen = first.common or first.text, [], 0
    figures, index = 0, 0
    for mine, other in _both(text, last.common or last.text):
        number = index if mine.lastgroup != "counts" else -1
        index += mine.lastgroup != "counts"
        figures += mine.lastgroup == "varies"
        said = (mine.group(), other.group())
        if mine.lastgroup == "counts":
            words = _counted(*said)
        elif mine.lastgroup == "varies" and figures == 1:
            ends = [written_as(one, (row.low + row.high) / 2) for one, row in zip(said, (first, last), strict=True)]
            words = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
        else:
            words = "*" if said[0] != said[1] or number in first.differs or number in last.differs else said[0]
        parts += [text[seen : mine.start()], words]
        seen = mine.end()
    return "".join(parts) + text[seen:]


def _both(first: str, last: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    return zip(NUMBERS.finditer(first), NUMBERS.finditer(last), strict=False)


def _counted(first: str, last: str) -> str:
    """`step 120/500` and `step 139/500` as `step 120..139/500`."""
    ends = iter(_DIGITS.findall(last))

    def both(match: re.Match[str]) -> str:
        end = next(ends, match.group())
        return match.group() if end == match.group() else f"{match.group()}..{end}"

    return _DIGITS.sub(both, first)
