"""The job files of this place, those that can't be read with the reason at its line."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.errors import DistuiError
from tui.base import FILTER, Action, View, ViewName, app_of, bindings
from tui.desk import JobFile
from tui.paint import Line
from tui.theme import Palette
from tui.widgets.rows import Row, RowList


class JobsScreen(View):
    """Job documents; enter opens the launch form with it."""

    VIEW: ClassVar[ViewName] = "jobs"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("launch_form", "open", ("enter",), footer=True, help="The launch form with this job."),
        Action("new_job", "new", ("n",), footer=True, help="The launch form without a job."),
        Action("show_text", "file", ("y",), "View", footer=True, help="The text of the file."),
        Action("reread", "read again", ("r",), "View", footer=True, help="Look for job files again."),
        FILTER,
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self.files: tuple[JobFile, ...] = ()

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield RowList(self._paint)

    def on_mount(self) -> None:
        """Read the files."""
        self.action_reread()

    def headline(self, line: Line, look: Palette) -> None:
        """How many there are, and how many can't be read."""
        bad = sum(1 for job in self.files if job.problems)
        line.put(len(self.files), look.bold).put(f" job{'s' * (len(self.files) != 1)}", look.muted)
        if bad:
            line.gap(3).put(bad, look.wrong).put(" can't be read", look.muted)

    # Rows: a head, then one for each job and one for each problem.

    def filter_changed(self) -> None:
        """Only jobs whose name or path has the text."""
        wanted = self.filter_text.lower()
        rows = [Row("", plain=True)]
        for number, job in enumerate(self.files):
            if wanted in f"{job.name} {job.path}".lower():
                rows.append(Row(str(number)))
                rows += [Row(f"{number}:{i}", plain=True) for i in range(len(job.problems))]
        if not self.files:
            rows += [Row(f"?{i}", plain=True) for i in range(len(_NONE))]
        self.query_one(RowList).set_rows(rows)

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key, look = self.query_one(RowList).rows[number].key, self.look
        if key == "":
            return Line().gap(3).put("JOB", look.faint, width=24).gap(2).put("FILE", look.faint)
        if key.startswith("?"):
            return Line().gap(3).put(_NONE[int(key[1:])], look.muted)
        at, _, problem = key.partition(":")
        job = self.files[int(at)]
        if problem:
            return self._problem(job, int(problem))
        return self._job(job, here)

    def _job(self, job: JobFile, here: bool) -> Line:
        look, glyphs = self.look, self.glyphs
        line = Line().gap(1)
        line.put(glyphs.bad if job.problems else " ", look.wrong).gap(1)
        line.put(job.name, look.bold if here else look.text, width=24).gap(2)
        if str(job.path) in app_of(self).drafts:
            line.put("edited, not saved", look.watch).gap(2)
        return line.put(job.path, look.muted)

    def _problem(self, job: JobFile, number: int) -> Line:
        problem, look = job.problems[number], self.look
        place = f"line {problem.line}" if problem.line else "file"
        subject = f"{problem.key}: " if problem.key else ""
        return Line().gap(5).put(place, look.faint, width=9).gap(1).put(subject + problem.message, look.watch)

    # Actions.

    @property
    def chosen(self) -> JobFile | None:
        """The job under the cursor."""
        key = self.query_one(RowList).key
        return self.files[int(key)] if key.isdigit() else None

    def action_reread(self) -> None:
        """Look for job files again."""
        try:
            self.files = self.desk.jobs()
        except DistuiError as error:
            app_of(self).tell_error(error)
        self.filter_changed()
        self.refresh_bars()

    def on_screen_resume(self) -> None:
        """Files may have changed meanwhile."""
        self.action_reread()

    @on(RowList.Chosen)
    def action_launch_form(self) -> None:
        """Open the launch form."""
        if self.chosen is not None:
            app_of(self).open_launch(self.chosen, ())

    def action_new_job(self) -> None:
        """An empty form."""
        app_of(self).open_launch(None, ())

    def action_show_text(self) -> None:
        """The file as it is."""
        if self.chosen is None:
            return
        try:
            text = self.chosen.path.read_text("utf-8", "replace")
        except OSError as error:
            app_of(self).tell(f"{self.chosen.path}: {error.strerror}", level="error")
            return
        app_of(self).open_text(self.chosen.path.name, text)


_NONE = (
    "",
    "No job files here: neither *.yaml nor jobs/*.yaml, nor in the config folder's jobs/.",
    "`distui job new` writes one to start from; n opens an empty form.",
)
