"""In which order the rank list shows its ranks: the key that changes it."""

from __future__ import annotations

from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.run.panes.panes import Panes


class RankOrder(Part):
    """By host, or who is furthest behind first."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("sort", "sort", ("o",), "View", "sort", help="Ranks by lag, who is furthest behind first, or by host."),
    )

    def __init__(self, view: View, panes: Panes) -> None:
        self.view = view
        self.panes = panes

    def action_sort(self) -> None:
        """The other order, with the cursor on its first rank."""
        ranks = self.panes.ranks
        if self.panes.merged_only or not ranks.region.width:
            app_of(self.view).tell("there is no list of ranks here; n goes to a rank that is behind")
            return
        ranks.set_order("host" if ranks.order == "lag" else "lag")
        ranks.list.focus()
