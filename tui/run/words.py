"""Runs in the words of lists: states, times, sizes, failures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence

from rich.style import Style

from distui.amounts import duration, plural
from distui.runs.lines.events import GpuReading
from distui.runs.lines.text import safe
from distui.runs.report.history import RunRow
from distui.runs.report.rank_rows import RankRow
from distui.runs.state.load import waits
from distui.tui.paint.theme import Palette

_STATES = {
    "running": "RUNNING", "launching": "LAUNCHING", "stopping": "STOPPING", "partial": "PARTLY", "degraded": "DEGRADED",
    "retrying": "RETRYING", "starting": "STARTING",
    "failed": "failed", "launch_failed": "not started", "detached": "detached",
}  # fmt: skip


def rank_note(row: RankRow, gpus: Sequence[GpuReading], *, ranks: int, stands: bool) -> str:
    """What there is to know of a rank that is behind, or whose run stands still: how far, what it does, its GPU.

    `ranks` is how many its run has.
    """
    late = f"{row.lag:,} {plural(row.lag, 'step')} behind" if row.tone == "watch" and row.lag else ""
    busy = gpu_words(gpus, ranks) if stands and row.tone != "watch" else ""
    return ": ".join(part for part in (late, safe(row.does).replace("\n", " ") or busy) if part)


def gpu_words(gpus: Iterable[GpuReading], ranks: int) -> str:
    """`97 % at 110 W: waiting in a collective`; empty where not most of them wait so.

    The one GPU of the one rank of a run has none to wait for: of it the figures are all that is known.
    """
    seen = list(gpus)
    found = [gpu for gpu in seen if waits(gpu)]
    if not found or 2 * len(found) < len(seen):
        return ""
    load = statistics.median(gpu.utilization_pct or 0.0 for gpu in found)
    watts = statistics.median(gpu.power_w or 0.0 for gpu in found)
    waiting = ": waiting in a collective" if ranks > 1 or len(seen) > 1 else ""
    return f"{load:.0f} % at {watts:.0f} W{waiting}"


def _unread(row: RunRow) -> bool:
    """Whether it seems to run and nobody follows it here: that it goes on is not known."""
    return row.state == "running" and not row.followed


def sign_of(row: RunRow) -> str:
    """What its sign and its colour say."""
    return "quiet" if row.stands or row.silent else "unfollowed" if _unread(row) else row.state


def state_words(row: RunRow) -> str:
    """Uppercase while it lives, with its attempt where there are several; a failure with its exit status."""
    if row.stands and row.stalled is not None:
        return f"STALLED {duration(max(0.0, time.time() - row.stalled.since), coarse=True)}"
    if row.silent and row.quiet is not None:
        return f"QUIET {duration(max(0.0, time.time() - row.quiet), coarse=True)}"
    words = _STATES.get(row.state, row.state)
    if row.live and row.attempts > 1:
        return f"{words} {row.attempt}/{row.attempts}"
    return f"{words} {row.exit}" if row.state == "failed" and row.exit else words


def state_style(row: RunRow, palette: Palette) -> Style:
    """Of its state: wrong, to be watched, seen to go on, or nothing to look at."""
    if row.state in ("failed", "launch_failed", "lost"):
        return palette.wrong
    if row.stands or row.silent:
        return palette.watch
    return palette.good if row.live and row.state == "running" and row.followed else palette.muted


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
