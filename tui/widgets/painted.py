"""A widget that shows lines made elsewhere: heads of columns, previews, plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.events import Resize
from textual.strip import Strip

from distui.tui.paint.paint import Line
from distui.tui.paint.steady import Steady

LinesPainter = Callable[[int, int], Sequence[Line]]
"""(width, height) in cells -> at most that many lines."""


class Painted(Steady):
    """Shows what `painter` makes for its size; `repaint` asks it again. Never scrolls, never takes the keys."""

    DEFAULT_CSS = "Painted { height: 1; width: 1fr; }"
    auto_links = False

    def __init__(self, painter: LinesPainter, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.painter = painter
        self._lines: Sequence[Line] | None = None

    def repaint(self) -> None:
        """What is shown has changed."""
        self._lines = None
        self.refresh()

    def refresh_changed(self) -> None:
        """See Steady."""
        self._lines = None
        super().refresh_changed()

    def on_resize(self, event: Resize) -> None:
        """The lines depend on the size."""
        self._lines = None

    def notify_style_update(self) -> None:
        """See textual: another theme, other styles."""
        super().notify_style_update()
        self._lines = None

    def painted_row(self, y: int) -> Strip:
        """See Steady."""
        if self._lines is None:
            self._lines = self.painter(self.size.width, self.size.height)
        base = self.rich_style
        if y >= len(self._lines):
            return Strip.blank(self.size.width, base)
        return self._lines[y].cut(self.size.width).strip(self.size.width, base)
