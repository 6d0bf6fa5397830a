"""Widgets that know what they show, so that of what is looked at again only the rows that changed are painted again.

To ask a painter for a row is cheap. To have it painted is not: textual styles it, places it among all others, and the
terminal gets its bytes, twice a second for every figure that might have changed.
"""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Steady(Widget):
    """A widget painted by `painted_row`. As the last of several bases: textual takes styles from the first alone."""

    _shown: dict[int, Strip] | None = None
    """Rows as they were painted."""

    def painted_row(self, y: int) -> Strip:
        """The row as it is now, `y` from the widget's top."""
        return Strip.blank(self.size.width, self.rich_style)

    def render_line(self, y: int) -> Strip:
        """See textual's line API."""
        if self._shown is None:
            self._shown = {}
        strip = self._shown[y] = self.painted_row(y)
        return strip

    def refresh_changed(self) -> None:
        """Paint those rows again that are not what they were. What they are made of must be settled by now."""
        width, height = self.size
        changed = [y for y, strip in (self._shown or {}).items() if y < height and self.painted_row(y) != strip]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))
