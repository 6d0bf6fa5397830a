"""Text of a job or a host as a plan shows it: nothing in it drives the terminal."""

from __future__ import annotations

from distui.regex import regex

UNSEEN = (
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    "\u00ad\u034f\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"  # no room
    "\u115f\u1160\u2800\u3164\uffa0"  # what takes room and shows nothing
    "\u2028\u2029"  # what ends a line elsewhere
)
"""Characters that hide, or change how others are read; as they stand in a regular expression."""
UNPRINTABLE = regex(f"[\x00-\x1f\x7f-\x9f{UNSEEN}]")


def visible(text: str) -> str:
    r"""The text with unprintable characters as `\x1b`, so that a job file can't drive the terminal."""
    return UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
