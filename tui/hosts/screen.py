"""The first screen: what have I got, what is busy, what is broken."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Resize

from distui.amounts import counted
from distui.errors import UsageError
from distui.files import is_file
from distui.monitor import groups
from distui.monitor.groups import GroupBoard
from distui.monitor.host_board import HostBoard
from distui.spec.hosts.read_inventory import load_inventory
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import app_of
from distui.tui.hosts import group_rows, select
from distui.tui.hosts import lines as host_lines
from distui.tui.hosts import rows as host_rows
from distui.tui.hosts.table import HostTable
from distui.tui.hosts.text import described, raw
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.terminal import shell
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import RowList

if TYPE_CHECKING:
    from distui.monitor.problem_count import ProblemCount

PREVIEW_LEAST = 6
"""Rows below which a preview says too little."""
COLUMN_LEAST = 98
"""Cells that a column of hosts has at least, where there are more of them than rows."""


class HostsScreen(View):
    """One row per host, live; below it what is known of the host under the cursor."""

    VIEW = "hosts"
    PLACE = "Hosts"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("describe", "describe", ("d",), "View", "describe", footer=True, help="All about the host in words."),
        Action(
            "shell", "shell", ("s",), "View", "ssh", terminal=True, footer=True, help="An ssh shell on the host."
        ),
        Action("probe", "probe", ("p", "r"), "View", "probe", footer=True, help="Ask the marked hosts again, or this."),
        FILTER,
        Action("sort", "sort", ("o",), "View", "sort", help="Next order: problems, file, host, state, util and so on."),
        Action("reverse", "reverse order", ("O",), "View"),
        Action("raw", "raw JSON", ("y",), "View", "raw", help="The probe's facts as JSON."),
        Action(
            "edit_hosts", "edit hosts.yaml", ("e",), "View", "edit", terminal=True, help="The inventory in $EDITOR."
        ),
        Action(
            "fold", "fold group", ("z",), "Layout", "fold",
            help="The group of this host as one row, or its hosts again; `:fold NAME` names one.",
        ),
        Action("fold_all", "fold all", ("Z",), "Layout", help="All groups as one row each, or all hosts again."),
        Action("preview", "preview", ("v",), "Layout", help="The preview: as there is room, always, never."),
        Action("back", "undo filter, marks", ("escape",), "Global", help="Undo the filter, then the marks."),
        Action(
            "launch", "run here", ("R",), "Change", "launch", changes=True, footer=True,
            help="Choose a job for the marked hosts; nothing starts before it is confirmed.",
        ),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    HostsScreen #list { height: auto; width: 1fr; }
    HostsScreen #table { height: 1; }
    HostsScreen #preview { height: 1fr; margin-top: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.reverse, self.preview_mode = select.SORTS[0], False, "auto"
        self.folded: tuple[str, ...] = ()
        """Folded groups, in the order in which they take their hosts."""
        self._shown: dict[str, HostBoard] = {}
        """The hosts that match the filter, whether they have a row or are in a group's."""
        self._groups: dict[str, GroupBoard] = {}
        """The folded groups by their rows' keys."""
        self._columns: host_rows.Columns | None = None
        self._stale = False
        self._count: ProblemCount | None = None
        """How many problems there are, of runs too; None before the first host has answered."""

    # What is on it.

    def compose_body(self) -> ComposeResult:
        """See View."""
        with Container(id="list"):
            yield Painted(self._head, id="head")
            table = HostTable(self._paint, id="table")
            table.members = self._members
            yield table
        yield Painted(self._preview, id="preview")

    def on_mount(self) -> None:
        """Samples are painted once a second, however many come."""
        self.set_interval(1.0, self._tick)
        self._arrange()

    def _look_for_problems(self) -> None:
        if self._count is None:  # not needed for the first picture
            self._count = import_module("distui.monitor.problem_count").ProblemCount()
        app = app_of(self)
        states = {name: live.state for name, live in self.backend.following.items()}
        self._count.look(tuple(self.board.hosts.values()), states, app.rows, time.time(), app.looked_at)

    @property
    def table(self) -> HostTable:
        """The list."""
        return self.query_one(HostTable)

    @property
    def host(self) -> HostBoard | None:
        """The host under the cursor; None on a group."""
        return self._shown.get(self.table.key)

    @property
    def group(self) -> GroupBoard | None:
        """The folded group under the cursor."""
        return self._groups.get(self.table.key)

    def _members(self, key: str) -> tuple[str, ...]:
        """The hosts a row stands for."""
        group = self._groups.get(key)
        return (key,) if group is None else tuple(host.name for host in group.hosts)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Hosts", f"/{self.filter_text}" if self.filter_text.strip() else "all")

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """Order and marks."""
        words = select.sort_words(self.sort, self.reverse)
        if words:
            line.gap(2).put(words, palette.muted)
        if self.table.marks:
            line.gap(2).put(f"{len(self.table.marks)} marked", palette.key)
            if hidden := self.table.hidden_marks:
                line.put(f", {hidden} hidden", palette.watch)

    def headline(self, line: Line, palette: Palette) -> None:
        """The totals are the headline."""
        bar = 16 if self.size.width >= 110 else 0
        if bar:
            count = self._count
            words = counted(count.all, "problem") if count is not None and count.all else "problems"
            style = palette.muted if count is None or not count.all else palette.wrong if count.wrong else palette.watch
            line.put("!", palette.key, click="app.problems").gap(1).put(words, style, click="app.problems").gap(4)
        line.add(host_rows.totals(self.board.totals(), palette, self.glyphs, bar=bar))

    def offers(self, action: Action) -> bool:
        """See View: a group has no shell, no facts of its own, and nothing runs where no host is there for it."""
        if action.id == "launch":
            return any(self.board[name].status not in ("down", "lost") for name in self.table.targets)
        return self.host is not None or action.id not in ("describe", "shell", "raw")

    # News.

    def news(self, hosts: frozenset[str]) -> None:
        """A host that answered or broke is shown at once, samples with the next second."""
        board, known = self.board.hosts, self._shown
        changed = any(name not in known or board[name].sample is None for name in hosts if name in board)
        self._stale = True
        if changed or not hosts:
            self._tick()

    def _tick(self) -> None:
        if self.closing or (not self.is_current and self._shown):
            return
        self._stale = False
        self._look_for_problems()
        self._arrange()
        self.table.repaint()
        self.query_one("#head", Painted).repaint()
        self.query_one("#preview", Painted).repaint()
        self.refresh_bars()

    def filter_changed(self) -> None:
        """See View."""
        self._tick()

    def on_resize(self, event: Resize) -> None:
        """Columns and preview fold with the window."""
        self.call_after_refresh(self._arrange)

    # Layout.

    def _arrange(self) -> None:
        """Which rows, which columns, and where the preview is."""
        if self.closing:
            return
        hosts = select.chosen(
            self.board.hosts.values(), select.Filter(self.filter_text), self.sort, reverse=self.reverse
        )
        self._shown = {h.name: h for h in hosts}
        rows = groups.fold(hosts, self.backend.groups, self.folded)
        self._groups = {row.key: row for row in rows if isinstance(row, GroupBoard)}
        keys = [row.key if isinstance(row, GroupBoard) else row.name for row in rows]
        if keys != [row.key for row in self.table.rows]:
            self.table.set_rows(keys)
        self._place(len(keys))
        self._columns = self._fitting(hosts)

    def _fitting(self, hosts: list[HostBoard]) -> host_rows.Columns:
        remark = any(host_rows.fabric(h, self.glyphs)[1] for h in hosts if h.status == "up")
        most = max((len(h.gpus) for h in hosts), default=0)
        width = self.size.width if self.table.across == 1 else (self.size.width - 1) // self.table.across
        names = [row.key if row.key in self._shown else f"{self.glyphs.folded} {row.key}" for row in self.table.rows]
        return host_rows.columns(width, names, most_gpus=most, remark=remark)

    def _place(self, count: int) -> None:
        body = self.query_one("#body")
        room = max(1, body.size.height - 1)
        across = _columns(count, room, self.size.width)
        rows = -(-count // across)
        left = room - rows - 1
        below = self.preview_mode != "never" and (
            left >= PREVIEW_LEAST or (self.preview_mode == "always" and room > 2 * PREVIEW_LEAST)
        )
        self.query_one("#preview").display = bool(count) and below
        height = min(rows, room - PREVIEW_LEAST * 2) if below and left < PREVIEW_LEAST else min(rows, room)
        self.table.styles.height = max(1, height)
        self.table.set_across(across)

    # Painting.

    def _head(self, width: int, height: int) -> list[Line]:
        if self._columns is None:
            return []
        if not self._shown:
            return [Line().gap(4).put("no host matches the filter; esc undoes it", self.palette.muted)]
        line = Line()
        for i in range(self.table.across):
            head = host_rows.header(self._columns, self.palette, self.glyphs).cut(self._columns.width)
            line.gap(width * i // self.table.across - line.width).add(head)
        return [line]

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key = self.table.rows[number].key
        host, group = self._shown.get(key), self._groups.get(key)
        if group is not None and self._columns is not None:
            return group_rows.row(group, self._columns, self.palette, self.glyphs, time.time(), bold=here)
        if host is None or self._columns is None:
            return Line()
        return host_rows.row(host, self._columns, self.palette, self.glyphs, time.time(), bold=here)

    def _preview(self, width: int, height: int) -> list[Line]:
        if self.group is not None and self._columns is not None:
            at = self._columns if width >= self._columns.width else host_rows.columns(width, self._shown)
            return group_rows.preview(self.group, at, width, height, self.palette, self.glyphs, time.time())
        if self.host is None:
            return []
        runs = self.backend.following
        return host_lines.preview(self.host, runs, width, height, self.palette, self.glyphs, time.time())

    # Keys.

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """The preview and the keys at hand follow the cursor."""
        self.query_one("#preview", Painted).repaint()
        self.refresh_bars()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Open the host; a group opens into its hosts."""
        if event.key in self._groups:
            self.action_fold()
        else:
            app_of(self).open_host(event.key)

    def on_host_table_marked(self, event: HostTable.Marked) -> None:
        """The crumbs count them."""
        self.refresh_bars()

    def action_describe(self) -> None:
        """All about the host in words; of a group host after host."""
        if self.table.key:
            now, width = time.time(), max(40, self.app.size.width - 4)
            texts = [described(self._shown[name], now, width=width) for name in self._members(self.table.key)]
            app_of(self).open_text(self.table.key, "\n".join(texts))

    def action_raw(self) -> None:
        """The facts as JSON; of a group as one list."""
        if self.host is not None and (text := raw(self.host)):
            app_of(self).open_text(f"{self.host.name}.json", text)
        elif self.group is not None:
            texts = ",\n".join(text for host in self.group.hosts if (text := raw(host)))
            app_of(self).open_text(f"{self.group.name}.json", f"[{texts}]")
        elif self.host is not None:
            app_of(self).tell("the host has not answered yet")

    # Groups.

    def action_fold(self) -> None:
        """The group of this row as one row, or its hosts again."""
        if self.group is not None:
            self._fold(self.group.name)
        elif not self.backend.groups:
            app_of(self).tell("hosts.yaml has no groups; `groups:` there names some")
        elif name := groups.group_of(self.table.key, self.backend.groups):
            self._fold(name)
        else:
            app_of(self).tell(f"{self.table.key} is in no group")

    def _fold(self, name: str) -> None:
        """Fold or unfold a group; the cursor stays on what it was on."""
        before = self._members(self.table.key)
        if name in self.folded:
            self.folded = tuple(n for n in self.folded if n != name)
        else:
            self.folded = (*self.folded, name)
        self._refold(before)

    def _refold(self, before: tuple[str, ...]) -> None:
        self._tick()
        for row in self.table.rows:
            if before and before[0] in self._members(row.key):
                self.table.go(row.key)

    def action_fold_all(self) -> None:
        """All groups, or none."""
        before = self._members(self.table.key)
        self.folded = () if self.folded else groups.every_fold(self.backend.groups)
        self._refold(before)

    def command_fold(self, argument: str) -> None:
        """`:fold h100`."""
        name = argument.removeprefix("@")
        if not name:
            self.action_fold()
        elif name in self.backend.groups:
            self._fold(name)
        else:
            known = ", ".join(self.backend.groups) or "none"
            app_of(self).tell(f"there is no group {name}; groups are {known}", level="warning")

    def complete_fold(self) -> tuple[str, ...]:
        """What `:fold` takes."""
        return tuple(self.backend.groups)

    def action_edit_hosts(self) -> None:
        """The inventory in one's own editor; it is read at the start."""
        path = Path(self.backend.title)
        if not is_file(path):
            app_of(self).tell(f"{self.backend.title} is no file to edit", level="warning")
            return
        self.work(self._edit(path), name="edit")

    async def _edit(self, path: Path) -> None:
        await shell.outside(self.app, shell.editor_argv(path))
        if path.suffix in (".yaml", ".yml"):  # a hostfile has another form
            try:
                await asyncio.to_thread(load_inventory, str(path))
            except UsageError as error:
                app_of(self).tell(f"{error}\nuntil that is mended distui does not start with it", level="warning")
                return
        app_of(self).tell("distui reads hosts.yaml when it starts: quit and start it again; runs keep going")

    def action_shell(self) -> None:
        """An ssh shell; the app comes back when it ends."""
        if self.group is not None:
            app_of(self).tell("a shell is opened on one host; z shows the hosts of the group")
        elif self.host is not None:
            self.work(self._shell(self.host.name), name="shell")

    async def _shell(self, host: str) -> None:
        await shell.visit(self.app, await self.backend.ssh_argv(host))

    def action_probe(self) -> None:
        """Ask again; old values stay until the answer is there."""
        names = self.table.targets
        app_of(self).probe(names)
        self._tick()

    def action_sort(self) -> None:
        """The next order."""
        self.sort = select.next_sort(self.sort)
        self._tick()

    def command_sort(self, argument: str) -> None:
        """`:sort util`."""
        if argument in select.SORTS:
            self.sort = argument
            self._tick()
        elif argument:
            app_of(self).tell(f"orders are {', '.join(select.SORTS)}", level="warning")
        else:
            self.action_sort()

    def complete_sort(self) -> tuple[str, ...]:
        """What `:sort` takes."""
        return select.SORTS

    def action_reverse(self) -> None:
        """The other way round."""
        self.reverse = not self.reverse
        self._tick()

    def action_preview(self) -> None:
        """As there is room, always, never."""
        order = ("auto", "always", "never")
        self.preview_mode = order[(order.index(self.preview_mode) + 1) % 3]
        app_of(self).tell(
            {"auto": "preview where there is room", "always": "preview on", "never": "preview off"}[self.preview_mode]
        )
        self._tick()

    async def action_back(self) -> None:
        """Undo the filter, then the marks."""
        if self.filter_text:
            self.filter_text = ""
            self._tick()
        elif self.table.marks:
            self.table.action_unmark()
        else:
            await self.app.run_action("back", default_namespace=self.app)

    def action_launch(self) -> None:
        """The launch screen on the marked hosts."""
        app_of(self).open_launch(None, self.table.targets)


def _columns(count: int, room: int, width: int) -> int:
    """In how many columns so many hosts stand: as few as leave room for the preview, else as many as fit."""
    most = max(1, width // COLUMN_LEAST)
    fitting = (n for n in range(1, most + 1) if room - -(-count // n) - 1 >= PREVIEW_LEAST)
    return next(fitting, most)
