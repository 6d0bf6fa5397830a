"""Textual's palette, with the keys that work in it in the last row."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette

from distui.tui.dialogs.keys import DialogKeys, Keys

KEYS: Keys = (("type", "to find an action, host or run"), ("up down", "choose"), ("enter", "do it"), ("esc", "close"))


class PaletteScreen(CommandPalette):
    """What it finds comes from `tui/frame/palette.py`."""

    def compose(self) -> ComposeResult:
        """See textual."""
        yield from super().compose()
        yield DialogKeys(lambda: KEYS)

    def _action_command_list(self, action: str) -> None:
        """See textual. What was found just now has no rows yet, and no pages: textual ends the app with an error."""
        if self.query_one(CommandList).scrollable_content_region or not action.startswith("page"):
            super()._action_command_list(action)
