"""A row of the merged log: a line, who said it when, and which of its numbers differ. Pure.

Lines are one when they are equal but for dates and times of day (`10:04:59,120`), numbers with a point or a unit
(`loss 2.104`, `41.3k`) and for the number of the rank that says them (`rank 3/16`). Other numbers may differ only from
rank to rank (`worker 3 restarted`), and not in errors; those that count (`step 18240`, `12/500`) never: `step 18240` is
not folded with `step 18241`. Where numbers differ a `*` stands for them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from distui.regex import regex
from distui.tui.logs.merged.spreads import NONE_YET, Ends, Shape, apart, middle, names, widened, written_as

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
    common: str = ""
    """The text without the number of the rank that says it, where that is another one."""
    differs: dict[int, Ends] = field(default_factory=dict)
    """Which of its numbers differ, by their places in the line, and the lowest and the highest."""
    shape: Shape | None = None
    """Which numbers of lines like this one differ; None while none of its own does."""
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
        return starred(self.common or self.text, self.differs)

    def compare(self, text: str) -> list[int]:
        """Note which numbers of another member's line differ from those of the first; the places of new ones."""
        pairs = zip(numbers(self.common or self.text), numbers(text), strict=False)
        fresh = []
        for at, (mine, other) in enumerate(pairs):
            if mine.group() != other.group():
                if at not in self.differs:
                    fresh.append(at)
                self.differs[at] = widened(self.differs.get(at, NONE_YET), mine.group(), other.group())
        return fresh

    @property
    def members(self) -> int:
        """How many lines it stands for."""
        return len(self.ranks)

    def said_by(self) -> frozenset[int]:
        """The ranks that said it."""
        return frozenset(self.ranks)

    @property
    def spread_at(self) -> int | None:
        """The place of the number whose spread is shown."""
        return (self.shape or Shape()).chosen(self.differs) if self.differs else None

    def spread(self) -> str:
        """How far the number at `spread_at` differs, by its name: `loss ± 0.002` where its middle stands in the line,
        `gnorm 1.08 to 1.18` where a `*` does; empty when all are equal."""
        at = self.spread_at
        ends = self.differs.get(at) if at is not None else None
        if at is None or ends is None:
            return ""
        text = self.common or self.text
        found = numbers(text)
        number, (low, high) = found[at], ends
        words = f"± {apart(low, high):.3g}"
        if at != _middle_at(found):
            low_words, high_words = (written_as(number.group(), value) for value in ends)
            words = f"{low_words} to {high_words}"
        return f"{names(text, found)[at]} {words}".lstrip()

    def each(self) -> Iterator[tuple[int, int, float]]:
        """(rank, line number, time) of every member, in time."""
        return iter(sorted(zip(self.ranks, self.lines, self.times, strict=True), key=itemgetter(2, 0)))


def numbers(text: str) -> list[re.Match[str]]:
    """The numbers of a line that may differ from rank to rank."""
    return [match for match in numbers_in(text).finditer(text) if match.lastgroup != "counts"]


def _middle_at(found: list[re.Match[str]]) -> int | None:
    """The place of the number that is shown as the middle of its range: the first with a point or a unit."""
    return next((at for at, match in enumerate(found) if match.lastgroup == "varies"), None)


def starred(text: str, differs: Mapping[int, Ends]) -> str:
    """A line with `*` for its numbers that differ; the first with a point or a unit is the middle of its range."""
    parts, seen, found = [], 0, numbers(text)
    middle_at = _middle_at(found)
    for at, match in enumerate(found):
        if at in differs:
            ends = differs[at] if at == middle_at else None
            parts += [text[seen : match.start()], written_as(match.group(), middle(*ends)) if ends else "*"]
            seen = match.end()
    return "".join(parts) + text[seen:]


def loose_key(text: str) -> str:
    """What lines have in common whose numbers differ, but for those that count."""
    return unpadded(numbers_in(text).sub(lambda match: match.group() if match.lastgroup == "counts" else "#", text))


def unpadded(text: str) -> str:
    """A line with one space where there are several: numbers may be padded to one width."""
    return _SPACES.sub(" ", text) if "  " in text else text


def shapeless(text: str) -> str:
    """A line without any of its numbers."""
    return unpadded(numbers_in(text).sub("#", text))


def fold_key(text: str) -> str:
    """What makes lines one: a line without the numbers that may differ."""
    return (_FOLDED if _may_be_timed(text) else _VARYING).sub("#", text)


@lru_cache(4096)
def _own_number(rank: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(rank[ =:_]?)0*{rank}(?!\d)", re.IGNORECASE)


def unranked(text: str, rank: int) -> str:
    """A line without the number of the rank that said it: `rank 3/16 epoch 2` of rank 3 is `rank */16 epoch 2`."""
    if rank < 0 or ("ank" not in text and "ANK" not in text):
        return text
    return _own_number(rank).sub(r"\1*", text)
