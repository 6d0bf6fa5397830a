"""What the kernel counted of each rank while a run was watched, as cells and as JSON for `distui why`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from distui.amounts import size_words
from distui.runs.insight.slow import Slow, span
from distui.runs.lines.explanation import RankPlace

HEADS = ("RANK", "HOST", "LATE", "CPU", "NO CORE", "READ", "WRITTEN", "AT", "DOES")
"""LATE: later than the others. CPU: cores used. NO CORE: part of the time in which its main thread got none."""


def figures_row(place: RankPlace, slow: Slow) -> tuple[str, ...]:
    """A rank as cells; `?` is what nobody knows."""
    seen = next((one for one in slow.ranks if one.rank == place.rank), None)
    process, figures = seen.process if seen is not None else None, slow.figures(place.rank)
    late = "?" if place.late is None else span(place.late) if place.late > 0.0005 else "-"
    used = f"{process.cpu:.1f}" if process is not None else "?"
    delayed = figures.delayed if figures is not None else None
    refused = f"{delayed / figures.seconds:.0%}" if figures is not None and delayed is not None else "?"
    read, written = (
        _rate(count, figures.seconds if figures is not None else 0.0)
        for count in ((process.read, process.written) if process is not None else (None, None))
    )
    return (
        f"{'>' if place.culprit else ' '}{place.rank}", place.host, late, used, refused, read, written,
        place.place, place.does,
    )  # fmt: skip


def _rate(count: int | None, seconds: float) -> str:
    return "?" if count is None or not seconds else f"{size_words(count / seconds)}/s"


def figures_json(slow: Slow) -> dict[str, Any]:
    """Everything of the watch that is not among the ranks' answers, bounded as it was read."""
    late = slow.lateness
    return {
        "lateness": {
            "late": [asdict(one) for one in late.late],
            "usual": {str(rank): seconds for rank, seconds in (late.usual or {}).items()},
            "pauses": [asdict(one) for one in late.pauses],
            "step_seconds": late.every, "steps": late.steps, "doubt": late.doubt, "uneven": late.uneven,
        },
        "links": [{**asdict(one), "share": one.share} for one in slow.links],
        "hosts": {
            host: {
                "pressure": dict(found.answer.pressure), "ahead": found.answer.ahead, "doubt": found.answer.doubt,
                "segments": found.segments, "again": found.again, "gpus": [dict(gpu) for gpu in found.gpus],
            }
            for host, found in sorted(slow.watched.items())
        },
        "kernel": {
            str(seen.rank): asdict(replace(figures, samples=())) | {"samples": len(figures.samples)}
            for seen in slow.ranks
            if (figures := slow.figures(seen.rank)) is not None
        },
    }  # fmt: skip
