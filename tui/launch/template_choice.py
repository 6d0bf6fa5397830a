"""The question what a new job begins with."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from distui.cluster.jobs.job_templates import TEMPLATES
from distui.tui.dialogs.confirm import BOX
from distui.tui.dialogs.keys import DialogKeys, Keys
from distui.tui.dialogs.over import Over
from distui.tui.frame.base import HEIGHTS
from distui.tui.frame.context import palette_of
from distui.tui.paint.paint import Line
from distui.tui.widgets.rows import RowList

KEYS: Keys = (("enter", "begin with it"), ("up down", "choose"), ("esc", "back"))


class TemplateChoice(Over[str]):
    """Dismisses with a template's name, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", show=False)]
    VERTICAL_BREAKPOINTS = HEIGHTS
    DEFAULT_CSS = BOX.format(kind="TemplateChoice") + (
        "TemplateChoice > Vertical { width: 110; }"
        "TemplateChoice RowList { height: auto; margin: 1 0; background: $panel; }"
    )

    def compose(self) -> ComposeResult:
        """See textual."""
        with Vertical():
            yield Static("A new job that runs as it is, to put your own program into", classes="title", markup=False)
            yield RowList(self._paint)
        yield DialogKeys(lambda: KEYS)

    def on_mount(self) -> None:
        """The first has the cursor."""
        rows = self.query_one(RowList)
        rows.styles.height = len(TEMPLATES)
        rows.set_rows(list(TEMPLATES))
        rows.focus()

    def _paint(self, number: int, width: int, here: bool) -> Line:
        name, palette = list(TEMPLATES)[number], palette_of(self)
        line = Line().gap(2).put(name, palette.bold if here else palette.text, width=9).gap(2)
        return line.put(TEMPLATES[name].about, palette.muted).cut(width - 1)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """This one."""
        self.dismiss(event.key)

    def action_close(self) -> None:
        """None."""
        self.dismiss("")
