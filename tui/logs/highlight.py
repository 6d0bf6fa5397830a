"""What in a log line deserves a colour: levels, tracebacks, own code against library frames. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from distui.regex import regex
from distui.runs.lines.severity import WARN, severity
from distui.runs.lines.traceback import Frame, frame_of, is_library

Kind = Literal["error", "warn", "strong", "path", "muted", "faint"]
Span = tuple[int, int, Kind]
"""From, to (in characters), and what it is."""

_HEAD = regex(r"Traceback \(most recent call last\)|^During handling of the above|^The above exception was")
_PREFIX = regex(
    r"^(?:\[[^\]]{0,40}\d:\d\d[^\]]{0,16}\]|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\[(?:rank|default)\d+\]:?)\s*"
)
_INFO = regex(r"^(?:\[?(?:INFO|DEBUG|TRACE)\]?\b)")


def spans(text: str, before: str = "", own: Collection[str] = ()) -> list[Span]:
    """What to colour in `text`; `before` is the line above it, which tells whose code an indented line is, and `own`
    are installed packages that are one's own.
    """
    if _HEAD.search(text):
        return [(0, len(text), "strong")]
    if frame := frame_of(text):
        return _frame_spans(text, frame, own)
    if (above := frame_of(before)) and (above.line.text_of(text) or "").startswith(" "):
        return [(0, len(text), "faint")] if is_library(above.path, own) else []
    if level := severity(text):
        return [(0, len(text), level), *_word(text, level)]
    prefix = _PREFIX.match(text)
    start = prefix.end() if prefix else 0
    found: list[Span] = [(0, start, "faint")] if start else []
    if info := _INFO.match(text[start:]):
        found.append((start, start + info.end(), "muted"))
    return found


def _word(text: str, level: str) -> list[Span]:
    """The word that makes a warning one."""
    word = WARN.search(text) if level == "warn" else None
    return [(word.start(), word.end(), "strong")] if word else []


def _frame_spans(text: str, frame: Frame, own: Collection[str]) -> list[Span]:
    if is_library(frame.path, own):
        return [(0, len(text), "faint")]
    return [(0, frame.begin, "muted"), (frame.begin, frame.end, "path"), (frame.end, len(text), "muted")]
