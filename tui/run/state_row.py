"""The last row of the run view: how the active pane is set, and how much the run has printed."""

from __future__ import annotations

from distui.amounts import plural, size_words
from distui.tui.frame.base import View
from distui.tui.logs.feed import RunFeed
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.paint.paint import Line
from distui.tui.run.around.folding import Folding
from distui.tui.run.panes.log_display import since_words
from distui.tui.run.panes.log_search import LogSearch
from distui.tui.run.panes.panes import Panes

QUIET = ("off", "none", "all")
"""What the row says least loudly, and leaves out first where it is narrow."""


class StateRow:
    """Following, filter, search, times of the active pane; lines and bytes of the run."""

    def __init__(self, view: View, feed: RunFeed, panes: Panes, search: LogSearch, folding: Folding) -> None:
        self.view = view
        self.feed = feed
        self.panes = panes
        self.search = search
        self.folding = folding

    def lines(self, width: int, height: int) -> list[Line]:
        """How the active pane is set, and how much was printed."""
        palette, pane = self.view.palette, self.panes.active
        parts = [("follow", "end" if self.feed.over and pane.follow else "on" if pane.follow else "off")]
        if isinstance(pane, MergedPane):
            parts.append(("fold", "on" if pane.merged.fold else "off"))
            parts.append(("clock", "corrected, 500 ms window" if pane.merged.timed else "none, by line number"))
            only = self.search.only if pane.filter is not None else ""
        else:
            assert isinstance(pane, LogPane)
            only = self.search.only if pane.view is not None and pane.view.filter is not None else ""
            parts += [("wrap", "on" if pane.wrap else "off"), ("time", "local" if pane.times else "off")]
        parts += [("since", since_words(pane.since)), ("filter", only or "none")]
        parts += [("search", self.search.text)] if self.search.text else []
        parts += [("strip", self.folding.strip_mode)] if self.folding.strip_mode != "auto" else []
        count, size = self.feed.totals()
        end = Line()
        if count is not None:
            end.put(f"{count:,} {plural(count, 'line')}", palette.muted).gap(3)
        end.put(size_words(size), palette.muted).gap(1)
        gap, room = 3 if width >= 100 else 2, width - end.width - 2
        while parts and sum(len(name) + len(value) + 1 + gap for name, value in parts) > room:
            quiet = [part for part in parts if part[1] in QUIET]
            parts.remove(quiet[-1] if quiet else parts[-1])
        line = Line().gap(1)
        for name, value in parts:
            line.put(name, palette.faint).gap(1).put(value, palette.muted if value in QUIET else palette.text).gap(gap)
        return [line.ends_with(end, width)]
