"""Nothing that is painted, by whichever widget, steers the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from distui.regex import regex

_STEERS = regex("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0, C1, and what turns the direction of text. None of it takes a cell, so that a row is as wide without it."""


class Harmless(LineFilter):
    """The last word on every row. What distui paints itself is `safe` by then; an editor and an input field paint the
    text as it is, which may be a stranger's job file.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See textual."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [s if s.control else Segment(_STEERS.sub("", s.text), s.style) for s in segments]


HARMLESS = Harmless()
"""The one there is: textual keeps rows by the filter that they went through."""
