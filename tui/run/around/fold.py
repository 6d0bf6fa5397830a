"""How the run view shares its rows: what folds first when there is little room. Pure.

First goes the loss plot, then the strip's history, the rank list, the second row of panes, the strip, the state row.
The timeline takes what the log leaves of the rest. The log never folds.
"""

from __future__ import annotations

from distui.frozen import frozen

NARROW = 100
"""Below this many columns the rank list becomes a row per host."""
SIDE, WIDE_SIDE = 26, 38
"""Columns of the rank list, and with steps beside all the rest."""
WIDE_FROM = 120
LOG = 3
"""Rows that the log keeps."""


@frozen
class Wanted:
    """What there is to show, in rows."""

    banner: int = 0
    events: int = 0
    """Rows of the timeline, title included."""
    hosts: int = 1
    ranks: int = 1
    """Rows of the rank list, title included."""
    loss: bool = False
    strip: str = "auto"
    """`auto`, `off`, `compact` or `full`."""
    merged: bool = False
    zoomed: bool = False
    steps: bool = False
    """Whether ranks tell their steps, for which the rank list is wider where there is room."""


@frozen
class Fold:
    """Rows of each part; 0 is not shown. `gap` is the empty row above parts."""

    banner: int
    narrow: int
    side: int
    """Columns of the rank list with what is below it."""
    loss: int
    compare: int
    timeline: int
    strip: int
    history: bool
    state: int
    gap: int


def fold(width: int, height: int, wanted: Wanted) -> Fold:
    """Share `height` rows of `width` cells."""
    gap = 1 if height >= 26 else 0
    state = 1 if height >= 11 else 0
    banner = min(wanted.banner, 4 if height >= 18 else 2 if height >= 9 else 1 if height >= 5 else 0)
    narrow = strip = 0
    if wanted.strip != "off" and not wanted.zoomed:
        if width < NARROW:
            narrow = min(wanted.hosts, 2 if height < 30 else 4) if height >= 12 else 0
        else:
            strip = _strip(height, wanted)
    beside = width >= NARROW and not wanted.zoomed and not wanted.merged and height >= 8
    side = (WIDE_SIDE if wanted.steps and width >= WIDE_FROM else SIDE) if beside else 0
    rest = height - sum(rows + gap for rows in (banner, strip, state) if rows)
    timeline = 0
    if wanted.events and not wanted.zoomed and not wanted.merged and width >= 60 and height >= 18:
        room = rest - (narrow + 1 if narrow else 0) - gap - LOG
        timeline = min(wanted.events, max(4, height // 4), room) if room > 1 else 0
    loss = min(8, rest - wanted.ranks - gap) if side and wanted.loss else 0
    compare = 1 + min(8, max(2, rest // 4)) if wanted.merged and rest >= 16 else 0
    return Fold(
        banner, narrow, side, loss if loss >= 4 else 0, compare, timeline, strip,
        wanted.strip == "full" or (wanted.strip == "auto" and width >= 110), state, gap,
    )  # fmt: skip


def _strip(height: int, wanted: Wanted) -> int:
    if wanted.strip == "full":
        return min(wanted.hosts, max(1, height // 3)) + 1 if height >= 12 else 0
    if wanted.strip == "compact":
        return min(wanted.hosts, 2) + 1 if height >= 12 else 0
    most = 8 if height >= 45 else 4 if height >= 30 else 2
    return min(wanted.hosts, most) + 1 if height >= 18 else 0
