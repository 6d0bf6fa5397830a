"""Numbers and times in what others wrote: what the host, the disk or a person says there may be anything.

Each reader gives a value that can be counted with, written as JSON and shown as a time, or None.
"""

from __future__ import annotations

FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
"""The first and last second of the years 1 to 9999: beyond them nothing here can say a time."""

MOST = 1 << 66
"""No counter goes beyond this: one of 64 bits that counts words of four bytes."""

CODES = 1 << 32
"""No exit status is beyond this, on whatever system."""


def whole(text: str | bytes | bytearray, digits: int = 18) -> int | None:
    """The number that plain digits are, at most so many of them; None for all else.

    `isdigit` alone is no question to ask before `int`: it takes `²`, and more digits than `int` does.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def count(value: object, most: int = MOST) -> int | None:
    """A whole number from 0 on, as JSON has it; None for all else, also for what is more than any counter says."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def code(value: object) -> int | None:
    """An exit status, as JSON has it; None for all else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -CODES < value < CODES else None


def moment(seconds: object) -> float | None:
    """A time in UTC seconds since the epoch; None beyond the years 1 to 9999, and for what is no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if FIRST <= seconds <= LAST else None


def moment_ns(nanos: object) -> float | None:
    """The same of a time in whole nanoseconds."""
    if isinstance(nanos, bool) or not isinstance(nanos, int) or not FIRST * 1e9 <= nanos <= LAST * 1e9:
        return None
    return nanos / 1e9
