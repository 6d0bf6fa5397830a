"""The app: four views over one backend. It shows and asks; runs are owned by the backend, outside of it.

Start it with the backend open around it: `async with backend: await DistuiApp(backend).run_async()`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Literal

from textual.actions import parse
from textual.binding import BindingType
from textual.command import Provider
from textual.dom import DOMNode
from textual.filter import LineFilter, NoColor
from textual.screen import Screen
from textual.worker import WorkerFailed

from distui.cluster.backend.values import LiveRun
from distui.errors import DistuiError
from distui.monitor.board import Board
from distui.monitor.figures import HostNews
from distui.runs.hosts.discover import FoundRuns
from distui.runs.hosts.uses import uses_of
from distui.runs.report.attention import Attention
from distui.runs.report.history import Launched, RunRow
from distui.tui.app_commands import AppCommands
from distui.tui.copying import copy_text
from distui.tui.frame import history
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.backend import Backend
from distui.tui.frame.base import View
from distui.tui.frame.context import ViewName, work
from distui.tui.frame.keys import actions_here, in_one_notice
from distui.tui.frame.leaving import Leaving
from distui.tui.frame.parts import act
from distui.tui.paint import theme as themes
from distui.tui.paint.glyphs import ASCII, UNICODE, AsciiSigns, Glyphs
from distui.tui.paint.harmless import HARMLESS
from distui.tui.paint.theme import Palette
from distui.tui.places import Places
from distui.tui.quitting import Quitting

NEWS_EVERY = 0.5
"""Seconds between two repaints for news of the hosts."""
ATTEND_EVERY = 1.0
"""Seconds between two looks at what is worth a notice."""
RUNS_EVERY = 10.0
"""Seconds between two questions for the runs on the hosts."""


Keymap = tuple[Mapping[str, str], tuple[str, ...]]
"""Action id -> keys where they are not as usual, and what was wrong in the config file (`registry.keymap_of`)."""


def _palette() -> type[Provider]:
    from distui.tui.frame.palette import Actions

    return Actions


class DistuiApp(Places):
    """The terminal UI. `start` names what is opened first: a view, a new job, or a run that is followed."""

    TITLE = "distui"
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    COMMANDS = {_palette}  # noqa: RUF012  # textual's own form
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("view_hosts", "Hosts", ("1",), "Global", "hosts", help="The hosts; `:hosts TEXT` filters them."),
        Action("view_jobs", "Jobs", ("2",), "Global", "jobs", help="The job files."),
        Action("view_runs", "Runs", ("3",), "Global", "runs", help="Runs, live and ended."),
        Action("view_doctor", "Doctor", ("4",), "Global", "doctor", help="What would break on which host."),
        Action(
            "problems",
            "problems",
            ("exclamation_mark",),
            "Global",
            "problems",
            help="What is not well at any host or run, the worst first.",
        ),
        Action("help", "help", ("question_mark",), "Global", "help", footer=True, help="What can be pressed here."),
        Action("menu", "actions", ("x",), "Global", help="What can be done with the row under the cursor, as a menu."),
        Action("command", "command", ("colon",), "Global", help="Type a command, with completion and history."),
        Action("command_palette", "palette", ("ctrl+p",), "Global", "palette", help="Find an action by its name."),
        Action("theme", "theme", ("T",), "Global", "theme", help="Next theme; `:theme NAME` chooses one."),
        Action("back", "back", ("escape",), "Global", "back", help="To where you came from."),
        *Quitting.ACTIONS,
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(
        self,
        backend: Backend,
        *,
        start: ViewName | Literal["new job"] | LiveRun = "hosts",
        theme: str = "",
        ascii: bool = False,
        keymap: Keymap = ({}, ()),
        attention: Attention | None = None,
    ) -> None:
        mode = "jobs" if start == "new job" else start if isinstance(start, str) else "runs"
        self.DEFAULT_MODE = mode  # type: ignore[misc]  # read by __init__
        super().__init__()
        self.quitting = Quitting(self)
        self.parts = (AppCommands(self), self.quitting)
        self.backend = backend
        self.board = Board(backend.hosts, backend.groups)
        self.rows: tuple[RunRow, ...] = ()
        self._found: FoundRuns | None = None
        self.looked_at: set[Launched] = set()
        """Runs whose end was on the screen in this session."""
        self.runs_known = False
        self.glyphs: Glyphs = ASCII if ascii else UNICODE
        self.keymap, self._complaints = keymap
        self.opening = start
        self._attention = attention
        self._attended: dict[str, LiveRun] = {}
        self.bug: Exception | None = None
        self.command_history: list[str] = history.load(backend.history)
        self.drafts: dict[str, tuple[str, str]] = {}
        self.past_texts: dict[str, list[str]] = {}
        self._changed: set[str] = set()
        self._runs_changed = False
        self._look: tuple[str, Palette] | None = None
        for found in themes.THEMES:
            self.register_theme(found)
        self.theme = self._first_theme(theme)

    # Colours.

    def _first_theme(self, wanted: str) -> str:
        if self.no_color:
            return "ansi-dark"
        name = themes.SHORT_NAMES.get(wanted, wanted) or themes.DARK.name
        if name in self.available_themes:
            return name
        self._complaints = (f"there is no theme {wanted}", *self._complaints)
        return themes.DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """See textual: distui's own variables, made from the theme's."""
        return themes.variables(self.current_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """See textual. With NO_COLOR nothing has a colour; weights and reverse stay."""
        filters = [HARMLESS, NoColor()] if self.no_color else [HARMLESS, *super().get_line_filters()]
        return [*filters, AsciiSigns()] if self.glyphs is ASCII else filters

    @property
    def palette(self) -> Palette:
        """The styles of the theme in use."""
        if self._look is None or self._look[0] != self.theme:
            self._look = (self.theme, themes.palette(self.current_theme, self.get_css_variables()))
        return self._look[1]

    # Start and end.

    def on_mount(self) -> None:
        """Ask the hosts, listen to them, and open what was asked for."""
        if self.keymap:
            self.set_keymap(dict(self.keymap))
        if self._complaints:
            self.tell(in_one_notice(self._complaints), level="warning")
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.set_interval(NEWS_EVERY, self._show_news)
        self.set_interval(RUNS_EVERY, self._ask_runs_again)
        if self._attention is not None:
            self.set_interval(ATTEND_EVERY, self._attend, name="attention")
        self.call_after_refresh(self._begin)

    def _attend(self) -> None:
        """Let the terminal ring, or show progress in its tab, for the runs that are followed."""
        if self._attention is not None and self._driver is not None:
            self._attended |= self.backend.following
            if text := self._attention.look([live.state for live in self._attended.values()], time.monotonic()):
                self._driver.write(text)  # as textual writes its bell and its clipboard
            self._attended = {name: live for name, live in self._attended.items() if live.state.ended is None}

    def on_unmount(self) -> None:
        """The tab shows no progress of an app that is gone."""
        if self._attention is not None and self._driver is not None and (text := self._attention.end()):
            self._driver.write(text)

    def _begin(self) -> None:
        """After the first paint."""
        if not self.is_headless:
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 100)  # full collections are the tail of the latency (docs/benchmarks.md)
        if not isinstance(self.opening, str):
            self.open_run(self.opening)
        elif self.opening == "new job":
            self.open_launch(None, tuple(host.name for host in self.backend.hosts), new=True)
        self.probe([host.name for host in self.backend.hosts])
        work(self, self._listen(), name="news")
        self.ask_runs()

    def clear_selection(self) -> None:
        """See textual. From Python 3.12 on, where its tasks begin at once, an Input of the first screen asks for this
        before that screen is on the stack.
        """
        if self.screen_stack:
            super().clear_selection()

    def _handle_exception(self, error: Exception) -> None:
        """See textual. Errors raised on purpose are reported; a bug ends the app without a traceback on the screen."""
        if isinstance(error, DistuiError):
            self.tell_error(error)
        elif self.is_headless:
            super()._handle_exception(error)
        else:
            cause = error.error if isinstance(error, WorkerFailed) else error
            self.bug = self.bug or (cause if isinstance(cause, Exception) else error)
            self.exit(70)

    async def run_action(
        self,
        action: Any,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """See textual. The one place where read-only refuses, and where errors of actions become words."""
        target, name, params = parse(action) if isinstance(action, str) else action
        known = next((a for a in actions_here(self.screen) if a.id == name), None)
        if known is not None and known.changes and self.backend.readonly:
            self.tell(f"{known.title} is refused: distui was started read-only", level="warning")
            return True
        try:
            nodes = {"app": self, "screen": self.screen, "focused": self.focused}
            if await act(nodes.get(target) or default_namespace or self, name, params):
                return True
            return await super().run_action(action, default_namespace, namespaces)
        except DistuiError as error:
            self.tell_error(error)
            return True

    # For screens.

    @property
    def leaving(self) -> Leaving | None:
        """What is waited for before the app quits."""
        return self.quitting.leaving

    def copy(self, text: str) -> None:
        """Into the clipboard of the terminal and of this machine's screen; what is too long, into a file."""
        copy_text(self, text)

    # The board.

    def probe(self, names: Sequence[str]) -> None:
        """Probe hosts beside everything else; rows fill in as they answer."""

        def answered(name: str, result: Any) -> None:
            self.board.probed(name, result, time.time())
            self._changed.add(name)

        self.board.probing(names)
        self._changed.update(names)
        work(self, self.backend.probe(names, answered), name="probe", alone=False)

    async def _listen(self) -> None:
        async for news in self.backend.news():
            self.take_news(news)

    def take_news(self, news: HostNews) -> None:
        """Put news on the board; the screen hears of it with the next tick."""
        if news.sample is not None:
            self.board.sampled(news.sample)
        elif news.state != "sample":
            self.board.connection(news.host, news.state, news.reason, time.time())
        self._changed.add(news.host)

    def ask_runs(self) -> None:
        """Ask the hosts which runs they know."""
        work(self, self._take_runs(), name="runs")

    def _ask_runs_again(self) -> None:
        """Not while they are being asked: one that does not answer takes longer than what lies between two times."""
        asking = any(worker.name == "runs" and not worker.is_finished for worker in self.workers)
        screen = next(reversed(self.screen_stack), None)  # none when the app is about to end
        wanted = isinstance(screen, View) and (self.current_mode in ("hosts", "runs") or screen.SHOWS_RUNS)
        if wanted and not asking:
            self.ask_runs()

    async def _take_runs(self) -> None:
        self.rows, self._found = await self.backend.runs()
        self.runs_known = True
        self.take_uses()
        self._show_news()

    @property
    def found(self) -> FoundRuns:
        """The runs found on the hosts when they were asked last."""
        if self._found is None:
            self._found = FoundRuns((), {})
        return self._found

    def take_uses(self) -> None:
        """Which GPU which run uses, from the runs followed here and those found on the hosts."""
        living = [live for live in self.backend.following.values() if live.state.ended is None]
        followed = [(live.plan, live.state.containers, live.state.started) for live in living]
        self.board.used(uses_of(followed, self.found), time.time(), unasked=self.found.unreachable)
        self._runs_changed = True

    def _show_news(self) -> None:
        """Tell the view that is shown, at most every half second."""
        if not self._changed and not self._runs_changed:
            return
        shown = self.top_view
        if shown is not None and shown.is_mounted and shown.is_running and not shown.closing:
            changed, self._changed, self._runs_changed = frozenset(self._changed), set(), False
            shown.news(changed)

    @property
    def top_view(self) -> View | None:
        """The screen under any dialog."""
        found = (screen for screen in reversed(self.screen_stack) if isinstance(screen, View))
        return next(found, None)

    def _theme_changed(self, theme: object) -> None:
        for screen in self.screen_stack:
            screen.refresh(layout=True)
            for widget in screen.query("*"):
                widget.refresh()

    # Actions.

    def action_view(self, name: ViewName) -> None:
        """A tab was clicked."""
        self.go_to_view(name)

    def action_view_hosts(self) -> None:
        """The first view."""
        self.go_to_view("hosts")

    def action_view_jobs(self) -> None:
        """The second view."""
        self.go_to_view("jobs")

    def action_view_runs(self) -> None:
        """The third view."""
        self.go_to_view("runs")

    def action_view_doctor(self) -> None:
        """The fourth view."""
        self.go_to_view("doctor")

    def action_problems(self) -> None:
        """All that is not well, over what is shown now."""
        self.show_problems()

    def action_help(self) -> None:
        """The keys of this place."""
        from distui.tui.dialogs.help import HelpScreen

        self.push_screen(HelpScreen(self.screen))

    def action_command_palette(self) -> None:
        """See textual."""
        from distui.tui.dialogs.palette import PaletteScreen

        if not isinstance(self.screen, PaletteScreen):
            self.push_screen(PaletteScreen(id="--command-palette"))

    def action_menu(self) -> None:
        """What can be done here."""
        from distui.tui.dialogs.menu import choose

        if isinstance(self.screen, View):
            work(self, choose(self, self.screen), name="menu")

    def action_command(self) -> None:
        """The row for typed commands."""
        if isinstance(self.screen, View):
            self.screen.open_command()

    def action_theme(self) -> None:
        """The next of dark, light, and the terminal's own colours."""
        order = ("distui-dark", "distui-light", "ansi-dark")
        at = order.index(self.theme) if self.theme in order else -1
        self.theme = order[(at + 1) % len(order)]

    async def action_back(self) -> None:
        """Undo the filter, then the marks, then leave this screen for the one below."""
        if isinstance(self.screen, View) and self.screen.undo():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()


def _mode(module: str, kind: str) -> Callable[[], Screen[Any]]:
    """A view's first screen, imported when the view is opened."""

    def make() -> Screen[Any]:
        made: Screen[Any] = getattr(import_module(f"distui.tui.{module}"), kind)()
        return made

    return make


DistuiApp.MODES = {
    "hosts": _mode("hosts.screen", "HostsScreen"),
    "jobs": _mode("launch.jobs", "JobsScreen"),
    "runs": _mode("runs.screen", "RunsScreen"),
    "doctor": _mode("doctor.screen", "DoctorScreen"),
}
