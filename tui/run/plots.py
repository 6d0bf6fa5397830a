"""The key from a run to its Metrics page."""

from __future__ import annotations

from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.parts import Part
from distui.tui.logs.feed import RunFeed
from distui.tui.metrics.screen import MetricsScreen


class MetricsPage(Part):
    """Opens the Metrics page over the run view."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action(
            "metrics", "metrics", ("p",), "View", "metrics", footer=True,
            help="Loss, step time, GPUs, network and lateness over time, with a cursor.",
        ),
    )  # fmt: skip

    def __init__(self, view: View, feed: RunFeed) -> None:
        self.view = view
        self.feed = feed

    def action_metrics(self) -> None:
        """Over the run view; esc comes back."""
        self.view.app.push_screen(MetricsScreen(self.feed.live, clock=self.feed.clock))
