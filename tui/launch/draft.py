"""The launch screen's job: its text, where that is kept, and the plan that follows from it."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.timer import Timer

from distui.cluster.job_files import JobFile
from distui.doctor.images import ImageId
from distui.errors import DistuiError, Problem
from distui.plan.model import RunPlan
from distui.spec.job.job import Job
from distui.tui.frame import files
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.launch import job_form, plan_lines
from distui.tui.launch.before_lines import Checked
from distui.tui.launch.drafting import drafted, image_state
from distui.tui.launch.plan_lines import Preview
from distui.tui.terminal import shell

PAUSE = 0.12
"""Seconds without a key before the plan is made again."""


class LaunchDraft(Part):
    """The text of a job file is the truth; plans of it are made in a thread, and only the newest one counts."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("save", "save", ("w",), "View", "save", footer=True, help="Write the job file."),
        Action(
            "editor",
            "$EDITOR",
            ("e",),
            "View",
            "edit",
            terminal=True,
            footer=True,
            help="Edit the text in your own editor.",
        ),
    )

    def __init__(self, view: View, job: JobFile | None, marked: tuple[str, ...], show: Callable[[], None]) -> None:
        self.view = view
        self.show = show
        """Shows job and preview as they are now."""
        self.files: tuple[JobFile, ...] = ()
        self.file = job
        self.marked = marked
        """Hosts chosen on the Hosts screen; they win over the file's until the field is edited."""
        self.new_path = ""
        """Where a job that has no file yet will be."""
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
        self._opened = False
        self._timer: Timer | None = None
        self._fresh = asyncio.Event()
        """Set while what is shown is the plan of the text as it is now."""
        self._images: dict[str, dict[str, ImageId]] = {}
        self._asked: set[tuple[str, str]] = set()
        """Images and hosts of which one was asked for the other."""
        self._checked: Checked | None = None
        self._checking = False
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
        several = sum(1 for f in self.files if f.path == self.file.path) > 1
        return self.file.name if several else None

    # The job.

    def open(self, file: JobFile | None) -> None:
        """Show a job file, with the edits it had: the app keeps them until they are saved or thrown away."""
        self.file, self.run_id, self.job, self._checked = file, "", None, None
        self._opened, self.saved = True, file is not None
        if file is None:
            self.new_path, self.read_text = job_form.new_job(os.path.lexists)
        else:
            self.read_text = self._read(file.path)
        self.text = app_of(self.view).drafts.get(self.path, self.read_text)
        self._later(now=True)

    def _read(self, path: Path) -> str:
        try:
            return files.read(path)
        except DistuiError as error:
            app_of(self.view).tell_error(error)
            return ""

    def set_text(self, text: str, *, now: bool = False) -> None:
        if text == self.text:
            return
        self.text = text
        if text == self.read_text:
            app_of(self.view).drafts.pop(self.path, None)
        else:
            app_of(self.view).drafts[self.path] = text
        self._later(now=now)

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
        made = await asyncio.to_thread(
            drafted, self.view.backend, text, self.path, self.document, self.marked, self.run_id
        )
        self.run_id = made.run_id
        if made.job is not None:
            self.job, self.job_text = made.job, text
        plain = Preview(problems=made.problems)
        self.preview = plain if made.made is None else plan_lines.preview_of(made.made, self.view.board)
        self._fresh.set()
        self.show()
        self._ask_images()

    def _ask_images(self) -> None:
        """Ask the plan's hosts for its image, each once."""
        plan = self.preview.plan
        if plan is None or plan.image is None:
            return
        hosts = [h for h in plan.hosts if (plan.image, h) not in self._asked]
        if hosts:
            self._asked |= {(plan.image, host) for host in hosts}
            self.view.work(self._take_images(plan.image, hosts), name="images", alone=False)

    async def _take_images(self, image: str, hosts: Sequence[str]) -> None:
        found = await self.view.backend.images((image,), hosts)
        self._images.setdefault(image, {}).update(found.get(image, {}))
        self.show()

    def take_in(self) -> None:
        """Add to the preview what the hosts said meanwhile."""
        plan = self.preview.plan
        if plan is None:
            return
        found = self._images.get(plan.image or "")
        state = image_state(plan, found) if found is not None else None
        self.preview = replace(self.preview, image=state, checked=self._checked, checking=self._checking)

    def hosts_answered(self) -> None:
        """Hosts that answer meanwhile change the plan; mere samples do not."""
        known = [id(answer) for answer in self.view.backend.facts.values()]
        if known != self._known and not self.preview.problems:
            self._known = known
            self._later()

    async def preflight(self) -> bool:
        """The checks that come before a start, of this plan. Whether there was one."""
        plan = await self.ready()
        if plan is None:
            return False
        self._checking = True
        self.show()
        try:
            found = await self.view.backend.preflight(plan)
        finally:
            self._checking = False
        for image, ids in found.images.items():
            self._images.setdefault(image, {}).update(ids)
        self._checked = Checked(found.rows, time.strftime("%H:%M:%S"), plan.hash)
        self.show()
        return True

    async def ready(self) -> RunPlan | None:
        """The plan of the text as it is now, or words why there is none."""
        if self._timer is not None:
            self._later(now=True)
        await self._fresh.wait()
        plan = self.preview.plan
        if plan is None:
            app_of(self.view).tell("there is no plan yet: the right side says why", level="warning")
        return plan

    # The file.

    def action_save(self) -> None:
        """Write the job file; when somebody else wrote it meanwhile, ask first."""
        self.view.work(self._save(), name="save")

    async def _save(self) -> None:
        path, text = Path(self.path), self.text
        before = self.read_text if self.saved else None
        if files.changed(path, before):
            lines = files.difference(files.read(path), text)
            if not await app_of(self.view).confirm(f"{path.name} was changed by somebody else", lines, "Write mine"):
                return
        files.write(path, text)
        self.read_text, self.saved = text, True
        if self.text == text:
            app_of(self.view).drafts.pop(self.path, None)
        draft = await asyncio.to_thread(self.view.backend.draft, text, self.path, self.document)
        self._listed(path)
        app_of(self.view).tell(_saved(path, draft.problems), level="warning" if draft.problems else "info")
        self.view.refresh_bars()

    def _listed(self, path: Path) -> None:
        """A file that was new is one of the jobs from now on."""
        if self.file is None:
            self.files = self.view.backend.jobs()
            self.file = next((f for f in self.files if f.path.absolute() == path.absolute()), None)

    def reread(self) -> None:
        """A file that somebody else wrote is read again, unless it was edited here."""
        if self.file is not None and self.read_text and self.text == self.read_text:
            now = self._read(self.file.path)
            if now and now != self.read_text:
                self.read_text = self.text = now
                self._later(now=True)

    def action_editor(self) -> None:
        """Edit the text in one's own editor; what is saved there is shown here."""
        self.view.work(self._edit(), name="edit")

    async def _edit(self) -> None:
        line = self.preview.problems[0].line if self.preview.problems else 0
        with tempfile.TemporaryDirectory(prefix="distui-") as folder:
            path = Path(folder) / Path(self.path).name
            files.write(path, self.text)
            await shell.outside(self.view.app, shell.editor_argv(path, line))
            self.set_text(self._read(path) or self.text, now=True)


def _saved(path: Path, problems: Sequence[Problem]) -> str:
    """That it is saved, and what keeps it from being a job."""
    if not problems:
        return f"saved {path}"
    one = len(problems) == 1
    messages = [f"line {p.line}: " * bool(p.line) + f"{p.key}: " * bool(p.key) + p.message for p in problems[:2]]
    more = [f"and {len(problems) - 2} more"] if len(problems) > 2 else []
    return f"saved {path}, with {len(problems)} problem{'s' * (not one)}: " + "; ".join([*messages, *more])
