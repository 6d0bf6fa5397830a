"""Launch: form left, plan right. What exactly will run, why on this network, what will bite."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import Resize

from distui.cluster.jobs.job_files import JobFile
from distui.errors import DistuiError
from distui.plan.text.compare import compare
from distui.plan.text.render import render_text
from distui.tui.frame import files
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.launch import plan_lines
from distui.tui.launch.draft import LaunchDraft
from distui.tui.launch.form import job_form
from distui.tui.launch.form.form_confirm import LaunchConfirm
from distui.tui.launch.form.form_field import FormField
from distui.tui.launch.form.form_job import JobForm, JobRow
from distui.tui.launch.form.form_yaml import YamlPane
from distui.tui.launch.form.job_form import FIELDS
from distui.tui.launch.plan_view import PlanView
from distui.tui.launch.template_choice import TemplateChoice
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run import change as run_change
from distui.tui.widgets.painted import Painted

Tab = Literal["form", "plan", "yaml"]
LOOK_EVERY = 2.0
"""Seconds between two looks whether another program has written the file."""


class LaunchScreen(View):
    """One job on some hosts. The text of the job file is the truth; the form writes into it."""

    VIEW = "jobs"
    PLACE = "Launch"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("next_tab", "tab", ("right_square_bracket", "f2"), "View", footer=True, help="Form, plan, YAML."),
        Action("last_tab", "tab back", ("left_square_bracket",), "View"),
        Action("preflight", "preflight", ("P",), "View", "preflight", footer=True,
               help="Every check that comes before a start, against this plan and its hosts as they are now."),
        Action("dry_run", "dry run", ("D",), "View", "dryrun", footer=True, help="The whole plan into a file here."),
        *LaunchDraft.ACTIONS,
        Action("copy_command", "copy command", ("c",), "View", "copy", help="The whole command, ready to paste."),
        Action("compare", "diff to last", ("d",), "View", "diff", help="What is different from this job's last run."),
        Action("back", "back", ("escape",), "Global", footer=True),
        Action("launch", "launch", ("L",), "Change", "launch", changes=True, footer=True,
               help="Start the run, after a question that shows its targets."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    LaunchScreen #panes { height: 1fr; }
    LaunchScreen #form { width: 50; height: 1fr; margin-right: 2; }
    LaunchScreen #yaml { width: 60; height: 1fr; margin-right: 2; display: none; }
    LaunchScreen #plan { width: 1fr; height: 1fr; }
    LaunchScreen.-w120 #form { width: 53; }
    LaunchScreen.-w180 #form { width: 64; }
    LaunchScreen.-w180 #yaml { width: 90; }
    LaunchScreen.-yaml #yaml { display: block; }
    LaunchScreen.-yaml #form { display: none; }
    LaunchScreen .space { height: 1; }
    LaunchScreen.-h0 .space, LaunchScreen.-h24 .space { display: none; }
    LaunchScreen #narrow { display: none; height: 1; }
    LaunchScreen.-w0 #narrow, LaunchScreen.-w80 #narrow { display: block; }
    LaunchScreen.-w0 #form, LaunchScreen.-w80 #form, LaunchScreen.-w0 #yaml, LaunchScreen.-w80 #yaml {
        width: 1fr; margin-right: 0;
    }
    LaunchScreen.-w0.-form #plan, LaunchScreen.-w80.-form #plan { display: none; }
    LaunchScreen.-w0.-yaml #plan, LaunchScreen.-w80.-yaml #plan { display: none; }
    LaunchScreen.-w0.-plan #form, LaunchScreen.-w80.-plan #form { display: none; }
    """

    def __init__(self, job: JobFile | None, marked: tuple[str, ...] = (), *, new: bool = False) -> None:
        super().__init__()
        self.draft = LaunchDraft(self, job, marked, self._show)
        self.draft.to_line = self._to_line
        self.parts = (self.draft,)
        self.new = new
        self.tab: Tab = "form"
        self._before_text = ""
        """The text when the YAML tab was opened: for undo, all that is typed there is one change."""
        self._base: str | None = None
        """The text before a field was typed in: each key replaces what the key before it wrote."""

    # What is on it.

    def compose_body(self) -> ComposeResult:
        """See View."""
        with Horizontal(id="panes"):
            yield JobForm(id="form")
            yield YamlPane(id="yaml")
            yield PlanView(id="plan")
        yield Painted(self._narrow, id="narrow")

    def on_mount(self) -> None:
        """Open the job or a new one; where no job was chosen the first, if there is any."""
        try:
            self.draft.list_jobs()
        except DistuiError as error:
            app_of(self).tell_error(error)
        first = self.draft.file or next(iter(self.draft.files), None)
        if self.new or first is None:
            self.work(self._begin_new(), name="new")
        else:
            self.draft.open(first)
        self.set_class(True, f"-{self.tab}")
        self.call_after_refresh(self.form.scroll_home, animate=False)
        self.set_interval(LOOK_EVERY, self._look)

    async def _begin_new(self) -> None:
        """Ask what the job begins with; without an answer there is none."""
        template = await self.app.push_screen_wait(TemplateChoice())
        if template:
            self.draft.open_new(template)
        else:
            self.app.pop_screen()

    def _look(self) -> None:
        """Whether another program has written the file."""
        if self.is_current and not self.closing:
            self.draft.reread(typing=self._base is not None or self.tab == "yaml")

    @property
    def form(self) -> JobForm:
        """The left side."""
        return self.query_one(JobForm)

    @property
    def plan_view(self) -> PlanView:
        """The right side."""
        return self.query_one(PlanView)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        name = Path(self.draft.path).name
        return ("Jobs", f"{name}#{self.draft.document}" if self.draft.document else name)

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """Whether it differs from the file."""
        if not self.draft.saved:
            line.gap(2).put("new, not saved", palette.watch)
        elif self.draft.text != self.draft.read_text:
            line.gap(2).put("edited", palette.muted)

    def offers(self, action: Action) -> bool:
        """See View: what needs a plan is offered when there is one."""
        if action.id == "next_problem":
            return bool(self.draft.preview.problems)
        if action in JobRow.ACTIONS and action.id == "edit":
            return len(self.draft.files) > (self.draft.at is not None)
        if action.id == "undo":
            return self.tab == "yaml" or bool(self.draft.past)
        needs = action.id in ("launch", "preflight", "dry_run", "copy_command", "compare")
        return self.draft.preview.plan is not None or not needs

    def news(self, hosts: frozenset[str]) -> None:
        """See View: the plan may be another one now."""
        self.draft.hosts_answered()

    def on_screen_resume(self) -> None:
        """The file may have been written meanwhile."""
        super().on_screen_resume()
        self._look()

    def headline(self, line: Line, palette: Palette) -> None:
        """The tabs; the plan is one of them where it has no room beside the form."""
        names = {"form": "Form", "plan": "Plan", "yaml": "YAML"}
        for tab in self._tabs():
            style = palette.tab_fill + palette.bold if tab == self.tab else palette.muted
            line.put(f" {names[tab]} ", style, click=f"screen.show_tab('{tab}')").gap(1)

    def _tabs(self) -> tuple[Tab, ...]:
        return ("form", "plan", "yaml") if self.size.width < 100 else ("form", "yaml")

    # Showing it.

    def _show(self) -> None:
        """Everything follows from the text and the preview; a plan may come while the screen goes."""
        if self.closing:
            return
        self.draft.take_in()
        self._show_form()
        yaml = self.query_one(YamlPane)
        yaml.load(self.draft.text)
        yaml.area.known = self._known()
        yaml.show_problems(self.draft.preview.problems)
        self.plan_view.show(self.draft.preview)
        self.query_one("#narrow", Painted).repaint()
        self.refresh_bars()

    def _known(self) -> dict[str, tuple[str, ...]]:
        """Words that may be typed for keys and that no schema knows."""
        hosts = (*(host.name for host in self.backend.hosts), *(f"@{name}" for name in self.backend.groups))
        images = dict.fromkeys(file.job.image for file in self.draft.files if file.job and file.job.image)
        return {"hosts": hosts, "image": tuple(images)}

    def _show_form(self) -> None:
        draft = self.draft
        at = draft.at + 1 if draft.at is not None else "new" if draft.file is None else "-"
        count = f"{at}/{len(draft.files)} {self.glyphs.open}" if draft.files else ""
        name = draft.job.name if draft.job else draft.file.name if draft.file else Path(draft.path).stem
        wrong = {p.key.split(".")[0] for p in draft.preview.problems}
        values = job_form.values(draft.text, draft.job, draft.job_text, draft.document)
        for key, words in self._known().items():
            self.form.field(key).words.known = words
        self.form.show(name, count, draft.job, draft.preview.plan, wrong, values, self._only_in_text())

    def _only_in_text(self) -> dict[str, int]:
        draft = self.draft
        return job_form.only_in_text(draft.text, draft.job, draft.job_text, draft.document)

    def _narrow(self, width: int, height: int) -> list[Line]:
        """Where the plan has no room: what will bite, in one line."""
        palette, shown = self.palette, self.draft.preview
        line = Line().gap(1).add(plan_lines.status(shown, palette))
        first = next((f"{p.key or f'line {p.line}'}: {p.message}" for p in shown.problems), "") or next(
            map(str, shown.reasons), ""
        )
        first = first or next(iter(shown.warnings), "")
        return [line.gap(2).put(first, palette.muted).cut(width - 1)]

    # Keys.

    def on_form_field_changed(self, event: FormField.Changed) -> None:
        """Write the field into the text."""
        event.stop()
        field = next((f for f in FIELDS if f.id == event.field.key), None)
        if field is None:
            return
        base = self.draft.text if self._base is None else self._base
        self._base = None if event.done else base
        made = base if event.undone else job_form.changed(base, field, event.value, self.draft.document)
        if made is None and event.done:
            app_of(self).tell("the form can't change this text; use the YAML tab", level="warning")
        self.draft.set_text(base if made is None else made, now=event.done)
        if event.done:
            self.draft.remember(base)
            self._show_form()  # also where the text stays as it was: what the field says is what the text says
        if event.save:
            self.draft.action_save()

    def on_form_field_in_text(self, event: FormField.InText) -> None:
        """To where the text says what the field can't."""
        event.stop()
        self.action_show_tab("yaml")
        self.query_one(YamlPane).go(self._only_in_text().get(event.field.key, 1))

    def on_yaml_pane_edited(self, event: YamlPane.Edited) -> None:
        """The text itself."""
        self.query_one(YamlPane).taken()
        self.draft.set_text(event.text)
        if event.save:
            self.draft.action_save()

    def on_plan_view_place(self, event: PlanView.Place) -> None:
        """A problem was chosen: show its line."""
        self._to_line(event.line)

    def _to_line(self, line: int) -> None:
        self.action_show_tab("yaml")
        pane = self.query_one(YamlPane)
        pane.load(self.draft.text)
        pane.go(line)

    def on_unmount(self) -> None:
        """What was typed in the YAML tab is one change for undo, also when the job is left from there."""
        if self.tab == "yaml":
            self.draft.remember(self._before_text)

    def on_resize(self, event: Resize) -> None:
        """Where there is room for both, the plan is no tab."""
        self.draft.place = "the tab Plan" if "plan" in self._tabs() else "the right side"
        if self.tab not in self._tabs():
            self.action_show_tab("form")

    def action_show_tab(self, tab: Tab) -> None:
        """A tab by name; a click does this."""
        if tab == "yaml" and self.tab != "yaml":
            self._before_text = self.draft.text
        elif self.tab == "yaml" and tab != "yaml":
            self.draft.remember(self._before_text)
        self.tab = tab
        for name in ("form", "plan", "yaml"):
            self.set_class(name == tab, f"-{name}")
        if tab == "yaml":
            self.query_one(YamlPane).area.focus()
        elif tab == "plan":
            self.plan_view.focus()
        else:
            self.form.field("hosts").focus()
        self.refresh_bars()

    def action_next_tab(self) -> None:
        """The next tab."""
        self._turn(1)

    def action_last_tab(self) -> None:
        """The tab before."""
        self._turn(-1)

    def _turn(self, step: int) -> None:
        tabs = self._tabs()
        self.action_show_tab(tabs[(tabs.index(self.tab) + step) % len(tabs)])

    def action_leave_text(self) -> None:
        """Out of the YAML tab."""
        self.action_show_tab("form")

    def on_job_row_turn(self, event: JobRow.Turn) -> None:
        """Another job file; edits of this one are kept."""
        self._other(event.step)

    def _other(self, step: int) -> None:
        draft = self.draft
        draft.list_jobs()
        if draft.files:
            at = draft.at if draft.at is not None else -step
            draft.open(draft.files[(at + step) % len(draft.files)])

    def action_preflight(self) -> None:
        """The checks that come before a start, of this plan."""
        self.work(self._preflight(), name="preflight")

    async def _preflight(self) -> None:
        tab, typed = self.tab, self.typed
        if await self.draft.preflight():
            self._show_end(stays=self.is_active and self.tab == tab and self.typed in (None, typed))

    def _show_end(self, *, stays: bool) -> None:
        """The end of the plan, where the preflight stands, to who `stays` where it was asked for."""
        if "plan" in self._tabs() and self.tab != "plan":
            if not stays or self.form.typing:  # seconds later one may be typing
                app_of(self).tell("the preflight is done: it stands at the end of the plan")
                return
            self.action_show_tab("plan")
        self.plan_view.show_end()

    def action_copy_command(self) -> None:
        """The command under the plan's cursor, else the first."""
        self.plan_view.copy_command()

    def action_dry_run(self) -> None:
        """The whole plan into a file; nothing is contacted."""
        self.work(self._dry_run(), name="dry run")

    async def _dry_run(self) -> None:
        plan = await self.draft.ready()
        if plan is None:
            return
        path = Path.cwd() / f"{plan.run_id}.plan.txt"
        files.write(path, render_text(plan, full=True))
        app_of(self).tell(f"the plan is in {path}")

    def action_compare(self) -> None:
        """What is different from the job's last recorded run."""
        self.work(self._compare(), name="diff")

    async def _compare(self) -> None:
        plan = await self.draft.ready()
        row = next((r for r in app_of(self).rows if plan and r.job == plan.job and r.recorded), None)
        if plan is None:
            return
        if row is None:
            app_of(self).tell(f"no run of {plan.job} is recorded here")
            return
        before = await asyncio.to_thread(self.backend.replay, row.run)
        found = await asyncio.to_thread(compare, before.plan, plan)
        if self.is_active:
            app_of(self).open_text(f"{row.run} to {plan.run_id}", found or "both would run the same")
        else:  # plans of hundreds of ranks take a while, and one may be elsewhere by then
            app_of(self).tell(f"{row.run} and {plan.run_id} are compared; d in the launch form shows it")

    def action_launch(self) -> None:
        """Start the run, after a question."""
        self.work(self._launch(), name="launch")

    async def _launch(self) -> None:
        typed = self.typed  # from the palette
        plan = await self.draft.ready()
        job = self.draft.job
        if job is None or plan is None:
            return
        text = self.draft.job_text if self.draft.document is None else ""  # other jobs of the file are not this run's
        users = await run_change.gpu_users(self, plan)
        if not self.may_ask(f"{plan.run_id} is not started: L asks again", typed):
            return
        answer = await self.app.push_screen_wait(LaunchConfirm(job, plan, self.draft.preview, users))
        if not answer:
            return
        live = await self.backend.launch(job, plan, force=answer == "share", text=text)
        self.draft.launched()
        app_of(self).open_run(live)

    async def action_back(self) -> None:
        """Out of the YAML tab, then back."""
        if self.tab == "yaml":
            self.action_show_tab("form")
        else:
            await self.app.run_action("back", default_namespace=self.app)
