"""The jobs of this place: job files, those that can't be read with the reason at its line, and what was never saved."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import plural
from distui.cluster.jobs.job_files import JobFile
from distui.errors import DistuiError
from distui.files import read_text, reason
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import ViewName, app_of
from distui.tui.launch.form.job_form import hosts_text
from distui.tui.launch.job_lines import job_preview, last_run, last_words
from distui.tui.launch.unsaved import with_unsaved
from distui.tui.paint.paint import Line, cut_left
from distui.tui.paint.theme import Palette
from distui.tui.run.words import state_style
from distui.tui.widgets.panel import Panel
from distui.tui.widgets.rows import Row, RowList
from distui.whole import whole


class JobsScreen(View):
    """Job documents; enter opens the launch form with it."""

    VIEW: ClassVar[ViewName] = "jobs"
    PLACE: ClassVar[str] = "Jobs"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("launch_form", "open", ("enter",), footer=True, help="The launch form with this job."),
        Action(
            "new_job",
            "new",
            ("n",),
            footer=True,
            help="A new job that runs as it is, from a template, under a new file name.",
        ),
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
        yield Panel(self._preview, id="preview")

    DEFAULT_CSS = """
    JobsScreen RowList { height: auto; max-height: 60%; }
    JobsScreen #preview { height: 1fr; margin: 1 0 0 0; }
    JobsScreen.-h0 #preview { display: none; }
    JobsScreen.-h0 RowList { max-height: 100%; }
    """

    def on_mount(self) -> None:
        """Read the files."""
        self.action_reread()

    def headline(self, line: Line, palette: Palette) -> None:
        """How many there are, and how many are invalid."""
        bad = sum(1 for job in self.files if job.problems)
        line.put(len(self.files), palette.bold).put(f" {plural(len(self.files), 'job')}", palette.muted)
        if bad:
            line.gap(3).put(bad, palette.wrong).put(" invalid", palette.muted)

    def offers(self, action: Action) -> bool:
        """See View: of no job nothing can be opened."""
        return self.chosen is not None or action.id not in ("launch_form", "show_text")

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
        self._repaint()

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key, palette = self.query_one(RowList).rows[number].key, self.palette
        if key == "":
            return self._head(width)
        if key.startswith("?"):
            return Line().gap(3).put(_NONE[int(key[1:])], palette.muted)
        at, _, problem = key.partition(":")
        job = self.files[int(at)]
        if problem:
            return self._problem(job, int(problem))
        return self._job(job, width, here)

    def _head(self, width: int) -> Line:
        line, faint = Line().gap(3).put("JOB", self.palette.faint, width=24).gap(2), self.palette.faint
        if width >= 100:
            line.put("LAUNCHER", faint, width=8).gap(2).put("HOSTS", faint, width=16).gap(2)
            line.put("LAST RUN", faint, width=24).gap(2)
        return line.put("FILE", faint)

    def _job(self, job: JobFile, width: int, here: bool) -> Line:
        palette, glyphs = self.palette, self.glyphs
        line = Line().gap(1)
        line.put(glyphs.bad if job.problems else " ", palette.wrong).gap(1)
        line.name(job.name, palette.bold if here else palette.text, width=24).gap(2)
        if width >= 100:
            line.put(job.job.launcher if job.job else "-", palette.muted if job.job else palette.faint, width=8).gap(2)
            hosts = hosts_text(job.job) if job.job else "-"
            put = line.name if hosts.startswith("@") else line.host
            put(hosts or "any", palette.muted if hosts.strip("-") else palette.faint, width=16).gap(2)
            last = last_run(job, app_of(self).rows)
            line.put(last_words(last), state_style(last, palette) if last else palette.faint, width=24).gap(2)
        if job.text is not None or str(job.path) in app_of(self).drafts:
            line.put("edited, not saved" if job.text is None else "new, not saved", palette.watch).gap(2)
        return line.put(cut_left(str(job.path), max(1, width - line.width - 1), glyphs.ellipsis), palette.muted)

    def _problem(self, job: JobFile, number: int) -> Line:
        problem, palette = job.problems[number], self.palette
        place = f"line {problem.line}" if problem.line else "file"
        subject = f"{problem.key}: " if problem.key else ""
        return Line().gap(5).put(place, palette.faint, width=9).gap(1).put(subject + problem.message, palette.watch)

    def _preview(self, width: int) -> list[Line]:
        if self.chosen is None:
            return []
        return job_preview(self.chosen, app_of(self).rows, width, self.palette, self.glyphs)

    @on(RowList.Moved)
    def _repaint(self) -> None:
        self.query_one(Panel).refresh()

    def news(self, hosts: frozenset[str]) -> None:
        """The runs are known now, or they have changed."""
        self.query_one(RowList).repaint()
        self._repaint()

    # Actions.

    @property
    def chosen(self) -> JobFile | None:
        """The job under the cursor."""
        number = whole(self.query_one(RowList).key)
        return None if number is None else self.files[number]

    def action_reread(self) -> None:
        """Look for job files again; the cursor stays on its job when others come and go."""
        before = self.chosen
        try:
            self.files = with_unsaved(self.backend.jobs(), self.backend, app_of(self).drafts)
        except DistuiError as error:
            app_of(self).tell_error(error)
        self.filter_changed()
        here = [(job.path, job.name) for job in self.files]
        if before is not None and (before.path, before.name) in here:
            self.query_one(RowList).go(str(here.index((before.path, before.name))))
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
        """A form of its own; no file is touched before it is saved."""
        app_of(self).open_launch(None, (), new=True)

    def action_show_text(self) -> None:
        """The file as it is; of a job without a file what would be in it."""
        if self.chosen is None:
            return
        if self.chosen.text is not None:
            app_of(self).open_text(self.chosen.path.name, self.chosen.text)
            return
        try:
            text = read_text(self.chosen.path, errors="replace")
        except OSError as error:
            app_of(self).tell(f"{self.chosen.path} {reason(error)}", level="error")
            return
        app_of(self).open_text(self.chosen.path.name, text)


_NONE = (
    "",
    "No job files: neither *.yaml nor jobs/*.yaml, nor in your config folder.",
    "n makes one from a template, which runs as it is; `distui job new` writes one, too.",
)
