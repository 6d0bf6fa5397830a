"""What may be typed after `:` on every screen and takes an argument: views with a filter, runs, hosts, jobs, themes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from distui.spec.yaml.problems import did_you_mean
from distui.tui.frame.base import View
from distui.tui.frame.context import ViewName
from distui.tui.frame.parts import Part
from distui.tui.launch.unsaved import with_unsaved
from distui.tui.paint import theme as themes
from distui.tui.places import Places

if TYPE_CHECKING:
    from distui.cluster.jobs.job_files import JobFile


class AppCommands(Part):
    """Typed commands that lead somewhere in the app."""

    def __init__(self, app: Places) -> None:
        self.app = app

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
        """As its key does; with a text its list, whatever is open there."""
        self.app.go_to_view(name)
        if argument:
            while len(self.app.screen_stack) > 1:
                self.app.pop_screen()
            listed = self.app.screen
            listed.call_later(self._filter, listed, argument.lstrip("/").strip())  # it may have no rows yet

    def _filter(self, listed: Screen[Any], text: str) -> None:
        if isinstance(listed, View):
            listed.filter_text = text
            listed.filter_changed()
            listed.refresh_bars()

    def command_theme(self, argument: str) -> None:
        """`:theme NAME`."""
        name = themes.SHORT_NAMES.get(argument, argument)
        if not argument:
            self.app.call_later(self.app.run_action, "theme")
        elif name in self.app.available_themes:
            self.app.theme = name
        else:
            near = did_you_mean(argument, self.complete_theme())
            known = near or f"; themes are {', '.join(self.complete_theme())}"
            self.app.tell(f"there is no theme {argument}{known}", level="warning")

    def complete_theme(self) -> tuple[str, ...]:
        """Names of themes."""
        return (*themes.SHORT_NAMES, *sorted(self.app.available_themes))

    def command_run(self, argument: str) -> None:
        """`:run NAME` opens a run."""
        if argument:
            self.app.follow_run(argument)
        else:
            self.app.show_view("runs")

    def command_host(self, argument: str) -> None:
        """`:host NAME` opens a host."""
        if argument in self.app.board.hosts:
            self.app.open_host(argument)
        else:
            near = did_you_mean(argument, self.app.board.hosts)
            self.app.tell(f"there is no host {argument!r} in {self.app.backend.title}{near}", level="warning")

    def complete_host(self) -> tuple[str, ...]:
        """Names of hosts."""
        return tuple(self.app.board.hosts)

    def complete_run(self) -> tuple[str, ...]:
        """Names of runs."""
        return tuple(row.run for row in self.app.rows)

    def command_job(self, argument: str) -> None:
        """`:job NAME` opens the launch form."""
        jobs = {job.name: job for job in self._jobs()} if argument else {}
        if not argument:
            self.app.show_view("jobs")
        elif argument in jobs:
            self.app.open_launch(jobs[argument], ())
        else:
            self.app.tell(f"there is no job {argument!r} here{did_you_mean(argument, jobs)}", level="warning")

    def complete_job(self) -> tuple[str, ...]:
        """Names of jobs."""
        return tuple(job.name for job in self._jobs())

    def _jobs(self) -> tuple[JobFile, ...]:
        return with_unsaved(self.app.backend.jobs(), self.app.backend, self.app.drafts)
