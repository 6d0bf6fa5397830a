"""A row of the merged log: a line, who said it when, and which of its numbers differ. Pure.

Lines are one when they are equal but for dates and times of day (`10:04:59,120`), numbers with a point or a unit
(`loss 2.104`, `41.3k`) and for the number of the rank that says them (`rank 3/16`). Other numbers may differ only from
rank to rank (`worker 3 restarted`), and not in errors; those that count (`step 18240`, `12/500`) never: `step 18240` is
not folded with `step 18241`. Where numbers differ a `*` stands for them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from distui.regex import regex

Step = tuple[str, str, tuple[int, ...]]
"""What a row says but for its numbers, the same but for whole ones that don't count, and those that count."""

FOLD_S = 2.0
"""Equal lines that are closer than this are one."""

_CLOCK = (
    r"(?<![\w./:-])(?:\d{4}-\d\d-\d\d|\d{1,4}/\d{1,2}/\d{1,4})"
    r"(?:[T ]+(?:\d{1,2}:){2}\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)?)?(?![\w:/-])"
    r"|(?<![\w.:])\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\w:]|\.\d)"
)
"""A date, a time of day, or how long something takes: no figures, and they count nothing."""
_BAR = r"(?<=%\|)[^|]*(?=\|)"
"""The bar that tqdm paints."""
_VARYING = regex(r"(?<![\w.])[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?[a-zA-Z%]{0,2}|[kMGT]\b|(?:ms|us|s)\b)")
_SPACES = regex(r" +")
_PARTS = regex(r"([-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?)(.*)")
_COUNTS = (
    r"(?<![A-Za-z])(?i:(?:global[ _]?)?(?:steps?|iter(?:ation)?s?|it|epochs?|batch(?:es)?|updates?))[ =:#\[(]*"
    r"\d[\d,_]*(?:(?:\s*/\s*|\s+of\s+)\d[\d,_]*)?"
    r"|(?<![\w.])\d+\s*/\s*\d+(?![\w.])|^\s*\d+(?![\w.]|[-:]\w)"
)
"""Numbers that count: after their names, as a part of a total, at the beginning of a line."""
_NUMBERS = rf"(?P<counts>{_COUNTS})|(?P<varies>{_VARYING.pattern})|(?P<whole>(?<![\w.])[-+]?\d+(?![\w.]))"
_PLAIN = regex(_NUMBERS)
_TIMED = regex(rf"(?P<clock>{_CLOCK})|(?P<bar>{_BAR})|{_NUMBERS}")
_FOLDED = regex(rf"(?P<clock>{_CLOCK})|(?P<varies>{_VARYING.pattern})")
_MAY_BE_CLOCK = regex(r"\d:\d\d|\d-\d\d-\d|\d/\d+/\d")


def numbers_in(text: str) -> re.Pattern[str]:
    """What finds all numbers of a line: its groups tell which are `counts`, `varies`, `whole`, a `clock` or a `bar`."""
    return _TIMED if _may_be_timed(text) or "%|" in text else _PLAIN


def _may_be_timed(text: str) -> bool:
    """Whether to look for times: that is slow, and most lines have none."""
    return (":" in text or "-" in text or "/" in text) and _MAY_BE_CLOCK.search(text) is not None


@dataclass(slots=True)
class Group:
    """One row: a line, and who said it when. Several members when it was folded."""

    at: float
    """When the first of them was said."""
    last: float
    text: str
    """As the first rank said it."""
    level: str = ""
    ranks: array[int] = field(default_factory=lambda: array("i"))
    lines: array[int] = field(default_factory=lambda: array("Q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    low: float = 0.0
    high: float = 0.0
    """Range of the first number with a point or a unit."""
    common: str = ""
    """The text without the number of the rank that says it, where that is another one."""
    differs: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Which of its numbers differ, in their order, and the lowest and highest of whole ones."""
    key: str = ""
    """What its lines have in common, which makes them one."""
    shift: float = 0.0
    """How much later than the others' this rank's line came, in seconds."""
    inserted: bool = False
    """Came after later lines were shown already."""
    parts: list[Group] = field(default_factory=list)
    """The rows that it stands for, of one step each (`step_ranges.py`); none of a line that is itself."""
    step: Step | None = None
    """None before anybody asked."""
    folded: bool = False
    """Whether it is a part of another row: what is said later is no member any more."""
    alone: bool = False
    """Whether it was taken out of a range and stays."""

    @property
    def shown(self) -> str:
        """What stands for all members."""
        if len(self.ranks) == 1 or self.parts:
            return self.text
        return starred(self.common or self.text, self.differs, (self.low + self.high) / 2)

    def compare(self, text: str) -> None:
        """Note which numbers of another member's line differ from those of the first."""
        pairs = zip(numbers(self.common or self.text), numbers(text), strict=False)
        for at, (mine, other) in enumerate(pairs):
            if mine.group() != other.group():
                both = [float(m.group()) if m.lastgroup == "whole" else 0.0 for m in (mine, other)]
                low, high = self.differs.get(at, (both[0], both[0]))
                self.differs[at] = min(low, *both), max(high, *both)

    @property
    def members(self) -> int:
        """How many lines it stands for."""
        return len(self.ranks)

    def said_by(self) -> frozenset[int]:
        """The ranks that said it."""
        return frozenset(self.ranks)

    def spread(self) -> float:
        """Half the range of the first number that differs, 0 when all are equal."""
        return (self.high - self.low) / 2

    def each(self) -> Iterator[tuple[int, int, float]]:
        """(rank, line number, time) of every member, in time."""
        return iter(sorted(zip(self.ranks, self.lines, self.times, strict=True), key=itemgetter(2, 0)))


def numbers(text: str) -> list[re.Match[str]]:
    """The numbers of a line that may differ from rank to rank."""
    return [match for match in numbers_in(text).finditer(text) if match.lastgroup != "counts"]


def starred(text: str, differs: Collection[int], middle: float) -> str:
    """A line with `*` for its numbers that differ; the first with a point or a unit is the `middle` of its range."""
    kept, parts, seen = True, [], 0
    for at, match in enumerate(numbers(text)):
        first = kept and match.lastgroup == "varies"
        kept = kept and not first
        if at in differs:
            parts += [text[seen : match.start()], written_as(match.group(), middle) if first else "*"]
            seen = match.end()
    return "".join(parts) + text[seen:]


def written_as(text: str, value: float) -> str:
    """A value with the digits, exponent and unit of a number: 0.5 as `0.1438s` is `0.5000s`."""
    found = _PARTS.fullmatch(text)
    number, unit = found.groups() if found is not None else (text, "")
    mantissa, exponent, _ = number.lower().partition("e")
    return f"{value:.{len(mantissa.partition('.')[2])}{'e' if exponent else 'f'}}{unit}"


def loose_key(text: str) -> str:
    """What lines have in common whose numbers differ, but for those that count."""
    return unpadded(numbers_in(text).sub(lambda match: match.group() if match.lastgroup == "counts" else "#", text))


def unpadded(text: str) -> str:
    """A line with one space where there are several: numbers may be padded to one width."""
    return _SPACES.sub(" ", text) if "  " in text else text


def fold_key(text: str) -> tuple[str, float]:
    """What makes lines one, and the value of the first number that may differ (0 without one)."""
    pattern, first = _VARYING, _VARYING.search(text)
    if _may_be_timed(text):
        pattern = _FOLDED
        first = next((match for match in pattern.finditer(text) if match.lastgroup == "varies"), None)
    elif first is None:
        return text, 0.0
    value = first.group().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%") if first is not None else 0
    return pattern.sub("#", text), float(value)


@lru_cache(4096)
def _own_number(rank: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(rank[ =:_]?)0*{rank}(?!\d)", re.IGNORECASE)


def unranked(text: str, rank: int) -> str:
    """A line without the number of the rank that said it: `rank 3/16 epoch 2` of rank 3 is `rank */16 epoch 2`."""
    if rank < 0 or ("ank" not in text and "ANK" not in text):
        return text
    return _own_number(rank).sub(r"\1*", text)
