"""A run in the words of a list, the same in `ps` and the app: how long it took, which attempt it is, what failed."""

from __future__ import annotations

import time

from distui.amounts import duration
from distui.runs.lines.events import Failure
from distui.runs.report.history import RunRow


def took_words(row: RunRow) -> str:
    """How long it took, or has been running; empty when nobody here knows."""
    if row.took is not None:
        return duration(row.took)
    return duration(max(0.0, time.time() - row.started)) if row.started is not None and row.goes_on else ""


def attempt_words(row: RunRow) -> str:
    """`attempt 2 of 3` where the job allows several; else empty."""
    return f"attempt {row.attempt} of {row.attempts}" if row.attempts > 1 else ""


def failure_words(failure: Failure | None, *, brief: bool = False) -> str:
    """`r13 node02 exit 1: CUDA out of memory`, empty when nothing failed; `brief` has the cause alone."""
    if failure is None:
        return ""
    rank = failure.name or (f"r{failure.rank}" if failure.rank is not None else "")
    what = failure.cause if brief and failure.cause else ": ".join(filter(None, (failure.words, failure.cause)))
    return " ".join(filter(None, (rank, failure.host, what)))
