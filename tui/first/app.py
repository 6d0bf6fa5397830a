"""The app of the first start: one screen, until there are hosts or the demo is wanted."""

from __future__ import annotations

from typing import Any

from distui.tui.app import DistuiApp
from distui.tui.first.screen import FirstScreen, Outcome, Start
from distui.tui.frame.backend import Backend
from distui.tui.frame.context import ViewName


class FirstApp(DistuiApp):
    """Over a backend without hosts; `outcome` says why it was left, None when it was just left."""

    def __init__(self, backend: Backend, start: Start, **look: Any) -> None:
        self.MODES = {**DistuiApp.MODES, "hosts": lambda: FirstScreen(start, self._done)}  # type: ignore[misc]  # its own
        super().__init__(backend, start="hosts", **look)
        self.first = start
        self.outcome: Outcome | None = None

    def _begin(self) -> None:
        """Nothing is asked of anybody but what the screen asks."""

    def show_view(self, name: ViewName) -> None:
        """The other views need hosts."""
        if name != "hosts":
            first = "pick hosts" if self.first.found.hosts else "add hosts by name with a"
            self.tell(f"first {first}, or look at the demo with d")

    def show_problems(self) -> None:
        """There are none without hosts."""
        self.show_view("runs")

    def action_view(self, name: str) -> None:
        """As by keys."""
        self.show_view("hosts" if name == "hosts" else "jobs")

    def _done(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.exit(0)
