"""What can be done with the row under the cursor, as a menu: `x`, then a row or its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key

from distui.tui.dialogs.keys import DialogKeys, Keys
from distui.tui.dialogs.over import Over
from distui.tui.frame.base import HEIGHTS, View
from distui.tui.frame.context import app_of, palette_of
from distui.tui.frame.help import reachable
from distui.tui.frame.keys import actions_here, keys_of
from distui.tui.paint.paint import Line
from distui.tui.widgets.rows import RowList

_GROUPS = ("View", "Logs", "Layout", "Change")
KEYS: Keys = (("enter", "do it"), ("up down", "choose"), ("a row's key", "does it, too"), ("esc", "close"))


class MenuScreen(Over[str]):
    """Dismisses with the id of the action that was chosen, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,x,q", "close", show=False)]
    VERTICAL_BREAKPOINTS = HEIGHTS
    DEFAULT_CSS = """
    MenuScreen { align: center middle; background: $background 60%; }
    MenuScreen:ansi { background: transparent; }
    MenuScreen > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 90%; background: $panel; padding: 1 2;
    }
    MenuScreen.-h0 > Vertical { padding: 0; max-height: 100%; }
    MenuScreen RowList { height: auto; max-height: 100%; background: $panel; }
    """

    def __init__(self, behind: View, keymap: Mapping[str, str]) -> None:
        super().__init__()
        here = reachable(actions_here(behind), keymap)
        offered = [a for a in here if a.group in _GROUPS and a.keys and behind.offers(a)]
        self.actions = {a.id: a for a in sorted(offered, key=lambda a: a.changes)}
        self.keymap = keymap
        self._titles_at = 4 + max([6, *(len(keys_of(a, keymap)[0]) for a in offered)])

    def compose(self) -> ComposeResult:
        """See textual."""
        with Vertical():
            yield RowList(self._paint)
        yield DialogKeys(lambda: KEYS)

    def on_mount(self) -> None:
        """What touches hosts stands last."""
        rows = self.query_one(RowList)
        rows.styles.height = max(1, len(self.actions))
        rows.set_rows(list(self.actions))
        rows.focus()

    def _paint(self, number: int, width: int, here: bool) -> Line:
        action, palette = list(self.actions.values())[number], palette_of(self)
        keys = keys_of(action, self.keymap)
        line = Line().gap(1)
        line.put(f" {keys[0]} ", palette.chip) if action.changes else line.gap(1).put(keys[0], palette.key)
        line.to(self._titles_at).put(action.title, palette.bold if here else palette.text, width=18).gap(2)
        return line.put((action.help or "").rstrip("."), palette.muted).cut(width - 1)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Do it."""
        self.dismiss(event.key)

    def on_key(self, event: Key) -> None:
        """An action's own key does it, too, but for those that the list has for itself: enter is for its row."""
        if any(event.key in own.keys for own in RowList.ACTIONS):
            return
        for action in self.actions.values():
            keys = self.keymap[action.id].split(",") if action.id in self.keymap else action.keys
            if event.key in keys or event.character in keys:
                event.stop()
                self.dismiss(action.id)
                return

    def action_close(self) -> None:
        """Nothing."""
        self.dismiss("")


async def choose(app: Any, behind: View) -> None:
    """Open the menu over a screen, and do there what was chosen. Call it from a worker."""
    chosen = await app.push_screen_wait(MenuScreen(behind, app_of(behind).keymap))
    if chosen:
        behind.run_later(chosen)
