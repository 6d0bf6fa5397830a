"""Where one is in the app and how one gets elsewhere: views, screens on top of them, and typed commands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from textual.screen import Screen

from distui.runs.lines.text import safe
from distui.spec.problems import did_you_mean
from distui.tui.dialogs.text import TextScreen
from distui.tui.frame.base import View
from distui.tui.frame.context import ViewName, work
from distui.tui.paint import theme as themes
from distui.tui.terminal.slow_terminal import PacedApp
from distui.tui.terminal.typed import Typed

if TYPE_CHECKING:
    from distui.cluster.backend.values import LiveRun
    from distui.cluster.job_files import JobFile
    from distui.monitor.board import Board
    from distui.runs.report.history import RunRow
    from distui.tui.frame.backend import Backend


class Places(PacedApp, Typed):
    """The part of the app that opens screens."""

    backend: Backend
    rows: tuple[RunRow, ...]
    board: Board

    def tell(self, message: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        """Say something in the corner of the screen."""
        severity: Mapping[str, Literal["information", "warning", "error"]] = {"warning": "warning", "error": "error"}
        kind = severity.get(level, "information")
        shown = "\n".join(safe(line) for line in message.splitlines())
        self.notify(shown, severity=kind, markup=False, timeout=4 if level == "info" else 9)

    # Where one is.

    def show_view(self, name: ViewName) -> None:
        """Switch to one of the four views; each keeps its place."""
        self.switch_mode(name)

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

    def open_run(self, live: LiveRun) -> None:
        """The run view of a run that is followed, or played again; an open one is taken up."""
        self.switch_mode("runs")
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
        lives = run in self.backend.following or (row.live if row is not None else True)
        if lives or (row is not None and not row.recorded):
            if run not in self.backend.following:
                self.tell(f"attaching to {run}…")
            self.open_run(await self.backend.attach(run))
        else:
            self.open_run(self.backend.replay(run))

    def open_text(self, title: str, text: str) -> None:
        """A text to read: a plan, a diff, raw JSON."""
        below = next((s for s in reversed(self.screen_stack) if isinstance(s, View)), None)
        self.push_screen(TextScreen(title, text, below.VIEW if below is not None else "runs"))

    # Commands typed after `:` that take an argument.

    def command_hosts(self, argument: str) -> None:
        """`:hosts /TEXT` filters the hosts."""
        self._filtered("hosts", argument)

    def command_runs(self, argument: str) -> None:
        """`:runs /TEXT` filters the runs."""
        self._filtered("runs", argument)

    def command_jobs(self, argument: str) -> None:
        """`:jobs /TEXT` filters the jobs."""
        self._filtered("jobs", argument)

    def command_doctor(self, argument: str) -> None:
        """`:doctor /TEXT` filters the checks."""
        self._filtered("doctor", argument)

    def _filtered(self, name: ViewName, argument: str) -> None:
        self.show_view(name)
        if argument:
            self.call_after_refresh(partial(self._filter, argument.lstrip("/").strip()))

    def _filter(self, text: str) -> None:
        if isinstance(self.screen, View):
            self.screen.filter_text = text
            self.screen.filter_changed()
            self.screen.refresh_bars()

    def command_theme(self, argument: str) -> None:
        """`:theme NAME`."""
        name = themes.SHORT_NAMES.get(argument, argument)
        if not argument:
            self.call_later(self.run_action, "theme")
        elif name in self.available_themes:
            self.theme = name
        else:
            near = did_you_mean(argument, self.complete_theme())
            known = near or f"; themes are {', '.join(self.complete_theme())}"
            self.tell(f"there is no theme {argument}{known}", level="warning")

    def complete_theme(self) -> tuple[str, ...]:
        """Names of themes."""
        return (*themes.SHORT_NAMES, *sorted(self.available_themes))

    def command_run(self, argument: str) -> None:
        """`:run NAME` opens a run."""
        if argument:
            self.follow_run(argument)
        else:
            self.show_view("runs")

    def command_host(self, argument: str) -> None:
        """`:host NAME` opens a host."""
        if argument in self.board.hosts:
            self.open_host(argument)
        else:
            near = did_you_mean(argument, self.board.hosts)
            self.tell(f"there is no host {argument!r} in {self.backend.title}{near}", level="warning")

    def complete_host(self) -> tuple[str, ...]:
        """Names of hosts."""
        return tuple(self.board.hosts)

    def complete_run(self) -> tuple[str, ...]:
        """Names of runs."""
        return tuple(row.run for row in self.rows)

    def command_job(self, argument: str) -> None:
        """`:job NAME` opens the launch form."""
        jobs = {job.name: job for job in self.backend.jobs()} if argument else {}
        if not argument:
            self.show_view("jobs")
        elif argument in jobs:
            self.open_launch(jobs[argument], ())
        else:
            self.tell(f"there is no job {argument!r} here{did_you_mean(argument, jobs)}", level="warning")

    def complete_job(self) -> tuple[str, ...]:
        """Names of jobs."""
        return tuple(job.name for job in self.backend.jobs())
