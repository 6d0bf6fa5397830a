"""Whole numbers in what others wrote: what the host, the disk or a person says there may be anything."""

from __future__ import annotations


def whole(text: str | bytes | bytearray, digits: int = 18) -> int | None:
    """The number that plain digits are, at most so many of them; None for all else.

    `isdigit` alone is no question to ask before `int`: it takes `²`, and more digits than `int` does.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
