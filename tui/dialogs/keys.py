"""The last row while something lies over a screen: the keys that work then. Those of the screen behind do nothing."""

from __future__ import annotations

from collections.abc import Callable

from distui.tui.frame.bars import Bar
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

Keys = tuple[tuple[str, str], ...]
"""A key and what it does, in the order of the row."""


class DialogKeys(Bar):
    """Covers the last row of the screen behind, bright where the rest is dimmed."""

    DEFAULT_CSS = "DialogKeys { dock: bottom; height: 1; width: 1fr; background: $surface; }"

    def __init__(self, keys: Callable[[], Keys]) -> None:
        super().__init__()
        self.keys = keys

    def on_mount(self) -> None:
        """Where one types other keys work."""
        self.watch(self.screen, "focused", self._moved, init=False)

    def _moved(self) -> None:
        self.refresh()

    def line(self, width: int, palette: Palette) -> Line:
        """See Bar. What does not fit is left out from the right, but for how to get out."""
        *pieces, last = (Line().put(key, palette.key).gap(1).put(word, palette.muted) for key, word in self.keys())
        line = Line().gap(1)
        for piece in pieces:
            if line.width + piece.width + 3 + last.width >= width:
                break
            line.add(piece).gap(3)
        return line.add(last)
