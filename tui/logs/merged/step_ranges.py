"""Rows of the merged log that say the same at one step after another, as one row: `step 10..19  loss 2.1 to 2.0`. Pure.

The newest rows, and what could still get another line, stand alone; so does a row that not the same ranks said, and
what is said between steps and counts nothing parts them. Rows whose other whole numbers are the same (`worker 3`) are
put together first, else any that differ only in numbers (`mem=1003`).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence

from distui.regex import regex
from distui.tui.logs.merged.groups import Group, Step, numbers_in, shapeless, unpadded
from distui.tui.logs.merged.spreads import middle, written_as

LEAST = 4
"""Fewer steps are no range."""
MOST = 50
"""Steps of one row: where the log was at what time can still be seen."""
KEPT = 5
"""The newest rows that stay as they are."""
BACK = 24
"""So many rows back the step before may be: others that count may stand between them (`epoch 3 mean loss`)."""
NO_STEP: Step = ("", "", ())

_DIGITS = regex(r"\d[\d,_]*")
_LOSS = regex(r"(?i:loss)[\s=:\"']*$")
Pair = tuple[re.Match[str], re.Match[str]]
"""A number of the first row, and the same of the last one."""


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
        return self._fold_alike(index, 0) or self._fold_alike(index, 1)

    def _fold_alike(self, index: int, shape: int) -> int:
        """The same with those that say the same by this part of their `Step`."""
        rows, row, same = self._rows, self._rows[index], [index]
        for at in range(index - 1, max(-1, index - 1 - BACK), -1):
            before = rows[at]
            if not _beside(before, row):
                break
            if step_of(_last(before))[shape] != step_of(row)[shape]:
                continue
            if not step_of(_last(before))[-1] < step_of(rows[same[-1]])[-1]:
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
        pattern = numbers_in(text)
        counts = [match.group() for match in pattern.finditer(text) if match.lastgroup == "counts"]
        numbers = tuple(int(re.sub("[,_]", "", found[0])[:18]) for one in counts if (found := _DIGITS.findall(one)))
        if not numbers or row.level or row.shift or row.inserted:
            row.step = NO_STEP
        else:
            row.step = unpadded(pattern.sub(_shape, text)), shapeless(text), numbers
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
    """One line for all from the first to the last: steps and a figure from where to where, `*` for what differs."""
    text, parts, seen, number = first.common or first.text, [], 0, -1
    pairs = list(_both(text, last.common or last.text))
    figure = _figure(text, pairs)
    starred = {*first.differs, *last.differs}
    for at, (mine, other) in enumerate(pairs):
        number += mine.lastgroup != "counts"
        said = (mine.group(), other.group())
        if mine.lastgroup == "counts":
            words = _counted(*said)
        elif at == figure and (begin := _end(mine, number, first)) and (end := _end(other, number, last)):
            words = begin if begin == end else f"{begin} to {end}"
        else:
            words = "*" if said[0] != said[1] or number in starred else said[0]
        parts += [text[seen : mine.start()], words]
        seen = mine.end()
    return "".join(parts) + text[seen:]


def _figure(text: str, pairs: Sequence[Pair]) -> int | None:
    """Which of its numbers is shown from where to where: the loss, else the first with a point or a unit, else the
    first whole one that differs."""
    varies = [at for at, (mine, _) in enumerate(pairs) if mine.lastgroup == "varies"]
    losses = [at for at in varies if _LOSS.search(text, max(0, (start := pairs[at][0].start()) - 9), start)]
    whole = [at for at, (mine, other) in enumerate(pairs) if mine.lastgroup == "whole" and mine[0] != other[0]]
    return next(iter([*losses, *varies, *whole]), None)


def _end(number: re.Match[str], at: int, row: Group) -> str | None:
    """What is said of a figure by a row; of several ranks the middle, None where there is none."""
    if at not in row.differs:
        return number.group()
    ends = row.differs[at] if number.lastgroup == "varies" else None
    return written_as(number.group(), middle(*ends)) if ends is not None else None


def _both(first: str, last: str) -> Iterator[Pair]:
    return zip(numbers_in(first).finditer(first), numbers_in(last).finditer(last), strict=False)


def _counted(first: str, last: str) -> str:
    """`step 120/500` and `step 139/500` as `step 120..139/500`."""
    ends = iter(_DIGITS.findall(last))

    def both(match: re.Match[str]) -> str:
        end = next(ends, match.group())
        return match.group() if end == match.group() else f"{match.group()}..{end}"

    return _DIGITS.sub(both, first)
