"""How many panes the run view shows, and how to get from one to the next: the keys of the layout."""

from __future__ import annotations

from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.parts import Part
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.pane import Pane
from distui.tui.run.panes.pane_grid import fewer, next_choice
from distui.tui.run.panes.panes import Panes


class PaneLayout(Part):
    """More and fewer panes, one alone, the merged log alone, the next pane, the next rank."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
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

    def __init__(self, panes: Panes) -> None:
        self.panes = panes
        self._before_zoom = 0

    def undo(self) -> bool:
        """Out of the zoom, then of the merged log. Whether there was anything to leave."""
        panes = self.panes
        if not panes.zoomed and not panes.merged_only:
            return False
        self.action_zoom() if panes.zoomed else panes.turn_merged()
        return True

    def action_panes(self) -> None:
        """More panes, or one again."""
        self.panes.leave_merged()
        grid = self.panes.grid
        grid.with_merged = len(self.panes.feed.buffers) > 1
        grid.wanted = next_choice(grid.shape.shown, grid.size.width, grid.size.height)
        if grid.wanted > grid.most:
            grid.wanted = 1 if grid.shape.shown >= grid.most else grid.most
        grid.fit()
        self.panes.activate(self.panes.active)

    def action_larger(self) -> None:
        """Half as many panes; at the end only the active one."""
        grid = self.panes.grid
        if self.panes.zoomed or self.panes.merged_only:
            return
        if grid.shape.shown < 2:
            self.action_zoom()
            return
        grid.wanted = fewer(grid.shape.shown)
        grid.fit()
        self.panes.activate(self.panes.active)

    def action_smaller(self) -> None:
        """Back from one pane, then more of them as long as they fit."""
        grid = self.panes.grid
        if self.undo():
            return
        if next_choice(grid.shape.shown, grid.size.width, grid.size.height) > grid.shape.shown < grid.most:
            self.action_panes()

    def action_merged(self) -> None:
        """The merged log with the screen to itself, and back."""
        self.panes.turn_merged()

    def action_zoom(self) -> None:
        """The active pane alone."""
        panes, grid, pane = self.panes, self.panes.grid, self.panes.active
        if not panes.zoomed and isinstance(pane, MergedPane) and not panes.merged_only:
            panes.turn_merged()
            return
        panes.zoomed = not panes.zoomed
        if panes.zoomed and isinstance(pane, LogPane) and pane is not grid.logs[0]:
            at = grid.logs.index(pane)
            grid.logs[0], grid.logs[at] = grid.logs[at], grid.logs[0]
            grid.move_child(grid.logs[0], before=0)
        self._before_zoom, grid.wanted = (grid.wanted, 1) if panes.zoomed else (0, self._before_zoom)
        grid.fit()
        panes.refold()
        panes.activate(panes.active, focus=panes.zoomed)
        if not panes.zoomed:
            panes.focus_list()

    def action_next_pane(self) -> None:
        """Round the panes and the list."""
        self._step_pane(1)

    def action_previous_pane(self) -> None:
        """The other way round."""
        self._step_pane(-1)

    def _step_pane(self, step: int) -> None:
        panes, ranks = self.panes, self.panes.ranks
        stops: list[Pane | None] = list(panes.visible)
        if ranks.display and ranks.region.width and not panes.merged_only:
            stops.append(None)
        here = None if panes.view.focused is ranks.list else panes.active
        at = stops.index(here) if here in stops else 0
        there = stops[(at + step) % len(stops)]
        if there is None:
            ranks.list.focus()
        else:
            panes.activate(there, focus=True)

    def action_next_rank(self) -> None:
        """The next rank into the active pane."""
        self._walk(1)

    def action_previous_rank(self) -> None:
        """The rank before into the active pane."""
        self._walk(-1)

    def _walk(self, step: int) -> None:
        self.panes.leave_merged()
        order, pane = list(self.panes.feed.sources), self.panes.log_pane
        if not order:
            return
        at = order.index(pane.rank) + step if pane.rank in order else 0
        rank = order[at % len(order)]
        self.panes.show_rank(rank, pane)
        self.panes.activate(pane)
        self.panes.ranks.go(rank)
