"""Figures in a line, as a job's own pattern finds them and as the program wrote them.

Patterns say `[\\d.]+` where a loss stands: that is no match for `nan`, and of `1.2e-05` it is the first part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from distui.patterns import LimitedPattern, PatternMatch
from distui.regex import regex

_ODD = regex(r"(?<![\w.])(?:nan|inf(?:inity)?)(?![\w.])", re.IGNORECASE)
_DECIMAL = regex(r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)")
_EXPONENT = regex(r"[eE][-+]?\d+(?![\w.])")


class FigurePattern(LimitedPattern[str]):
    """A pattern whose named groups are figures; NaN and infinity are some, too."""

    def first(self, texts: Sequence[str]) -> tuple[int, PatternMatch[str]] | None:
        """The first text of these that matches, by its index, and the match."""
        found = super().first([_digits(text) for text in texts])
        return (found[0], _as_written(found[1], texts[found[0]])) if found is not None else None

    def each(self, texts: Sequence[str]) -> Iterator[tuple[int, PatternMatch[str]]]:
        """The texts that match, by their index, each with its first match."""
        for index, match in super().each([_digits(text) for text in texts]):
            yield index, _as_written(match, texts[index])


def _digits(text: str) -> str:
    """The text with NaN and infinity as digits in their places."""
    return _ODD.sub(lambda found: "0" * len(found[0]), text)


def _as_written(match: PatternMatch[str], text: str) -> PatternMatch[str]:
    """The match with its named groups as they stand in the text, numbers to their ends."""
    named = {name: _whole(text, *match.spans[name]) if name in match.spans else None for name in match.named}
    return replace(match, named=named)


def _whole(text: str, begin: int, end: int) -> str:
    number = _DECIMAL.fullmatch(text, begin, end)
    more = _EXPONENT.match(text, end) if number is not None else None
    return text[begin : more.end() if more is not None else end]
