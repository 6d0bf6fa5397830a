"""What ranks answered about a run, as words and cells: for `distui why` and the app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.amounts import duration, size_words
from distui.columns import table
from distui.runs.insight.slow.slow import Slow, span
from distui.runs.lines.events import ranks_words
from distui.runs.lines.explanation import STANDS, Explanation, RankPlace
from distui.runs.store.why_records import WhyRecord
from distui.runs.verdict.hang import UNSURE

Row = tuple[str, ...]

BEHIND = ("RANK", "HOST", "BEHIND", "AT", "DOES")
LATE = ("RANK", "HOST", "LATE", "AT", "DOES")
FIGURES = ("RANK", "HOST", "LATE", "CPU", "NO CORE", "READ", "WRITTEN", "AT", "DOES")
"""LATE: later than the others. CPU: cores used. NO CORE: part of the time in which its main thread got none."""

NOT_CERTAIN = f"not certain: {UNSURE}"
NO_CALLS = "no stack: it did not answer, or runs no Python"


def headline(record: WhyRecord) -> str:
    """What it is, and for how long it had been so when the ranks were asked."""
    found = record.found
    return found.headline + (f" (for {duration(record.at - found.since)})" if found.since is not None else "")


def is_unsure(found: Explanation) -> bool:
    """Whether `NOT_CERTAIN` is to be said beside the headline."""
    return found.certainty == "likely" and found.kind in STANDS


def heads(found: Explanation, slow: Slow | None) -> Row:
    """What the columns are: figures where ranks were watched, how late they are where that is all that was kept."""
    if slow is not None:
        return FIGURES
    return LATE if any(place.late is not None for place in found.ranks) else BEHIND


def cells(place: RankPlace, columns: Row, slow: Slow | None = None) -> Row:
    """A rank as cells under these heads; `?` is what nobody knows."""
    known = {
        "RANK": f"{'>' if place.culprit else ' '}{place.name or place.rank}",
        "HOST": place.host,
        "BEHIND": "?" if place.behind is None else str(place.behind or ""),
        "LATE": "?" if place.late is None else span(place.late) if place.late > 0.0005 else "-",
        "AT": place.place,
        "DOES": place.does,
    }
    if slow is not None:
        known |= _figures(place.rank, slow)
    return tuple(known[name] for name in columns)


def _figures(rank: int, slow: Slow) -> dict[str, str]:
    """What the kernel counted of a rank while it was watched."""
    seen = next((one for one in slow.ranks if one.rank == rank), None)
    process, figures = seen.process if seen is not None else None, slow.figures(rank)
    delayed = figures.delayed if figures is not None else None
    seconds = figures.seconds if figures is not None else 0.0
    return {
        "CPU": f"{process.cpu:.1f}" if process is not None else "?",
        "NO CORE": f"{delayed / seconds:.0%}" if delayed is not None else "?",
        "READ": _rate(process.read if process is not None else None, seconds),
        "WRITTEN": _rate(process.written if process is not None else None, seconds),
    }


def _rate(count: int | None, seconds: float) -> str:
    return "?" if count is None or not seconds else f"{size_words(count / seconds)}/s"


def text(record: WhyRecord, slow: Slow | None, *, stacks: bool) -> Iterator[str]:
    """All of it, line by line; the first is the headline."""
    found = record.found
    yield headline(record)
    if is_unsure(found):
        yield NOT_CERTAIN
    yield from (f"  {line}" for line in found.evidence)
    yield ""
    columns = heads(found, slow)
    yield from table(columns, (cells(place, columns, slow) for place in found.ranks))
    if found.advice:
        yield ""
        yield f"next: {found.advice}"
    if stacks:
        yield from stacks_text(record)


def called(ranks: Sequence[int], found: Explanation) -> str:
    """`ranks 0-1`, or their names."""
    return ranks_words(ranks, found.names)


def stacks_text(record: WhyRecord) -> Iterator[str]:
    """The calls of main threads, the same ones together."""
    for calls in record.calls:
        yield ""
        yield f"{called(calls.ranks, record.found)}:"
        yield from (f"  {frame}" for frame in calls.frames or (NO_CALLS,))
