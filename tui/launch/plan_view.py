"""The plan at the right of the launch screen: rows with a cursor, commands that fold, problems that lead to lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import BindingType
from textual.events import Resize
from textual.message import Message
from textual.strip import Strip

from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import app_of, glyphs_of, palette_of
from distui.tui.launch import plan_lines
from distui.tui.launch.plan_lines import PlanRow, Preview
from distui.tui.paint.paint import Line
from distui.tui.widgets.rows import Row, RowList


class PlanView(RowList):
    """Shows a `Preview`; keeps what was unfolded while the plan is made again."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "unfold", ("enter",), "View", footer=True, help="Fold or unfold the command; go to the line."),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS[1:])

    class Place(Message):
        """A problem was chosen: its line in the job file, from 1."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.preview = Preview()
        self.unfolded: set[int] = set()
        self.all_tasks = False
        self._rows: list[PlanRow] = []
        self._to_end = False
        """Whether the last row is wanted, once it is known how wide the rows are."""

    def show(self, preview: Preview) -> None:
        """Another plan, or why there is none."""
        self.preview = preview
        self._fill()

    def _fill(self) -> None:
        width = self.scrollable_content_region.width or self.size.width
        if not width:
            return
        self._rows = plan_lines.plan_rows(
            self.preview, width, palette_of(self), glyphs_of(self), unfolded=self.unfolded, all_tasks=self.all_tasks
        )
        self.set_rows([Row(key) for key in self._keys()])
        if self._to_end:
            self.show_end()

    def show_end(self) -> None:
        """The last row; of a tab that was not open yet when it is."""
        self._to_end = not self._rows
        self.action_last()

    def _keys(self) -> Iterator[str]:
        """Each row's key; of one that has none that of the head above it, so that the cursor stays in its section."""
        section = ""
        for number, row in enumerate(self._rows):
            section = row.key or section
            yield row.key or f"{section}+{number}"

    def on_resize(self, event: Resize) -> None:
        """Lines are wrapped for the width."""
        self._fill()

    def notify_style_update(self) -> None:
        """See textual: another theme, other styles."""
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._fill)

    def _paint(self, number: int, width: int, here: bool) -> Line:
        if number >= len(self._rows):
            return Line()
        made = self._rows[number].line
        line = Line()
        line.pieces, line.width = list(made.pieces), made.width
        return line

    def render_line(self, y: int) -> Strip:
        """See textual's line API. The cursor shows only while the plan has the keys."""
        number = y + self.scroll_offset.y
        if self.has_focus or number >= len(self.rows):
            return super().render_line(y)
        width = self.scrollable_content_region.width
        return self._paint(number, width, False).cut(width).strip(width, self.rich_style)

    @property
    def row(self) -> PlanRow | None:
        """The row under the cursor."""
        return self._rows[self.at] if 0 <= self.at < len(self._rows) else None

    def action_choose(self) -> None:
        """Fold or unfold a command; go to the line of a problem."""
        row = self.row
        if row is None:
            return
        if row.place:
            self.post_message(self.Place(row.place))
        elif row.task == -1:
            self.all_tasks = True
            self._fill()
        elif row.task is not None:
            self.unfolded ^= {row.task}
            self._fill()
            self.go(f"task-{row.task}")

    def copy_command(self) -> None:
        """Copy the command under the cursor, else the first."""
        plan = self.preview.plan
        if plan is None:
            app_of(self).tell("there is no plan yet", level="warning")
            return
        index = self.row.task if self.row is not None and self.row.task is not None else plan.tasks[0].index
        task = next((t for t in plan.tasks if t.index == index), plan.tasks[0])
        app_of(self).copy(plan_lines.command_text(task))
