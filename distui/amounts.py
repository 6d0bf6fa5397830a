"""Counts, sizes, moments and lengths of time for people, each in one way everywhere.

Memory, of GPUs and of machines, is in GiB (powers of 1024), as `nvidia-smi` and `free -h` count. Everything else in
bytes, disks, files and what goes over a network or bus, is decimal, as disks are sold and networks are rated.
Time is written as in a job file: `30s`, `1h 30m`.
"""

from __future__ import annotations

import time

from distui.regex import regex

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
DURATION = regex(rf"{_NUMBER}(?:ms|s|m|h|d)(?: ?{_NUMBER}(?:ms|s|m|h|d))*|{_NUMBER}")
"""A length of time as people write it: `30s`, `1h30m`, `1h 30m`, `1.5` (seconds)."""
_PART = regex(r"([0-9.]+)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_SIZES = ("B", "kB", "MB", "GB", "TB")
_TIMES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def seconds_of(text: str) -> float | None:
    """`1h30m` -> 5400.0; None for what is no length of time."""
    if not DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def plural(count: int, noun: str) -> str:
    """The noun as it stands after that number, which is written by itself: `host`, `hosts`, `processes`."""
    return noun if count == 1 else noun + ("es" if noun.endswith("s") else "s")


def counted(count: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count} {plural(count, noun)}"


def size_words(count: float) -> str:
    """Bytes of a disk, a file or a transfer: `1.2 TB`, `400 GB`."""
    power = 0
    while count >= 999.5 and power < len(_SIZES) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.1f} {_SIZES[power]}" if count < 9.95 and power else f"{count:.0f} {_SIZES[power]}"


def gib(mib: float) -> str:
    """MiB of memory as GiB without the unit: `612`, below ten with one digit."""
    size = mib / 1024
    return f"{size:.1f}" if 0 < size < 9.95 else f"{size:.0f}"


def memory_words(mib: float) -> str:
    """MiB of memory: `612 GiB`, `7.3 GiB`, `240 MiB`."""
    return f"{mib:.0f} MiB" if mib < 1023.5 else f"{gib(mib)} GiB"


def duration(seconds: float, *, coarse: bool = False) -> str:
    """`4.2s`, `40s`, `3m 10s`, `1h 12m`, `30d`; coarse, as an age, in one unit: `94s`, `72m`, `3h`."""
    seconds = max(0.0, float(seconds))
    whole = round(seconds)
    if coarse:
        length, unit = next((u for u in _TIMES if whole >= 2 * u[0]), _TIMES[-1])
        return f"{whole // length}{unit}"
    if seconds < 59.5:
        return f"{seconds:.1f}s" if seconds < 9.95 and not seconds.is_integer() else f"{seconds:.0f}s"
    first = next(i for i, (length, _) in enumerate(_TIMES) if whole >= length)
    parts: list[str] = []
    for length, unit in _TIMES[first : first + 2]:
        count, whole = divmod(whole, length)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts)


def clock(at: float) -> str:
    """`14:03:12`, as clocks here show it."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def moment(at: float) -> str:
    """`14:03:12` today, `Jan 31 14:03` before that."""
    then, now = time.localtime(at), time.localtime()
    return clock(at) if then[:3] == now[:3] else time.strftime("%b %d %H:%M", then)
