"""The question before a launch: exact targets, Cancel has the focus, a large run wants its name typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Input, Static

from distui.doctor.images import how_it_comes
from distui.plan.code import code_words
from distui.plan.labels import format_ranks
from distui.plan.model import RunPlan
from distui.plan.render import visible
from distui.spec.job import Job
from distui.spec.names import fold
from tui.base import look_of
from tui.plan_lines import Preview, folded_warnings
from tui.screens.confirm import BOX, Dialog, told

MANY_HOSTS = 8
"""Above this many hosts the run's name must be typed."""


def targets(job: Job, plan: RunPlan, shown: Preview) -> tuple[str, ...]:
    """What a launch touches: hosts, GPUs, image and where it is pulled, command, what else was remarked."""
    gpus = {host: format_ranks(dict.fromkeys(g for t in plan.tasks_on(host) for g in t.gpus)) for host in plan.hosts}
    by_gpus: dict[str, list[str]] = {}
    for host, found in gpus.items():
        by_gpus.setdefault(found, []).append(host)
    command = job.command if isinstance(job.command, str) else shlex.join(job.command)
    lines = [
        f"hosts    {fold(plan.hosts)} ({len(plan.hosts)})",
        *(f"GPUs     {found or 'none'} on {fold(hosts)}" for found, hosts in by_gpus.items()),
        f"ranks    {plan.world_size} in {len(plan.tasks)} tasks, launcher {plan.launcher}, backend {plan.backend}",
        f"image    {plan.image or 'none: processes on the hosts'}" + (f" ({_how(plan)})" if plan.image else ""),
        *(f"         {words}" for words in _pulls(plan, shown)),
        *([f"code     {code_words(plan.code)}"] if plan.code is not None else []),
        f"command  {command[:400]}",
        *(f"! {words}" for words in _preflight(plan, shown)),
        *(f"! {words}" + (f", {more}" if more else "") for words, more in folded_warnings(shown.warnings)),
    ]
    return tuple(visible(line) for line in lines)


def _how(plan: RunPlan) -> str:
    return f"pull: {plan.pull}" if plan.build is None else f"built from {plan.build.context}"


def _pulls(plan: RunPlan, shown: Preview) -> Iterator[str]:
    missing = shown.image.missing if shown.image is not None else ()
    if missing and shown.image is not None and (plan.pull == "missing" or plan.build is not None):
        yield f"missing on {fold(missing)}: {how_it_comes(plan, shown.image.present)}"


def _preflight(plan: RunPlan, shown: Preview) -> Iterator[str]:
    checked = shown.checked
    if checked is not None and checked.plan == plan.hash and checked.failed:
        yield f"the preflight at {checked.at} failed {checked.failed} checks"


class LaunchConfirm(Dialog):
    """Dismisses with `yes`, `cancel` or ""."""

    DEFAULT_CSS = BOX.format(kind="LaunchConfirm") + (
        "LaunchConfirm Input { height: 1; border: none; background: $surface; margin: 0 0 1 0; }"
        "LaunchConfirm Input:focus { border: none; }"
    )

    def __init__(self, job: Job, plan: RunPlan, shown: Preview) -> None:
        lines = targets(job, plan, shown)
        super().__init__(f"Launch {plan.run_id}?", lines, (("cancel", "Cancel"), ("yes", "Launch")))
        self.wanted = plan.run_id if len(plan.hosts) > MANY_HOSTS else ""

    def compose(self) -> ComposeResult:
        """See Dialog; the name's field comes before the buttons."""
        with Vertical():
            yield Static(self.asked, classes="title", markup=False)
            with VerticalScroll(classes="lines", can_focus=False):
                yield Static(told(self.lines, look_of(self)))
            if self.wanted:
                yield Input(placeholder=f"type {self.wanted} to launch on so many hosts", compact=True)
            with Horizontal():
                for name, label in self.buttons:
                    yield Button(label, id=name, compact=True)

    def on_mount(self) -> None:
        """Launch waits for the name."""
        if self.wanted:
            self.query_one("#yes", Button).disabled = True

    def on_input_changed(self, event: Input.Changed) -> None:
        """The name makes Launch possible."""
        event.stop()
        self.query_one("#yes", Button).disabled = event.value.strip() != self.wanted

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on to the button, it never launches by itself."""
        event.stop()
        self.query_one("#yes" if event.value.strip() == self.wanted else "#cancel", Button).focus()
