"""Rows of the merged log that say the same at one step after another, as one row: `step 10..19  loss 2.1 to 2.0`. Pure.

The newest rows, and what could still get another line, stand alone; so does a row that not the same ranks said, and
what is said between steps and counts nothing parts them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from distui.regex import regex
from distui.tui.logs.groups import NUMBERS, Group, Step, written_as

LEAST = 4
"""Fewer steps are no range."""
MOST = 50
"""Steps of one row: where the log was at what time can still be seen."""
KEPT = 5
"""The newest rows that stay as they are."""
BACK = 24
"""So many rows back the step before may be: others that count may stand between them (`epoch 3 mean loss`)."""
NO_STEP: Step = ("", ())

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
        rows, row, same = self._rows, self._rows[index], [index]
        for at in range(index - 1, max(-1, index - 1 - BACK), -1):
            before = rows[at]
            if not _beside(before, row):
                break
            if step_of(_last(before))[0] != step_of(row)[0]:
                continue
            if not step_of(_last(before))[1] < step_of(rows[same[-1]])[1]:
                break
            if before.parts:
                if len(same) > 1 or len(before.parts) >= MOST:
                    break
                _extend(before, row)
                del rows[index]
                return 1
            same.append(at)
            if len(same) == LEAST:
                return self._made(sorted(same))
        return 0

    def _made(self, places: list[int]) -> int:
        """One row of the rows at these places, where the first one was."""
        first, *others = places
        made = _range([self._rows[at] for at in places])
        for at in reversed(others):
            del self._rows[at]
        self._rows[first] = made
        return len(others)

    def open(self, row: Group) -> None:
        """Put the rows of a range back into its place; they stay."""
        at = next(i for i, one in enumerate(self._rows) if one is row)
        for part in row.parts:
            part.alone, part.folded = True, False
        self._rows[at : at + 1] = row.parts
        self._at += (len(row.parts) - 1) * (at < self._at)


def step_of(row: Group) -> Step:
    """What a row says but for its numbers, and those that count in their order: epoch, step; `NO_STEP` without one."""
    if row.step is None:
        text = row.common or row.text
        counts = [match.group() for match in NUMBERS.finditer(text) if match.lastgroup == "counts"]
        numbers = tuple(int(re.sub("[,_]", "", found[0])[:18]) for one in counts if (found := _DIGITS.findall(one)))
        if not numbers or row.level or row.shift or row.inserted:
            row.step = NO_STEP
        else:
            row.step = NUMBERS.sub(_shape, text), numbers
    return row.step


def _shape(match: re.Match[str]) -> str:
    return match.group() if match.lastgroup == "whole" else "#"


def _last(row: Group) -> Group:
    return row.parts[-1] if row.parts else row


def _beside(before: Group, row: Group) -> bool:
    """Whether both tell a step, of whatever, and the same ranks do."""
    last = _last(before)
    known = NO_STEP not in (step_of(row), step_of(last))
    return known and not (row.alone or last.alone or row.parts) and last.said_by() == row.said_by()


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
