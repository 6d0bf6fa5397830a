"""The log panes: one rank and the merged log, below each other at full width; or as many as are asked for and fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Grid
from textual.events import Resize

from distui.frozen import frozen
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.pane import Pane

MOST = 16
CHOICES = (1, 2, 4, 8, 16)
MIN_WIDTH = 44
BESIDE_WIDTH = 80
"""Panes that nobody asked for stand side by side only where each has so much."""
MIN_HEIGHT = 6
"""Title included."""
TWO_ROWS_FROM = 19
"""Below this height one pane says more than two."""
_COLUMNS = {1: 1, 2: 2, 3: 2, 4: 2, 5: 3, 6: 3}
"""Columns for so many panes; four for more."""


@frozen
class Shape:
    """How many panes are shown, in how many columns and rows; the last pane spans what is left of its row."""

    shown: int
    columns: int
    rows: int

    @property
    def span(self) -> int:
        """Columns of the last pane."""
        return self.columns * self.rows - self.shown + 1


def room_for(width: int, height: int) -> tuple[int, int]:
    """How many columns and rows of panes fit."""
    return max(1, (width + 1) // (MIN_WIDTH + 1)), max(1, (height + 1) // (MIN_HEIGHT + 1))


def shape(wanted: int, width: int, height: int) -> Shape:
    """The panes that fit, as square as it goes."""
    columns, rows = room_for(width, height)
    shown = max(1, min(wanted, columns * rows, MOST))
    across = min(columns, _COLUMNS.get(shown, 4))
    if -(-shown // across) > rows:
        across = min(columns, math.ceil(shown / rows))
    return Shape(shown, across, -(-shown // across))


def suited(width: int, height: int, most: int = MOST) -> Shape:
    """The panes when nobody asked for more: one rank and the merged log."""
    if most < 2:
        return Shape(1, 1, 1)
    if width > 2 * BESIDE_WIDTH:
        return Shape(2, 2, 1)
    return Shape(2, 1, 2) if height >= TWO_ROWS_FROM else Shape(1, 1, 1)


def next_choice(now: int, width: int, height: int) -> int:
    """What `P` chooses next: 1, 2, 4, 8, 16, as far as they fit."""
    columns, rows = room_for(width, height)
    fitting = [n for n in CHOICES if n <= columns * rows] or [1]
    return next((n for n in fitting if n > now), fitting[0])


def fewer(now: int) -> int:
    """What `+` chooses next: the next smaller of 16, 8, 4, 2, 1."""
    return max((n for n in CHOICES if n < now), default=1)


class PaneGrid(Grid):
    """Holds every pane it may ever show; those that are not shown cost nothing."""

    DEFAULT_CSS = "PaneGrid { width: 1fr; height: 1fr; grid-size: 1 1; grid-gutter: 1 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.logs = [LogPane(n + 1, id=f"pane{n + 1}") for n in range(MOST)]
        self.merged = MergedPane(0, id="pane-merged")
        self.wanted = 0
        """Panes asked for; 0 means the rank under the cursor of the list, and the merged log."""
        self.with_merged = True
        self.most = MOST
        """No more panes than there is something to show in."""
        self.shape = Shape(0, 1, 1)
        self._laid = (self.shape, True, False)

    def compose(self) -> ComposeResult:
        """See textual."""
        yield from self.logs
        yield self.merged

    @property
    def shown(self) -> Sequence[Pane]:
        """The visible panes in order."""
        count = max(1, self.shape.shown)
        if self.with_merged and (count > 2 or (count == 2 and not self.wanted)):
            return [*self.logs[: count - 1], self.merged]
        return self.logs[:count]

    @property
    def log_panes(self) -> list[LogPane]:
        """The visible panes that show one rank each."""
        return [pane for pane in self.shown if isinstance(pane, LogPane)]

    def on_resize(self, event: Resize) -> None:
        """Other panes may fit now."""
        self.fit()

    def fit(self) -> bool:
        """Show the panes that fit. Whether that changed anything."""
        width, height = self.size
        made = shape(min(self.wanted, self.most), width, height) if self.wanted else suited(width, height, self.most)
        laid = made, self.with_merged, self.wanted > 0
        if laid == self._laid or not width:
            return False
        self.shape, self._laid = made, laid
        self.styles.grid_size_columns, self.styles.grid_size_rows = made.columns, made.rows
        self.styles.grid_gutter_vertical = 1 if made.rows > 1 and height // made.rows > 4 else 0
        visible = self.shown
        for pane in (*self.logs, self.merged):
            pane.display = pane in visible
            pane.styles.column_span = made.span if pane is visible[-1] else 1
        for number, pane in enumerate(visible, 1):
            pane.number = number if len(visible) > 1 else 0
            pane.dirty = True
            pane.repaint()
        return True
