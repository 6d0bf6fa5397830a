"""One host: is it well, and since when not. GPUs, links, processes, containers, all facts."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize

from distui.errors import HostError
from distui.monitor.containers import HostContainer
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import HostBoard
from distui.monitor.links import Link, links
from distui.monitor.notes import Note
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import app_of
from distui.tui.hosts import containers as host_containers
from distui.tui.hosts import rows as host_rows
from distui.tui.hosts import select
from distui.tui.hosts import tabs as host_tabs
from distui.tui.hosts.acts import HostActs
from distui.tui.hosts.gpu_rows import gpu_columns, gpu_header, gpu_row
from distui.tui.hosts.lines import why_lines
from distui.tui.hosts.orders import AS_THEY_COME, ORDERS, Order
from distui.tui.hosts.text import described
from distui.tui.paint import figures
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import RowList

LOOKED_EVERY = 5.0
"""Seconds between two questions for a host's containers, or the processes on its GPUs, while they are looked at."""


class DetailRows(RowList):
    """The rows of a tab."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "its run", ("enter",), "Move", footer=True, help="Open the run that has what is here."),
    )


class HostDetailScreen(View):
    """Tabs over one host; the cursor chooses what the plots below show."""

    VIEW = "hosts"
    PLACE = "One host"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("next_tab", "tab", ("right_square_bracket", "tab"), "View", footer=True, help="The next tab."),
        Action("last_tab", "tab back", ("left_square_bracket", "shift+tab"), "View", help="The tab before."),
        Action(
            "container_log", "container log", ("l",), "View", "log", footer=True,
            help="The log of the container under the cursor, or of the one that has the GPU or process there.",
        ),
        Action(
            "shell", "shell", ("s",), "View", "ssh", terminal=True, footer=True,
            help="An ssh shell on the host; on a row of Containers a shell in that container.",
        ),
        Action("probe", "probe", ("p", "r"), "View", "probe", footer=True, help="Ask the host again."),
        Action("raw", "raw JSON", ("y",), "View", "raw", footer=True, help="The probe's facts as JSON."),
        Action("sort", "sort", ("o",), "View", "sort", help="The next order of this tab's rows."),
        Action("reverse", "reverse order", ("O",), "View"),
        Action("graphs", "graphs", ("v",), "Layout", help="The plots under the GPUs: some, large, none."),
        Action("copy_facts", "copy", ("c",), "View", help="Copy the facts as text."),
        FILTER,
        Action("back", "back", ("escape",), "Global", footer=True),
        Action(
            "kill_process", "kill process", ("K",), "Change", "kill", changes=True, footer=True,
            help="End the process under the cursor of Procs: SIGTERM or SIGKILL, to exactly that process.",
        ),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    HostDetailScreen #rows { height: 1; }
    HostDetailScreen #below { height: 1fr; }
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.host_name = name
        self.acts = HostActs(self, self)
        self.parts = (self.acts,)
        self.tab = ""
        self.orders: dict[str, int] = {}
        self.reverse = False
        self.graphs: host_tabs.Graphs = "some"
        self._links: list[Link] = []
        self._processes: dict[int, host_tabs.Process] = {}
        self._processes_words = "as the last probe found them"
        """As of when they are, or why they are not known."""
        self._asking: set[str] = set()
        """The tabs whose question is not answered yet."""
        self._facts: list[str] = []
        self._notes: list[Note] = []
        self._containers: dict[int, HostContainer] | None = None
        """By numbers that stay theirs when others come and go."""
        self._numbers: dict[str, int] = {}
        """Of all containers that were listed."""
        self._containers_problem = ""

    # What is on it.

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(self._head, id="head")
        yield DetailRows(self._paint, id="rows")
        yield Painted(self._below, id="below")

    def on_mount(self) -> None:
        """The GPUs, or the network of a host that has none."""
        facts = self.host.facts
        self.tab = "gpu" if self.host.gpus or facts is None else "net"
        self.set_interval(1.0, self._tick)
        self.set_interval(LOOKED_EVERY, self._ask_tab)
        self._tick()

    @property
    def rows(self) -> RowList:
        """The list."""
        return self.query_one("#rows", RowList)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Hosts", self.host_name)

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """Its state."""
        host = self.host
        sign, style = host_rows.state_glyph(host, self.glyphs), host_rows.state_style(host, palette)
        line.gap(2).put(f"{sign} ", style)
        if no_engine := host.status == "up" and host.engine_words:
            line.put(no_engine, palette.watch)
        else:
            line.put(host.status, palette.muted)
        if host.status == "up" and not (no_engine and self.size.width < 90):
            line.gap(1).put(host_rows.rtt(host), palette.muted)
        if self.orders.get(self.tab) or self.reverse:
            words = select.sort_words(self._order[0], self.reverse) if self._order[0] else "reversed"
            line.gap(2).put(words, palette.muted)
        super().after_crumbs(line, palette)

    def headline(self, line: Line, palette: Palette) -> None:
        """The tabs."""
        for tab in host_tabs.TABS:
            here = tab == self.tab
            words, style = f" {host_tabs.NAMES[tab]} ", palette.tab_fill + palette.bold if here else palette.muted
            line.put(words, style, click=f"screen.show_tab('{tab}')")
            if tab != host_tabs.TABS[-1]:
                line.gap(1 if self.size.width >= 90 else 0)

    # News.

    def news(self, hosts: frozenset[str]) -> None:
        """Facts are shown at once, samples with the next second."""
        if self.host_name in hosts and self.host.sample is None:
            self._tick()

    def filter_changed(self) -> None:
        """See View."""
        self._tick()

    def on_resize(self, event: Resize) -> None:
        """Rows and plots share the height."""
        self.call_after_refresh(self._tick)

    def _tick(self) -> None:
        if self.closing or not self.is_current:
            return
        self._take()
        keys = [key for key in self._keys() if self.filter_text.lower() in self._text(key).lower()]
        if keys != [row.key for row in self.rows.rows]:
            self.rows.set_rows(keys)
        size = self.query_one("#body").size
        head = min(len(self._head(size.width, size.height)), max(1, size.height // 2))
        self.query_one("#head").styles.height = head
        room = size.height - head
        whole = self.tab in ("facts", "log", "containers") or len(keys) > room - 4
        self.rows.styles.height = max(1, room if whole else len(keys))
        for part in self.query(Painted):
            part.repaint()
        self.rows.repaint()
        self.refresh_bars()

    def _take(self) -> None:
        """What the tab's rows are now."""
        self._links = links(self.host)
        self._processes = host_tabs.processes(self.host)
        width = max(40, self.app.size.width - 4)
        self._facts = described(self.host, time.time(), width=width).splitlines()
        self._notes = list(self.host.notes)

    def _ask_tab(self) -> None:
        """What neither probe nor samples keep up to date."""
        if self.closing or not self.is_current or self.tab in self._asking:  # a driver or engine that hangs is shown
            return
        if self.tab == "containers":
            self.work(self._take_containers(), name="containers")
        if self.tab == "procs" and self.host.status == "up" and self.host.gpus:
            self.work(self._take_processes(), name="processes")

    async def _take_processes(self) -> None:
        self._asking.add("procs")
        try:
            found = await self.backend.gpu_processes(self.host_name)
            app_of(self).board.processes(self.host_name, found)
            self._processes_words = f"as of {time.strftime('%H:%M:%S')}"
        except HostError as error:
            self._processes_words = error.message
        finally:
            self._asking.discard("procs")
        self._tick()

    async def _take_containers(self) -> None:
        self._asking.add("containers")
        try:
            found, self._containers_problem = await self.backend.containers(self.host_name), ""
            self._containers = {self._numbers.setdefault(one.id, len(self._numbers)): one for one in found}
        except HostError as error:
            self._containers_problem = error.message
        finally:
            self._asking.discard("containers")
        self._tick()

    def _keys(self) -> list[str]:
        """The rows of this tab, in its order: each is the number of what `_items` has."""
        items = self._items()
        order = sorted(items, key=lambda pair: self._order[1](pair[1]))
        keys = [str(number) for number, _ in order]
        return keys[::-1] if self.reverse or self.tab == "log" else keys

    def _items(self) -> list[tuple[int, Any]]:
        match self.tab:
            case "gpu":
                return [(gpu.index, gpu) for gpu in self.host.gpus_in_order()]
            case "net":
                return list(enumerate(self._links))
            case "procs":
                return list(self._processes.items())
            case "containers":
                return list((self._containers or {}).items())
            case "log":
                return list(enumerate(self._notes))
            case _:
                return list(enumerate(self._facts))

    @property
    def _order(self) -> Order:
        """The order of this tab's rows: its name, and by what."""
        found = ORDERS.get(self.tab, AS_THEY_COME)
        return found[self.orders.get(self.tab, 0) % len(found)]

    def _text(self, key: str) -> str:
        """What the filter looks at."""
        return self._line(int(key), 200, False).plain if self.filter_text else ""

    # Painting.

    def _head(self, width: int, height: int) -> list[Line]:
        palette, host = self.palette, self.host
        if host.status in ("down", "lost") and self.tab != "facts":
            why = why_lines(host, width, palette, self.glyphs)
            seen = f"seen {figures.ago(time.time() - host.seen)}" if host.seen else "never seen"
            return [*why, Line().gap(4).put(seen, palette.faint)]
        match self.tab:
            case "gpu" if not host.gpus:
                return [
                    Line()
                    .gap(2)
                    .put(
                        "no GPU"
                        if host.gpu_state == "none"
                        else "driver !"
                        if host.facts
                        else "asking" + self.glyphs.ellipsis,
                        palette.muted,
                    )
                ]
            case "gpu":
                return [gpu_header(host, gpu_columns(width, detail=True), palette)]
            case "net":
                return [host_tabs.link_header(self._links, width, palette)]
            case "procs" if not self._processes:
                return [Line().gap(2).put(host_tabs.no_process_words(host), palette.muted)]
            case "procs":
                return [host_tabs.process_header(palette)]
            case "containers" if self._containers_problem:
                return [Line().gap(2).put(self._containers_problem, palette.wrong)]
            case "containers" if not self._containers:
                message = (
                    "asking" + self.glyphs.ellipsis if self._containers is None else "no container is on this host"
                )
                return [Line().gap(2).put(message, palette.muted)]
            case "containers":
                return [host_containers.header(width, palette)]
            case "log" if not self._notes:
                return [Line().gap(2).put("nothing has happened since distui looks at it", palette.muted)]
            case _:
                return [Line()]

    def _paint(self, number: int, width: int, here: bool) -> Line:
        if number >= len(self.rows.rows):
            return Line()
        return self._line(int(self.rows.rows[number].key), width, here)

    def _line(self, key: int, width: int, here: bool) -> Line:
        palette, glyphs, host = self.palette, self.glyphs, self.host
        match self.tab:
            case "gpu":
                gpu = host.gpus.get(key)
                return (
                    gpu_row(host, gpu, gpu_columns(width, detail=True), palette, glyphs, bold=here) if gpu else Line()
                )
            case "net" if key < len(self._links):
                return host_tabs.link_row(self._links, key, width, palette, glyphs)
            case "procs" if key in self._processes:
                return host_tabs.process_row(host, self._processes[key], palette, bold=here)
            case "containers" if self._containers and key in self._containers:
                return host_containers.row(self._containers[key], width, time.time(), palette, bold=here)
            case "log" if key < len(self._notes):
                return host_tabs.note_row(self._notes[key], time.time(), palette)
            case "facts" if key < len(self._facts):
                text = self._facts[key]
                return Line().gap(2).put(text, palette.watch if text.startswith("!") else palette.text)
            case _:
                return Line()

    def _below(self, width: int, height: int) -> list[Line]:
        palette, glyphs, now = self.palette, self.glyphs, time.time()
        if self.tab == "gpu":
            return host_tabs.below_gpu(self.host, self.gpu, width, height, palette, glyphs, now, graphs=self.graphs)
        if self.tab == "net":
            return host_tabs.below_net(self.link, width, height, palette, glyphs)
        if self.tab == "procs" and self.host.gpus and self.host.seen and height > 1:
            return [Line(), Line().gap(2).put(self._processes_words, palette.faint)]
        return []

    @property
    def host(self) -> HostBoard:
        """The host."""
        return self.board.hosts[self.host_name]

    @property
    def gpu(self) -> GpuHistory | None:
        """The GPU under the cursor."""
        return self.host.gpus.get(int(self.rows.key)) if self.tab == "gpu" and self.rows.key else None

    @property
    def link(self) -> Link | None:
        """The link under the cursor."""
        key = int(self.rows.key) if self.tab == "net" and self.rows.key else -1
        return self._links[key] if 0 <= key < len(self._links) else None

    # Keys.

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """The plots follow the cursor, and so do the keys at hand."""
        self.query_one("#below", Painted).repaint()
        self.refresh_bars()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Open the run that has it."""
        run = self._run_at(int(event.key))
        if run:
            app_of(self).follow_run(run)
        else:
            app_of(self).tell("no run of distui has this")

    def _run_at(self, key: int) -> str:
        host = self.host
        if self.tab == "gpu" and key in host.gpus:
            owner = host.owner(host.gpus[key])
            return owner.use.run if owner.use else ""
        if self.tab == "containers" and self.container is not None:
            return self.container.task.run if self.container.task else ""
        if self.tab == "procs" and key in self._processes:
            use = host_tabs.use_at(host, self._processes[key])
            return use.run if use else ""
        return ""

    def action_show_tab(self, tab: str) -> None:
        """A tab by name; a click does this."""
        self.tab = tab
        self._tick()
        self._ask_tab()
        self.rows.focus()

    def action_next_tab(self) -> None:
        """The next tab."""
        self._turn(1)

    def action_last_tab(self) -> None:
        """The tab before."""
        self._turn(-1)

    def _turn(self, step: int) -> None:
        self.action_show_tab(host_tabs.TABS[(host_tabs.TABS.index(self.tab) + step) % len(host_tabs.TABS)])

    @property
    def container(self) -> HostContainer | None:
        """The container under the cursor."""
        key = int(self.rows.key) if self.tab == "containers" and self.rows.key else -1
        return (self._containers or {}).get(key)

    @property
    def process(self) -> host_tabs.Process | None:
        """The process under the cursor."""
        key = int(self.rows.key) if self.tab == "procs" and self.rows.key else -1
        return self._processes.get(key)

    def offers(self, action: Action) -> bool:
        """See View: what there is under the cursor to do it to."""
        match action.id:
            case "choose":
                return bool(self.rows.key) and bool(self._run_at(int(self.rows.key)))
            case "kill_process":
                return self.process is not None
            case "container_log":
                return self.acts.has_container
            case _:
                return True

    def action_sort(self) -> None:
        """The next order of the tab."""
        count = len(ORDERS.get(self.tab, AS_THEY_COME))
        self.orders[self.tab] = (self.orders.get(self.tab, 0) + 1) % count
        self._tick()

    def action_reverse(self) -> None:
        """The other way round."""
        self.reverse = not self.reverse
        self._tick()

    def action_graphs(self) -> None:
        """Some, large, none."""
        modes = host_tabs.GRAPHS
        self.graphs = modes[(modes.index(self.graphs) + 1) % len(modes)]
        app_of(self).tell({"some": "graphs", "large": "large graphs", "none": "no graphs"}[self.graphs])
        self._tick()

    def action_probe(self) -> None:
        """Ask again; old values stay until the answer is there."""
        app_of(self).probe((self.host_name,))
        self._ask_tab()
        self._tick()

    async def action_back(self) -> None:
        """Undo the filter, then go back."""
        if self.filter_text:
            self.filter_text = ""
            self._tick()
        else:
            await self.app.run_action("back", default_namespace=self.app)
