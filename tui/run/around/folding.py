"""Shares the rows of the run view among its parts, as the window, the run and the keys want it."""

from __future__ import annotations

from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.parts import Part
from distui.tui.logs.feed import RunFeed
from distui.tui.run.around import failure_banner, hang
from distui.tui.run.around.fold import Fold, Wanted, fold
from distui.tui.run.panes.panes import Panes
from distui.tui.run.ranks import timeline
from distui.tui.widgets.painted import Painted

STRIPS = ("auto", "off", "compact", "full")
PARTS = ("banner", "narrow", "loss", "compare", "timeline", "strip", "state")
"""Ids of what folds to no row at all."""


class Folding(Part):
    """How many rows each part has, and the key that changes those of the strip."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("strip", "strip", ("v",), "Layout", "strip", help="GPUs and network: auto, off, short, full."),
    )

    def __init__(self, view: View, feed: RunFeed, panes: Panes) -> None:
        self.view = view
        self.feed = feed
        self.panes = panes
        self.strip_mode = "auto"
        """GPUs and network: `auto`, `off`, `compact` or `full`."""
        self.folded: Fold | None = None
        """How the rows are shared out now."""

    @property
    def history(self) -> bool:
        """Whether the strip has room for what was before."""
        return self.folded is not None and self.folded.history

    def fit(self) -> None:
        """Share the rows again; a view that goes may be laid out once more, where the window was resized."""
        if self.view.closing:
            return
        size = self.view.query_one("#body").size
        if not size.width:
            return
        merged = self.panes.merged_only
        folded = fold(size.width, size.height, self._wanted())
        if (folded, merged) == (self.folded, not self.view.query_one("#mid").display):
            return
        self.folded = folded
        for name in PARTS:
            part = self.view.query_one(f"#{name}", Painted)
            rows: int = getattr(folded, name)
            part.display = rows > 0
            part.styles.height = max(1, rows)
            part.styles.margin = (0 if name == "banner" else folded.gap, 0, folded.gap if name == "banner" else 0, 0)
        self.view.query_one("#narrow").styles.margin = (0, 0, 1 if size.height >= 18 else 0, 0)
        side = self.view.query_one("#side")
        side.display, side.styles.width = folded.side > 0, max(1, folded.side)
        self.view.query_one("#mid").display = not merged
        self.panes.full_merged.display = merged
        if self.view.focused is self.panes.ranks.list and not folded.side:
            self.panes.active.focus()

    def _wanted(self) -> Wanted:
        return Wanted(
            banner=self._banner(),
            events=timeline.rows_wanted(self.feed.moments),
            hosts=len(self.feed.live.plan.hosts),
            ranks=1 + len(self.panes.ranks.list.rows),
            loss=self.feed.figure is not None,
            steps=len(self.feed.state.steps) > 0,
            strip=self.strip_mode,
            merged=self.panes.merged_only,
            zoomed=self.panes.zoomed,
        )

    def _banner(self) -> int:
        stands = hang.banner_rows(self.feed, self.view.size.width)
        return stands or failure_banner.banner_rows(self.feed.state.failure, self.feed.warnings)

    def action_strip(self) -> None:
        """GPUs and network in other sizes."""
        self.strip_mode = STRIPS[(STRIPS.index(self.strip_mode) + 1) % len(STRIPS)]
        self.fit()
        for name in ("#strip", "#state"):
            self.view.query_one(name, Painted).repaint()
