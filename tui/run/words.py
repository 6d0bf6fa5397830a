"""Runs in the words of lists: states, times, sizes, failures."""

from __future__ import annotations

import time

from rich.style import Style

from distui.amounts import duration
from distui.runs.lines.events import Failure
from distui.runs.report.history import RunRow
from distui.tui.paint.theme import Palette

_STATES = {
    "running": "RUNNING", "launching": "LAUNCHING", "stopping": "STOPPING", "partial": "PARTLY", "degraded": "DEGRADED",
    "retrying": "RETRYING",
    "failed": "failed", "launch_failed": "not started", "detached": "detached",
}  # fmt: skip


def state_words(row: RunRow) -> str:
    """Uppercase while it lives, with its attempt where there are several; a failure with its exit status."""
    words = _STATES.get(row.state, row.state)
    if row.live and row.attempts > 1:
        return f"{words} {row.attempt}/{row.attempts}"
    return f"{words} {row.exit}" if row.state == "failed" and row.exit else words


def state_style(row: RunRow, palette: Palette) -> Style:
    """Of its state: wrong, live, or nothing to look at."""
    if row.state in ("failed", "launch_failed", "lost"):
        return palette.wrong
    return palette.good if row.live and row.state == "running" else palette.muted


def started_words(at: float | None) -> str:
    """`14:03 today`, `Mon 09:11`, `2026-01-31`."""
    if at is None:
        return "-"
    then, now = time.localtime(at), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("today %H:%M", then)
    if time.time() - at < 6 * 86400:
        return time.strftime("%a %H:%M", then)
    return time.strftime("%Y-%m-%d", then)


def took_words(row: RunRow) -> str:
    """How long it took, or has been running."""
    if row.took is not None:
        return duration(row.took)
    if row.started is None or not row.live:
        return "-"
    return duration(time.time() - row.started)


def failure_words(failure: Failure | None) -> str:
    """`r13 node02 CUDA error: illegal memory access`; `-` when nothing failed."""
    if failure is None:
        return "-"
    rank = failure.name or (f"r{failure.rank}" if failure.rank is not None else "")
    return f"{' '.join(part for part in (rank, failure.host) if part)} {failure.cause or failure.words}"
