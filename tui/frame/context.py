"""How screens, bars and widgets reach the app (`AppLike`) and their screen (`ViewLike`) without importing either."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from textual.dom import DOMNode
from textual.widget import Widget
from textual.worker import Worker

from distui.errors import DistuiError
from distui.tui.frame.actions import Action
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

if TYPE_CHECKING:
    from distui.cluster.backend.values import LiveRun
    from distui.cluster.jobs.job_files import JobFile
    from distui.monitor.board import Board
    from distui.runs.hosts.discover import FoundRuns
    from distui.runs.report.history import Launched, RunRow
    from distui.tui.frame.backend import Backend
    from distui.tui.frame.leaving import Leaving

ViewName = Literal["hosts", "jobs", "runs", "doctor"]


class AppLike(Protocol):
    """What screens may use of the app."""

    backend: Backend
    board: Board
    rows: tuple[RunRow, ...]
    looked_at: set[Launched]
    """Runs whose end was on the screen in this session."""
    runs_known: bool
    glyphs: Glyphs
    keymap: Mapping[str, str]
    drafts: dict[str, tuple[str, str]]
    """Path -> edits that are not saved, and the text that they were made in."""
    past_texts: dict[str, list[str]]
    """Path -> the texts of such a job before each change."""

    @property
    def leaving(self) -> Leaving | None: ...

    @property
    def palette(self) -> Palette: ...

    @property
    def found(self) -> FoundRuns: ...

    def tell(self, message: str, *, level: Literal["info", "warning", "error"] = "info") -> None: ...

    def tell_error(self, error: DistuiError) -> None: ...

    async def confirm(self, title: str, lines: Sequence[str], yes: str) -> bool: ...

    def probe(self, names: Sequence[str]) -> None: ...

    def ask_runs(self) -> None: ...

    def show_view(self, name: ViewName) -> None: ...

    def open_host(self, name: str) -> None: ...

    def open_launch(self, job: JobFile | None, marked: tuple[str, ...], *, new: bool = False) -> None: ...

    def open_job_of(self, run: str, job: str, hosts: tuple[str, ...]) -> None: ...

    def open_run(self, live: LiveRun) -> None: ...

    def follow_run(self, run: str) -> None: ...

    def open_text(self, title: str, text: str) -> None: ...

    def copy(self, text: str) -> None: ...

    @property
    def command_history(self) -> list[str]: ...


class ViewLike(Protocol):
    """What the bars of a screen show and ask of it; see `tui.base.View`."""

    VIEW: ClassVar[ViewName]
    main_focus: Widget | None

    @property
    def crumbs(self) -> tuple[str, ...]: ...

    def after_crumbs(self, line: Line, palette: Palette) -> None: ...

    def headline(self, line: Line, palette: Palette) -> None: ...

    def offers(self, action: Action) -> bool: ...

    def title_of(self, action: Action) -> str: ...

    def focus_back(self) -> None: ...

    def find_action(self, word: str) -> Action | None: ...

    def run_later(self, name: str) -> None: ...


def view_of(node: DOMNode) -> ViewLike:
    """The screen that a bar is on."""
    return cast(ViewLike, node.screen)


def app_of(node: DOMNode) -> AppLike:
    """The app as screens and widgets may use it."""
    return cast(AppLike, node.app)


def backend_of(node: DOMNode) -> Backend:
    """Everything the app may ask of the core."""
    return app_of(node).backend


def palette_of(node: DOMNode) -> Palette:
    """The styles of the theme in use."""
    return app_of(node).palette


def glyphs_of(node: DOMNode) -> Glyphs:
    """The signs in use."""
    return app_of(node).glyphs


_UNDONE = "given up halfway when the app is left: "


def undone(node: DOMNode) -> list[str]:
    """What would be given up halfway if the app was left now."""
    going = (worker for worker in node.app.workers if not worker.is_finished)
    return [w.description.removeprefix(_UNDONE) for w in going if w.description.startswith(_UNDONE)]


def work(
    node: DOMNode, job: Coroutine[Any, Any, None], *, name: str, group: str = "", alone: bool = True, ask: str = ""
) -> None:
    """Do `job` beside the screen. What it raises on purpose is reported in words; it ends with the node.

    Jobs of one group replace each other (`alone`). Runs must not live in here: the backend owns them. Who leaves the
    app while it goes on is asked first, where `ask` says what it is.
    """

    async def guarded() -> None:
        try:
            await job
        except DistuiError as error:
            app_of(node).tell_error(error)

    worker: Worker[None] = node.run_worker(
        guarded, name=name, group=group or name, description=_UNDONE + ask if ask else "", exclusive=alone
    )
    assert worker._task is not None  # it has begun
    # One that is given up before its first step (another of its group came, the app was closed) has never been awaited,
    # of which Python complains; what textual still holds of a closed app would keep it until the process ends.
    worker._task.add_done_callback(lambda _: job.close())
