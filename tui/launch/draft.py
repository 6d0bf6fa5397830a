"""The launch screen's job: its text, where that is kept, and the plan that follows from it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.timer import Timer

from distui.amounts import counted
from distui.cluster.jobs.job_files import JobFile
from distui.cluster.jobs.job_templates import TEMPLATES, blank_job
from distui.errors import DistuiError, Problem, SpecError, UsageError
from distui.facts.host import HostFacts
from distui.files import is_file
from distui.plan.model import RunPlan
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job
from distui.spec.job.read_job import job_names
from distui.tui.dialogs.confirm import Dialog
from distui.tui.frame import files
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.launch import plan_lines
from distui.tui.launch.drafting import drafted
from distui.tui.launch.form import job_form
from distui.tui.launch.host_answers import HostAnswers
from distui.tui.launch.merging import YOURS, marked, merged
from distui.tui.launch.plan_lines import Preview
from distui.tui.launch.unsaved import with_unsaved
from distui.tui.terminal import shell

CONFLICT = (("cancel", "Cancel"), ("yes", "Write mine"), ("theirs", "Take theirs"), ("both", "Keep both"))
"""Under the question before another program's change is overwritten."""
PAUSE = 0.12
"""Seconds without a key before the plan is made again."""


class LaunchDraft(Part):
    """The text of a job file is the truth; plans of it are made in a thread, and only the newest one counts."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("save", "save", ("w", "ctrl+s"), "View", "save", footer=True,
               help="Write the job file; what is no job, or was changed by another program meanwhile, asks first."),
        Action("undo", "undo", ("u", "ctrl+z"), "View", help="The text as it was before the last change, and so on."),
        Action("editor", "$EDITOR", ("e",), "View", "edit", terminal=True, footer=True,
               help="Edit the text in your own editor."),
    )  # fmt: skip

    def __init__(self, view: View, job: JobFile | None, marked: tuple[str, ...], show: Callable[[], None]) -> None:
        self.view = view
        self.show = show
        """Shows job and preview as they are now."""
        self.to_line: Callable[[int], None] = lambda line: None
        """Shows a line of the text."""
        self.place = "the right side"
        """Where the plan stands, or why there is none."""
        self.files: tuple[JobFile, ...] = ()
        self.file = job
        self.marked = marked
        """Hosts that were chosen on the Hosts screen, or that a run had: jobs opened here are for them."""
        self._with_marks = ""
        """The text as those hosts made it, and nothing else did."""
        self._without_marks = ""
        """The text before that."""
        self.new_path = ""
        """Where a job that has no file yet will be."""
        self._jobs_there = 0
        """How many jobs the file had when it was opened."""
        self.saved = False
        """Whether the file is there with the text we know."""
        self.text = ""
        self.read_text = ""
        """The text as it is on disk, as far as we know."""
        self.job: Job | None = None
        """The last text that could be read as a job."""
        self.job_text = ""
        """That text."""
        self.preview = Preview()
        self.run_id = ""
        self.past: list[str] = []
        """The text before each change, the newest last."""
        self._announced = ""
        """What another program wrote that stands against the edits here, when it was announced."""
        self._trouble = ""
        """Why the file can't be read, as it was said."""
        self._opened = False
        self._timer: Timer | None = None
        self._fresh = asyncio.Event()
        """Set while what is shown is the plan of the text as it is now."""
        self._answers = HostAnswers(view, show)
        self._known: list[int] = []
        """The probes that the plan was made from."""

    @property
    def path(self) -> str:
        """Where the job file is, or will be."""
        return str(self.file.path) if self.file else self.new_path

    @property
    def document(self) -> str | None:
        """The document's name when the file has several."""
        if self.file is None:
            return None
        listed = sum(1 for f in self.files if f.path == self.file.path)
        return self.file.name if (listed or self._jobs_there) > 1 else None

    # The job.

    @property
    def at(self) -> int | None:
        """Where the job stands among those that can be opened; None for one that is new and not listed."""
        if self.file is not None:
            return self.files.index(self.file) if self.file in self.files else None
        listed = (number for number, file in enumerate(self.files) if file.text is not None)
        return next((number for number in listed if str(self.files[number].path) == self.new_path), None)

    def list_jobs(self, *, again: bool = False) -> None:
        """The jobs that can be opened: the files as they were read last, or `again`, and what is not saved now."""
        saved = tuple(file for file in self.files if file.text is None)
        if again or not saved:
            saved = self.view.backend.jobs()
        self.files = with_unsaved(saved, self.view.backend, app_of(self.view).drafts)

    def open(self, file: JobFile) -> None:
        """Show a job, with the edits it had: the app keeps them until they are saved or thrown away."""
        self._trouble = ""
        if file.text is None:
            self._begin_with(file, self._read(file.path))
        else:
            self.new_path = str(file.path)
            self._begin_with(None, file.text)

    def open_new(self, template: str) -> None:
        """Show a job that has no file yet, on hosts that are up."""
        name = job_form.new_name(lambda file: os.path.lexists(file) or file in app_of(self.view).drafts)
        self.new_path = f"{name}.yaml"
        hosts = self.marked or self._up()
        text = blank_job(template, name, hosts, self._image(template, hosts))
        self._begin_with(None, text)

    def _begin_with(self, file: JobFile | None, text: str) -> None:
        self.file, self.run_id, self.job = file, "", None
        self._answers.forget_checks()
        self._opened, self.saved, self._announced = True, file is not None, ""
        app = app_of(self.view)
        self.past = app.past_texts.get(self.path, []) if self.path in app.drafts else []
        self.text, self.read_text = app.drafts.get(self.path, (text, text))
        self._jobs_there = _jobs_in(self.read_text, self.path)
        self._with_marks = self._without_marks = ""
        self.reread()
        self._put_marks()
        self._later(now=True)

    def _put_marks(self) -> None:
        """Write the hosts that were chosen into the text, where it says others: what is shown is what is saved."""
        if not self.marked or self.marked == self._hosts():
            return
        made = job_form.changed(self.text, job_form.HOSTS, fold(self.marked), self.document)
        if made is None:
            app_of(self.view).tell(
                f"{fold(self.marked)} can't be put into this text; use the YAML tab", level="warning"
            )
            return
        self._with_marks, self._without_marks = made, self.text
        self.past.append(self.text)
        self.text = made

    def _hosts(self) -> tuple[str, ...]:
        """Where the text says that the job runs, as far as that is known."""
        job = self.view.backend.draft(self.text, self.path, self.document).job
        try:
            return tuple(pick.name for pick in self.view.backend.pick(job, ())) if job is not None else ()
        except DistuiError:
            return ()

    def _up(self) -> tuple[str, ...]:
        """Two hosts that answered, else the first two."""
        facts = self.view.backend.facts
        names = [host.name for host in self.view.backend.hosts]
        return tuple(sorted(names, key=lambda name: not isinstance(facts.get(name), HostFacts))[:2])

    def _image(self, template: str, hosts: Sequence[str]) -> str | None:
        """That of a job here that is for the same, else a usual one; none where hosts run processes."""
        engines = {host.engine for host in self.view.backend.hosts if host.name in hosts}
        if engines == {"process"}:
            return None
        wanted = TEMPLATES[template]
        known = (file.job.image for file in self.files if file.job is not None and file.job.image)
        return next((image for image in known if wanted.framework in image), wanted.image)

    def _read(self, path: Path) -> str:
        """The text of a file; empty where it can't be read, which is said once, however often it is looked at."""
        try:
            text = files.read(path)
        except DistuiError as error:
            if error.message != self._trouble:
                app_of(self.view).tell_error(error)
            self._trouble = error.message
            return ""
        self._trouble = ""
        return text

    def set_text(self, text: str, *, now: bool = False) -> None:
        """Another text; the plan follows."""
        if text == self.text:
            return
        self.text = text
        self._keep()
        self._later(now=now)

    def _keep(self) -> None:
        """What is not saved stays with the app; hosts that were only chosen do not, nobody would miss them."""
        only_marks = self.text == self._with_marks != self.read_text
        text = self._without_marks if only_marks else self.text
        app = app_of(self.view)
        if text == self.read_text:
            app.drafts.pop(self.path, None)
            app.past_texts.pop(self.path, None)
        else:
            app.drafts[self.path] = (text, self.read_text)
            app.past_texts[self.path] = self.past

    def remember(self, text: str) -> None:
        """The text before a change, for undo."""
        if text != self.text and (not self.past or self.past[-1] != text):
            self.past.append(text)

    def action_undo(self) -> None:
        """The text before the last change."""
        before = next((text for text in reversed(self.past) if text != self.text), None)
        if before is None:
            app_of(self.view).tell("nothing has been changed")
            return
        while self.past.pop() != before:
            pass
        self.set_text(before, now=True)

    def _later(self, *, now: bool = False) -> None:
        """Make the plan again: now, or when no key came for a moment. Not before a job was opened."""
        if not self._opened:
            return
        self._fresh.clear()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if now:
            self._begin()
        else:
            self._timer = self.view.set_timer(PAUSE, self._begin)

    def _begin(self) -> None:
        """A newer text takes the place of one that is still being planned; what that gives is dropped."""
        self._timer = None
        self.view.work(self._make(), name="plan")

    async def _make(self) -> None:
        """Text -> job -> plan, in a thread -> what is shown."""
        text = self.text
        made = await asyncio.to_thread(drafted, self.view.backend, text, self.path, self.document, self.run_id)
        self.run_id = made.run_id
        if made.job is not None:
            self.job, self.job_text = made.job, text
        plain = Preview(problems=made.problems)
        self.preview = plain if made.made is None else plan_lines.preview_of(made.made, self.view.board)
        self._fresh.set()
        self.show()
        self._answers.ask_images(self.preview.plan)

    def launched(self) -> None:
        """The plan was started: the next start is another run, with another name."""
        self.run_id = ""
        self._later(now=True)

    def take_in(self) -> None:
        """Add to the preview what the hosts said meanwhile."""
        self.preview = self._answers.added_to(self.preview)

    def hosts_answered(self) -> None:
        """Hosts that answer meanwhile change the plan; mere samples do not."""
        known = [id(answer) for answer in self.view.backend.facts.values()]
        if known != self._known and not self.preview.problems:
            self._known = known
            self._later()

    async def preflight(self) -> bool:
        """The checks that come before a start, of this plan. Whether there was one, and its job is still shown."""
        plan = await self.ready()
        return plan is not None and await self._answers.check(plan)

    async def ready(self) -> RunPlan | None:
        """The plan of the text as it is now, or words why there is none."""
        if self._timer is not None:
            self._later(now=True)
        await self._fresh.wait()
        plan = self.preview.plan
        if plan is None:
            app_of(self.view).tell(f"there is no plan yet: {self.place} says why", level="warning")
        return plan

    # The file.

    def action_save(self) -> None:
        """Write the job file; what could be a loss asks first."""
        self.view.work(self._save(), name="save")

    async def _save(self) -> None:
        path = Path(self.path)
        if not await self._with_theirs(path):
            return
        text = self.text
        draft = await asyncio.to_thread(self.view.backend.draft, text, self.path, self.document)
        if draft.problems and not await self._broken(path, draft.problems):
            return
        files.write(path, text)
        self.read_text, self.saved = text, True
        self._keep()
        self._listed(path)
        app_of(self.view).tell(_saved(path, draft.problems), level="warning" if draft.problems else "info")
        self.view.refresh_bars()

    async def _with_theirs(self, path: Path) -> bool:
        """Take in what another program wrote meanwhile, or ask whether it goes. Whether to go on."""
        if not files.changed(path, self.read_text if self.saved else None):
            return True
        theirs = files.read(path)
        if self.saved and self._merge(theirs):
            return True
        lines = tuple(files.difference(theirs, self.text))
        asked = Dialog(f"{path.name} was changed by another program", lines, CONFLICT)
        answer = await self.view.app.push_screen_wait(asked)
        if answer == "theirs":
            self._settle(theirs, theirs)
            app_of(self.view).tell(f"{path.name} as the other program wrote it; u has yours")
        elif answer == "both":
            self._settle(marked(self.read_text, self.text, theirs), theirs)
            self.to_line(1 + self.text.splitlines(keepends=True).index(YOURS) if YOURS in self.text else 1)
            app_of(self.view).tell(
                "both stand in the text where they differ: keep one of each, then save", level="warning"
            )
        return answer == "yes"

    def _settle(self, text: str, theirs: str) -> None:
        """Go on with a text that knows what the other program wrote."""
        before, self.read_text, self.saved = self.text, theirs, True
        self.set_text(text, now=True)
        self.remember(before)
        self._keep()
        self._listed(Path(self.path))

    def _merge(self, theirs: str) -> bool:
        """Both changes in one text, where they are at different lines. Whether they are."""
        both = merged(self.read_text, self.text, theirs)
        if both is None:
            return False
        if self.text == self._with_marks:  # nothing was typed since the hosts were put in: so it stays
            without = merged(self.read_text, self._without_marks, theirs)
            self._with_marks, self._without_marks = (both, without) if without is not None else ("", "")
        edited, self.read_text = self.text != self.read_text, theirs
        self.remember(both)
        if both != self.text:
            self.past.append(self.text)
        self.set_text(both, now=True)
        self._keep()
        words = "in the text beside your changes" if edited else "read again"
        app_of(self.view).tell(f"{Path(self.path).name} was changed by another program: {words}")
        return True

    async def _broken(self, path: Path, problems: Sequence[Problem]) -> bool:
        """Whether a file that is no job is to be written all the same."""
        lines = [_problem(problem) for problem in problems[:8]]
        lines += [f"and {len(problems) - 8} more"] if len(problems) > 8 else []
        return await app_of(self.view).confirm(f"{path.name} can't run like this. Save it?", lines, "Save it")

    def reread(self, *, typing: bool = False) -> None:
        """Take in what another program wrote meanwhile; while something is typed here that waits until it is saved."""
        if self.file is None or not self.saved or not is_file(self.file.path):
            return
        now = self._read(self.file.path)
        if not now or now in (self.read_text, self._announced) or (typing and self.text != self.read_text):
            return
        if not self._merge(now):
            self._announced = now
            name = self.file.path.name
            app_of(self.view).tell(f"{name} was changed by another program where you did; w asks", level="warning")

    def _listed(self, path: Path) -> None:
        """A file that was new is one of the jobs from now on."""
        if self.file is None:
            self.list_jobs(again=True)
            self.file = next((f for f in self.files if f.path.absolute() == path.absolute()), None)

    def action_editor(self) -> None:
        """Edit the text in one's own editor; what is saved there is shown here."""
        self.view.work(self._edit(), name="edit")

    async def _edit(self) -> None:
        if self.view.app.is_web:  # the file for the editor is gone by the time that anybody could open it elsewhere
            raise UsageError("a browser has no terminal for an editor", hint="] edits the text here")
        line = self.preview.problems[0].line if self.preview.problems else 0
        with tempfile.TemporaryDirectory(prefix="distui-") as folder:
            path = Path(folder) / Path(self.path).name
            files.write(path, self.text)
            await shell.outside(self.view.app, shell.editor_argv(path, line))
            before = self.text
            self.set_text(self._read(path) or self.text, now=True)
            self.remember(before)


def _jobs_in(text: str, path: str) -> int:
    """How many jobs a text has; of what is no YAML it is not known, and none."""
    try:
        return len(job_names(text, path))
    except SpecError:
        return 0


def _saved(path: Path, problems: Sequence[Problem]) -> str:
    """That it is saved, and what keeps it from being a job."""
    if not problems:
        return f"saved {path}"
    messages = [_problem(problem) for problem in problems[:2]]
    more = [f"and {len(problems) - 2} more"] if len(problems) > 2 else []
    return f"saved {path}, with {counted(len(problems), 'problem')}: " + "; ".join([*messages, *more])


def _problem(problem: Problem) -> str:
    return f"line {problem.line}: " * bool(problem.line) + f"{problem.key}: " * bool(problem.key) + problem.message
