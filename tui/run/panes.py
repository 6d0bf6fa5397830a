"""Which rank is in which pane of the run view, and how to get from one to the next."""

from __future__ import annotations

from typing import ClassVar

from distui.cluster.backend.values import LiveRun
from distui.plan.labels import format_ranks
from distui.tui.frame.actions import Action
from distui.tui.frame.context import app_of
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.feed import RunFeed
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged_pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.run.keys import LogKeys
from distui.tui.run.pane_grid import MOST, PaneGrid, fewer, next_choice
from distui.tui.run.rank_list import RankList


class PaneKeys(LogKeys):
    """The half of the run view that puts ranks into panes."""

    PANE_ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("merged", "merged", ("M",), "Layout", "merged", footer=True, help="All ranks in one log, and back."),
        Action("panes", "panes", ("P",), "Layout", "panes", footer=True, help="1 to 16 panes, as they fit."),
        Action("zoom", "zoom", ("f",), "Layout", "zoom", footer=True, help="The active pane alone, and back."),
        Action("larger", "larger", ("plus",), "Layout", help="Fewer panes; of one, the pane alone."),
        Action("smaller", "smaller", ("underscore",), "Layout", help="Out of the zoom, then more panes."),
        Action("next_pane", "next pane", ("tab",), "Layout"),
        Action("previous_pane", "previous pane", ("shift+tab",), "Layout"),
        Action("previous_rank", "previous rank", ("left_square_bracket",), "Logs"),
        Action("next_rank", "next rank", ("right_square_bracket",), "Logs"),
    )  # fmt: skip

    def __init__(self, live: LiveRun) -> None:
        super().__init__()
        self.live = live
        self.feed = RunFeed(live)
        self.merged_only = False
        self.zoomed = False
        self._active: Pane | None = None
        self._before_zoom = 0

    # Panes.

    @property
    def grid(self) -> PaneGrid:
        """The panes side by side."""
        return self.query_one(PaneGrid)

    @property
    def ranks(self) -> RankList:
        """The list at the left."""
        return self.query_one(RankList)

    @property
    def full_merged(self) -> MergedPane:
        """The merged log that has the screen to itself."""
        return self.query_one("#merged", MergedPane)

    @property
    def visible_panes(self) -> list[Pane]:
        """The panes on the screen, in order."""
        return [self.full_merged] if self.merged_only else list(self.grid.shown)

    @property
    def pane(self) -> Pane:
        """See LogKeys."""
        panes = self.visible_panes
        return self._active if self._active is not None and self._active in panes else panes[0]

    @property
    def since_now(self) -> float:
        """See LogKeys."""
        return self.feed.now

    def activate(self, pane: Pane, *, focus: bool = False) -> None:
        """Make a pane the one that keys for logs mean."""
        self._active = pane
        for other in (*self.grid.logs, self.grid.merged, self.full_merged):
            if other.active != (other is pane):
                other.active = other is pane
                other.repaint()
        if focus:
            pane.focus()
        self.panes_changed()

    def on_pane_active(self, event: Pane.Active) -> None:
        """A pane was focused."""
        event.stop()
        self.activate(event.pane)

    def show_rank(self, rank: int, pane: LogPane) -> None:
        """Point a pane at a rank, or at a launcher under its number."""
        buffer = self.feed.sources[rank]
        _, gpus = self.feed.placed.get(rank, (None, ()))
        where = buffer.host + (f" gpu {format_ranks(gpus)}" if gpus else "" if rank >= 0 else " launcher")
        pane.show(buffer, (self.feed.tag(rank), where), rank)
        pane.live = not self.feed.over
        pane.place = self.place_of(pane)
        self.panes_changed()

    def place_of(self, pane: LogPane) -> str:
        """What the title of the only pane says instead of its number."""
        if len(self.grid.shown) > 1 or pane.rank is None:
            return ""
        order = list(self.feed.placed)
        return f"rank {order.index(pane.rank) + 1} of {len(order)}" if pane.rank in order else "ranks"

    def show_words(self, buffer: LogBuffer, pane: LogPane) -> None:
        """Point a pane at a launcher's own log."""
        pane.show(buffer, ("launcher", buffer.host), 0)
        pane.live = not self.feed.over
        self.panes_changed()

    def fill_panes(self) -> None:
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

    @property
    def panes_of(self) -> dict[int, str]:
        """Rank -> the number of the pane it is in."""
        return {
            pane.rank: str(pane.number or "")
            for pane in self.grid.log_panes
            if pane.rank is not None and not self.merged_only
        }

    # Keys.

    def on_rank_list_chosen(self, event: RankList.Chosen) -> None:
        """Enter on a rank: into the active pane."""
        event.stop()
        self.put(event.rank)

    def put(self, rank: int) -> None:
        """Show a rank in the active pane, or where it is already."""
        self.leave_merged()
        there = next((p for p in self.grid.log_panes if p.rank == rank), None)
        self.activate(there or self.log_pane())
        if there is None:
            self.show_rank(rank, self.log_pane())

    def log_pane(self) -> LogPane:
        """The active pane of one rank; beside the merged log the first."""
        pane = self.pane
        return pane if isinstance(pane, LogPane) else self.grid.logs[0]

    def leave_merged(self) -> None:
        """Back to panes of ranks, when the merged log has the screen."""
        if self.merged_only:
            self.action_merged()

    def command_number(self, rank: int) -> None:
        """`:13` goes to a rank."""
        if rank not in self.feed.placed:
            app_of(self).tell(f"there is no rank {rank}; they go from 0 to {max(self.feed.placed, default=0)}")
            return
        self.ranks.go(rank)
        self.put(rank)

    def action_panes(self) -> None:
        """More panes, or one again."""
        self.leave_merged()
        grid = self.grid
        grid.with_merged = len(self.feed.buffers) > 1
        grid.wanted = next_choice(grid.shape.shown, grid.size.width, grid.size.height)
        if grid.wanted > grid.most:
            grid.wanted = 1 if grid.shape.shown >= grid.most else grid.most
        grid.fit()
        self.activate(self.pane)

    def action_larger(self) -> None:
        """Half as many panes; at the end only the active one."""
        grid = self.grid
        if self.zoomed or self.merged_only:
            return
        if grid.shape.shown < 2:
            self.action_zoom()
            return
        grid.wanted = fewer(grid.shape.shown)
        grid.fit()
        self.activate(self.pane)

    def action_smaller(self) -> None:
        """Back from one pane, then more of them as long as they fit."""
        grid = self.grid
        if self.zoomed or self.merged_only:
            self.action_zoom() if self.zoomed else self.action_merged()
            return
        if next_choice(grid.shape.shown, grid.size.width, grid.size.height) > grid.shape.shown < grid.most:
            self.action_panes()

    def action_merged(self) -> None:
        """The merged log with the screen to itself, and back."""
        self.merged_only = not self.merged_only
        if self.merged_only:
            self.full_merged.dirty = True
        self.fold_screen()
        self.activate(self.full_merged if self.merged_only else self.grid.shown[0], focus=True)
        if not self.merged_only:
            self.focus_list()

    def action_zoom(self) -> None:
        """The active pane alone."""
        self.zoomed = not self.zoomed
        if self.zoomed and isinstance(self.pane, MergedPane) and not self.merged_only:
            self.zoomed = False
            self.action_merged()
            return
        grid = self.grid
        if self.zoomed and isinstance(self.pane, LogPane) and self.pane is not grid.logs[0]:
            at = grid.logs.index(self.pane)
            grid.logs[0], grid.logs[at] = grid.logs[at], grid.logs[0]
            grid.move_child(grid.logs[0], before=0)
        self._before_zoom, grid.wanted = (grid.wanted, 1) if self.zoomed else (0, self._before_zoom)
        grid.fit()
        self.fold_screen()
        self.activate(self.pane, focus=self.zoomed)
        if not self.zoomed:
            self.focus_list()

    def fold_screen(self) -> None:
        """Decide again what has room."""

    def focus_list(self) -> None:
        """Give the keys to the rank list, or to the pane where there is none."""
        (self.ranks.list if self.ranks.display else self.pane).focus()

    def action_next_pane(self) -> None:
        """Round the panes and the list."""
        self._step_pane(1)

    def action_previous_pane(self) -> None:
        """The other way round."""
        self._step_pane(-1)

    def _step_pane(self, step: int) -> None:
        stops: list[Pane | None] = list(self.visible_panes)
        if self.ranks.display and self.ranks.region.width and not self.merged_only:
            stops.append(None)
        here = None if self.focused is self.ranks.list else self.pane
        at = stops.index(here) if here in stops else 0
        there = stops[(at + step) % len(stops)]
        if there is None:
            self.ranks.list.focus()
        else:
            self.activate(there, focus=True)

    def action_next_rank(self) -> None:
        """The next rank into the active pane."""
        self._walk(1)

    def action_previous_rank(self) -> None:
        """The rank before into the active pane."""
        self._walk(-1)

    def _walk(self, step: int) -> None:
        self.leave_merged()
        order, pane = list(self.feed.sources), self.log_pane()
        if not order:
            return
        at = order.index(pane.rank) + step if pane.rank in order else 0
        rank = order[at % len(order)]
        self.show_rank(rank, pane)
        self.activate(pane)
        self.ranks.go(rank)
