"""Which rank is in which pane of the run view, and which pane is the active one."""

from __future__ import annotations

from collections.abc import Callable

from distui.plan.labels import format_ranks
from distui.tui.frame.base import View
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.feed import RunFeed
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.run.panes.pane_grid import MOST, PaneGrid
from distui.tui.run.ranks.rank_list import RankList
from distui.tui.run.words import rank_note
from distui.tui.widgets.painted import Painted


class Panes:
    """The panes of a run view: panes of ranks and the merged log, or the merged log alone."""

    def __init__(self, view: View, feed: RunFeed, refold: Callable[[], None]) -> None:
        self.view = view
        self.feed = feed
        self.refold = refold
        """Shares the rows of the screen again."""
        self.merged_only = False
        self.zoomed = False
        self._active: Pane | None = None

    # What is there.

    @property
    def grid(self) -> PaneGrid:
        """The panes side by side."""
        return self.view.query_one(PaneGrid)

    @property
    def ranks(self) -> RankList:
        """The list at the left."""
        return self.view.query_one(RankList)

    @property
    def full_merged(self) -> MergedPane:
        """The merged log that has the screen to itself."""
        return self.view.query_one("#merged", MergedPane)

    @property
    def merged(self) -> tuple[MergedPane, MergedPane]:
        """Both panes of the merged log."""
        return self.full_merged, self.grid.merged

    @property
    def visible(self) -> list[Pane]:
        """The panes on the screen, in order."""
        return [self.full_merged] if self.merged_only else list(self.grid.shown)

    @property
    def active(self) -> Pane:
        """The pane that keys for logs mean."""
        panes = self.visible
        return self._active if self._active is not None and self._active in panes else panes[0]

    @property
    def log_pane(self) -> LogPane:
        """The active pane of one rank; beside the merged log the first."""
        pane = self.active
        return pane if isinstance(pane, LogPane) else self.grid.logs[0]

    @property
    def by_rank(self) -> dict[int, str]:
        """Rank -> the number of the pane it is in."""
        return {
            pane.rank: str(pane.number or "")
            for pane in self.grid.log_panes
            if pane.rank is not None and not self.merged_only
        }

    def pane_of(self, rank: int) -> LogPane | None:
        """The pane a rank is in."""
        return next((pane for pane in self.grid.log_panes if pane.rank == rank), None)

    def place_of(self, pane: LogPane) -> str:
        """What the title of the only pane says instead of its number."""
        if len(self.grid.shown) > 1 or pane.rank is None:
            return ""
        order = list(self.feed.placed)
        return f"rank {order.index(pane.rank) + 1} of {len(order)}" if pane.rank in order else "ranks"

    # What changes.

    def changed(self) -> None:
        """Something the state row or the titles say has changed."""
        if self.view.is_mounted:
            self.ranks.panes = self.by_rank
            self.ranks.list.repaint()
            self.view.query_one("#state", Painted).repaint()
            self.view.refresh_bars()

    def activate(self, pane: Pane, *, focus: bool = False) -> None:
        """Make a pane the one that keys for logs mean."""
        self._active = pane
        for other in (*self.grid.logs, self.grid.merged, self.full_merged):
            if other.active != (other is pane):
                other.active = other is pane
                other.repaint()
        if focus:
            pane.focus()
        self.changed()

    def focus_list(self) -> None:
        """Give the keys to the rank list, or to the pane where that has no room."""
        (self.ranks.list if self.view.query_one("#side").display else self.active).focus()

    def turn_merged(self) -> None:
        """The merged log with the screen to itself, and back."""
        self.merged_only = not self.merged_only
        if self.merged_only:
            self.full_merged.dirty = True
        self.refold()
        self.activate(self.full_merged if self.merged_only else self.grid.shown[0], focus=True)
        if not self.merged_only:
            self.focus_list()

    def leave_merged(self) -> None:
        """Back to panes of ranks, when the merged log has the screen."""
        if self.merged_only:
            self.turn_merged()

    # What is in them.

    def show_rank(self, rank: int, pane: LogPane) -> None:
        """Point a pane at a rank, or at a launcher under its number."""
        buffer = self.feed.sources[rank]
        _, gpus = self.feed.placed.get(rank, (None, ()))
        where = buffer.host + (f" gpu {format_ranks(gpus)}" if gpus else "" if rank >= 0 else " launcher")
        pane.show(buffer, (self.feed.tag(rank), where), rank)
        pane.live = not self.feed.over
        pane.place = self.place_of(pane)
        self.changed()

    def show_words(self, buffer: LogBuffer, pane: LogPane) -> None:
        """Point a pane at a launcher's own log."""
        pane.show(buffer, ("launcher", buffer.host), 0)
        pane.live = not self.feed.over
        self.changed()

    def fill(self) -> None:
        """Give every empty pane a rank: the first of each host, then the others in order."""
        grid = self.grid
        grid.most = min(len(self.feed.buffers) + 1, MOST) if len(self.feed.buffers) > 1 else 1
        grid.with_merged = len(self.feed.buffers) > 1
        firsts = [task.ranks[0] for task in self.feed.placed_by_host()]
        order = [*firsts, *(r for r in self.feed.placed if r not in firsts)]
        taken = {pane.rank for pane in grid.logs}
        free = [r for r in order if r not in taken]
        for pane in grid.logs:
            if pane.view is None and free:
                self.show_rank(free.pop(0), pane)

    def put(self, rank: int) -> None:
        """Show a rank in the active pane, or where it is already."""
        self.leave_merged()
        there = self.pane_of(rank)
        self.activate(there or self.log_pane)
        if there is None:
            self.show_rank(rank, self.log_pane)

    def look_at(self, rank: int) -> None:
        """Show a rank in the one pane of a rank, where panes are as they come."""
        if not self.grid.wanted and not self.merged_only and rank in self.feed.sources:
            self.show_rank(rank, self.grid.logs[0])

    def now_is(self) -> None:
        """What the titles say of a run that goes on, or has ended."""
        stands = self.feed.stands is not None
        for log_pane in self.grid.logs:
            row = self.ranks.ranks.get(log_pane.rank) if log_pane.rank is not None else None
            note = ""
            if row is not None:
                note = rank_note(row, self.feed.gpus_of(row), ranks=self.feed.live.plan.world_size, stands=stands)
            loud = row is not None and row.tone == "watch"
            log_pane.now_is(live=self.feed.lives(log_pane.rank), place=self.place_of(log_pane), note=note, loud=loud)
        for merged in self.merged:
            if merged.live == self.feed.over:
                merged.live = not self.feed.over
                merged.repaint()

    def show_merged(self) -> None:
        """Show the merged log as the feed has it now: folded or not, or read from further back."""
        for pane in self.merged:
            pane.show(self.feed.merged)
