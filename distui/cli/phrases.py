"""Counts, spans and durations for people."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def span(ranks: Iterable[int]) -> str:
    """Ranks in the shortest form: `0-3,7`."""
    parts: list[str] = []
    start = last = -2
    for rank in [*sorted(set(ranks)), None]:
        if rank is not None and rank == last + 1:
            last = rank
            continue
        if start >= 0:
            parts.append(str(start) if start == last else f"{start}-{last}")
        if rank is not None:
            start = last = rank
    return ",".join(parts)


def duration(seconds: float) -> str:
    """`4.2 s`, `3m 10s`, `1h 12m`."""
    whole = round(seconds)
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
