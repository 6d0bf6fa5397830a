"""Where one is in the app and how one gets elsewhere: views, and screens on top of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from textual.screen import Screen

from distui.errors import ContactLost, DistuiError, NotFound
from distui.runs.lines.text import safe
from distui.spec.hosts.names import fold
from distui.tui.dialogs.text import TextScreen
from distui.tui.frame.base import View
from distui.tui.frame.context import ViewName, work
from distui.tui.launch.job_of_run import job_of_run
from distui.tui.terminal.slow_terminal import PacedApp
from distui.tui.terminal.typed import Typed

if TYPE_CHECKING:
    from distui.cluster.backend.values import LiveRun
    from distui.cluster.jobs.job_files import JobFile
    from distui.monitor.board import Board
    from distui.runs.report.history import RunRow
    from distui.tui.frame.backend import Backend


class Places(PacedApp, Typed):
    """The part of the app that opens screens."""

    backend: Backend
    rows: tuple[RunRow, ...]
    board: Board
    drafts: dict[str, tuple[str, str]]
    past_texts: dict[str, list[str]]

    def tell(self, message: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        """Say something in the corner of the screen."""
        severity: Mapping[str, Literal["information", "warning", "error"]] = {"warning": "warning", "error": "error"}
        kind = severity.get(level, "information")
        shown = "\n".join(safe(line) for line in message.splitlines())
        self.notify(shown, severity=kind, markup=False, timeout=4 if level == "info" else 9)

    def tell_error(self, error: DistuiError) -> None:
        """An error in words: what is wrong, and what to do."""
        self.tell(error.message + (f"\ntry: {error.hint}" if error.hint else ""), level="error")

    async def confirm(self, title: str, lines: Sequence[str], yes: str) -> bool:
        """Ask before something changes; Cancel has the focus. Call it from a worker."""
        from distui.tui.dialogs.confirm import Confirm

        return await self.push_screen_wait(Confirm(title, tuple(lines), yes)) == "yes"

    # Where one is.

    def show_view(self, name: ViewName) -> None:
        """Switch to one of the four views; each keeps its place."""
        self.switch_mode(name)

    def go_to_view(self, name: ViewName) -> None:
        """By its key or tab: back to what was open there, and from there to its list."""
        if self.current_mode != name:
            self.show_view(name)
            return
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def _open(self, mode: ViewName, module: str, kind: str, *given: Any, **named: Any) -> None:
        """Push a screen (`run.screen` of `distui.tui`) in a view; imported only now, since start-up time counts."""
        made: Screen[None] = getattr(import_module(f"distui.tui.{module}"), kind)(*given, **named)
        if self.current_mode != mode:
            self.switch_mode(mode)
        self.push_screen(made)

    def open_host(self, name: str) -> None:
        """Everything about one host."""
        self._open("hosts", "hosts.detail", "HostDetailScreen", name)

    def open_launch(self, job: JobFile | None, marked: tuple[str, ...], *, new: bool = False) -> None:
        """The launch form and its plan: of a job, of a new one, or of the first there is."""
        self._open("jobs", "launch.screen", "LaunchScreen", job, marked, new=new)

    def open_job_of(self, run: str, job: str, hosts: tuple[str, ...]) -> None:
        """The launch form with the job that a run came from, on the hosts it had."""
        found, remark = job_of_run(self.backend, self.drafts, run, job)
        if remark:
            self.tell(remark, level="warning")
        if found is None:
            self.tell(f"there is no job file for {job} here; R runs it again as it was started", level="warning")
        else:
            self.open_launch(found, hosts)

    def open_run(self, live: LiveRun) -> None:
        """The run view of a run that is followed, or played again; an open one is shown again."""
        self.switch_mode("runs")
        if isinstance(listed := self.screen_stack[0], View):
            listed.choose(live.plan.run_id)
        for screen in list(self.screen_stack[1:]):
            shown = getattr(screen, "live", None)
            if shown is live:
                while self.screen is not screen:
                    self.pop_screen()
                return
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self._open("runs", "run.screen", "RunScreen", live)

    def follow_run(self, run: str) -> None:
        """Open a run by name: followed if it lives, else played again from its folder."""
        work(self, self._follow_run(run), name="attach")

    async def _follow_run(self, run: str) -> None:
        row = next((row for row in self.rows if row.run == run), None)
        if row is not None and row.leftover and not row.recorded and not row.may_retry:
            where = f"only its folder is still on {fold(row.left or row.hosts)}"
            raise NotFound(f"{run} does not run any more: {where}", hint="X in Runs removes it")
        waited_on = [self._top]

        def say(words: str) -> None:
            waited_on.append(self._top)
            self.tell(words)

        live = await self._live(run, row, say)
        if self.screen is waited_on[-1]:
            self.open_run(live)
        else:  # when the hosts have answered one may be busy elsewhere, or with a dialog
            self.tell(f"{run} can be opened now: enter in Runs")

    async def _live(self, run: str, row: RunRow | None, say: Callable[[str], None]) -> LiveRun:
        """The run from its hosts; from its folder here where it is over, or no host has an answer."""
        if row is not None and self._is_over(row):
            return await asyncio.to_thread(self.backend.replay, run)
        if run not in self.backend.following:
            self.tell(f"attaching to {run}…")
        try:
            return await self.backend.attach(run, say)
        except (ContactLost, NotFound) as error:
            if row is None or not row.recorded:
                raise
            self.tell(f"{error.message}\nwhat is recorded here is shown", level="warning")
            return await asyncio.to_thread(self.backend.replay, run)

    def _is_over(self, row: RunRow) -> bool:
        """Whether no task of a recorded run is on a host, or is about to be: its next attempt, its first rank."""
        if not row.recorded or row.may_retry or (row.may_run and not row.leftover):
            return False
        stored = self.backend.stored(row.run)
        return stored is None or not stored.is_followed

    def show_problems(self) -> None:
        """The list of problems over this screen; one that is open below it is gone back to."""
        kind: type[Screen[None]] = import_module("distui.tui.problems.screen").ProblemsScreen
        if any(isinstance(screen, kind) for screen in self.screen_stack):
            while not isinstance(self.screen, kind):
                self.pop_screen()
        else:
            self.push_screen(kind(self._view_below()))

    @property
    def _top(self) -> View | None:
        """The view that is shown, under any dialog."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, View)), None)

    def _view_below(self) -> ViewName:
        return self._top.VIEW if self._top is not None else "runs"

    def open_text(self, title: str, text: str) -> None:
        """A text to read: a plan, a diff, raw JSON."""
        self.push_screen(TextScreen(title, text, self._view_below()))
