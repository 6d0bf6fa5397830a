"""A few painted rows without a cursor: what is under the cursor of the list above."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from distui.tui.paint.paint import Line


class Panel(Widget):
    """Rows made by `paint(width)`; those that do not fit are left out."""

    DEFAULT_CSS = "Panel { width: 1fr; height: auto; }"
    auto_links = False

    def __init__(self, paint: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.paint = paint
        self._painted: tuple[int, list[Line]] | None = None

    def refresh(self, *regions: object, **more: object) -> Panel:
        """See textual; the rows are made again."""
        self._painted = None
        return super().refresh(*regions, **more)  # type: ignore[arg-type]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """See textual: as many rows as are painted, where the height is `auto`."""
        return len(self.paint(width))

    def render_line(self, y: int) -> Strip:
        """See textual's line API."""
        width = self.size.width
        if self._painted is None or self._painted[0] != width:
            self._painted = (width, self.paint(width))
        lines = self._painted[1]
        line = lines[y] if y < len(lines) else Line()
        return line.cut(width).strip(width, self.rich_style)
