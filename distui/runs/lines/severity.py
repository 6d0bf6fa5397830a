"""How bad a log line is by its words, and which line of a failure says what happened. Pure."""

from __future__ import annotations

from typing import Literal

from distui.regex import regex
from distui.runs.lines.events import Failure
from distui.runs.lines.prefixes import PREFIX, parts, unranked
from distui.runs.lines.text import safe

_RAISED = r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure)(?::|$)"
_RAISED_LINE = regex(rf"^{_RAISED}")
ERROR = regex(
    rf"^{PREFIX}{_RAISED}"
    r"|\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|CUDA error|[Oo]ut of memory|Segmentation fault|core dumped|\bXid\b"
)
WARN = regex(r"\b(?:NCCL WARN|WARNING|WARN|[A-Za-z]*Warning|[Ww]atchdog|[Rr]etransmit)\b|[ =:](?:nan|NaN|-?inf)\b")

_ERROR_SIGNS = (
    "Error", "Exception", "Interrupt", "Exit", "Failure", "ERROR", "FATAL", "CRITICAL", "PANIC", "CUDA error",
    "ut of memory", "Segmentation fault", "core dumped", "Xid",
)  # fmt: skip
_WARN_SIGNS = ("WARN", "Warning", "atchdog", "etransmit", "nan", "NaN", "inf")
"""One of these is in every such line. Most lines have none, and the patterns take ten times as long to see that."""


def severity(text: str) -> Literal["error", "warn", ""]:
    """How bad a line is by its words."""
    if any(map(text.__contains__, _ERROR_SIGNS)) and ERROR.search(text):
        return "error"
    return "warn" if any(map(text.__contains__, _WARN_SIGNS)) and WARN.search(text) else ""


def headline_of(failure: Failure) -> str:
    """The one line that says what happened: its last error, else the last thing it said; without `[rank3]: `, or what
    else a launcher puts before it.
    """
    lines = [_meant(safe(text)).strip() for text in failure.excerpt if text.strip()]
    errors = [line for line in lines if severity(line) == "error"]
    return (errors or lines or [failure.words])[-1]


def _meant(text: str) -> str:
    """A line without the rank; a number or a margin before it is left out of what was raised only."""
    raised = parts(text).text
    return raised if _RAISED_LINE.match(raised) else unranked(text)
