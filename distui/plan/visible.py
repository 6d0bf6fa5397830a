"""Text of a job or a host as a plan shows it: nothing in it drives the terminal."""

from __future__ import annotations

from distui.regex import regex

UNPRINTABLE = regex("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text with unprintable characters as `\x1b`, so that a job file can't drive the terminal."""
    return UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
