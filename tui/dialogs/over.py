"""What a dialog stands over: the view behind it stays in sight, dimmed."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, ScreenResultType

from distui.tui.frame.context import palette_of

_DIM = Style(dim=True)


class Dimmed(BackgroundScreen):
    """The view behind in 16 colours: there are none between its own and the background to tint it with."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich."""
        for segment in super().__rich_console__(console, options):
            if isinstance(segment, Segment) and not segment.control:
                yield Segment(segment.text, (segment.style or Style()) + _DIM)
            else:
                yield segment


class Over(ModalScreen[ScreenResultType]):
    """A screen over a view that stays in sight behind it."""

    def render(self) -> RenderableType:
        """See textual."""
        made = super().render()
        if isinstance(made, BackgroundScreen) and palette_of(self).plain:
            return Dimmed(made.screen, made.color)
        return made
