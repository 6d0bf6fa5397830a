"""Whether replicas ended alike: what ranks printed last that all of them must print (`same` of the job). Pure.

Values are compared as numbers where all of them are some (`0.320` is `0.32`), else letter by letter. More than half of
the ranks are the measure; without a majority nobody can say who is right.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from distui.frozen import frozen
from distui.plan.labels import named_ranks

SHOWN = 80
"""Letters shown of what a rank printed."""


@frozen
class Said:
    """What a rank printed last: the value that is compared, and the words it stands in."""

    value: str
    words: str


@frozen
class Drift:
    """What the comparison found. `odd` are the ranks that differ from most others; empty when there is no majority."""

    words: str = ""
    """How the ranks differ; empty when they do not."""
    odd: tuple[int, ...] = ()
    warning: str = ""
    """Ranks that could not be compared, since they printed nothing of it."""


def compared(last: Mapping[int, Said | None]) -> Drift:
    """Ranks -> what each printed last, None where it printed nothing that matches."""
    silent = [rank for rank, said in last.items() if said is None]
    said_by_rank = {rank: said for rank, said in last.items() if said is not None}
    if last and not said_by_rank:
        return Drift(warning="no rank printed a line that matches `same`: nothing was compared")
    warning = f"{named_ranks(silent)} printed no line that matches `same`" if silent else ""
    groups = _groups(said_by_rank)
    if len(groups) < 2:
        return Drift(warning=warning)
    most = max(groups, key=len)
    if 2 * len(most) <= len(said_by_rank):
        return Drift(_words(groups, said_by_rank), warning=warning)
    others = [ranks for ranks in groups if ranks is not most]
    message = f"{_words(others, said_by_rank)}, the others with {_shown(said_by_rank[most[0]])}"
    return Drift(message, tuple(sorted(rank for ranks in others for rank in ranks)), warning)


def _groups(by_rank: Mapping[int, Said]) -> list[list[int]]:
    """The ranks that said the same, by the first of them."""
    numbers = {rank: _number(said.value) for rank, said in by_rank.items()}
    as_numbers = all(number is not None for number in numbers.values())
    groups: dict[Hashable, list[int]] = {}
    for rank, said in by_rank.items():
        groups.setdefault(numbers[rank] if as_numbers else said.value.strip(), []).append(rank)
    return list(groups.values())


def _number(text: str) -> Hashable | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return "nan" if number.is_nan() else number


def _words(groups: Sequence[Sequence[int]], by_rank: Mapping[int, Said]) -> str:
    parts = [f"{named_ranks(ranks)} ended with {_shown(by_rank[ranks[0]])}" for ranks in groups[:4]]
    return ", ".join([*parts, *([f"{len(groups) - 4} more differ, too"] if len(groups) > 4 else [])])


def _shown(said: Said) -> str:
    words = " ".join(said.words.split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}..."
