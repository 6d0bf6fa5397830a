"""The question before a launch: exact targets, Cancel has the focus, a large run wants its name typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.widgets import Button, Input

from distui.amounts import counted
from distui.doctor.images import how_it_comes
from distui.plan.content.code import code_words
from distui.plan.labels import format_ranks
from distui.plan.model import RunPlan
from distui.plan.visible import visible
from distui.runs.launch.gpu_users import GpuUser
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job
from distui.tui.dialogs.confirm import BOX, Dialog, launch_buttons, users_lines
from distui.tui.launch.plan_lines import Preview, folded_warnings

PULLED = {"missing": "pulled if missing", "always": "pulled on every host", "never": "never pulled"}
"""`pull:` of a job as what is done: its bare words read as if the image were missing."""
MANY_HOSTS = 8
"""Above this many hosts the run's name must be typed."""


def targets(job: Job, plan: RunPlan, shown: Preview, users: Sequence[GpuUser]) -> tuple[str, ...]:
    """What a launch touches: who has its GPUs now, hosts, GPUs, image and where it is pulled, command, remarks."""
    by_gpus: dict[str, list[str]] = {}
    for host in plan.hosts:
        by_gpus.setdefault(format_ranks(plan.gpus_on(host)), []).append(host)
    command = job.command if isinstance(job.command, str) else shlex.join(job.command)
    remarks = [words for words in shown.warnings if words not in shown.used]
    lines = [
        *users_lines(users),
        f"hosts    {fold(plan.hosts)} ({len(plan.hosts)})",
        *(f"GPUs     {found or 'none'} on {fold(hosts)}" for found, hosts in by_gpus.items()),
        f"ranks    {plan.world_size} in {counted(len(plan.tasks), 'task')}, "
        f"launcher {plan.launcher}, backend {plan.backend}",
        f"image    {plan.image or 'none: processes on the hosts'}" + (f" ({_how(plan)})" if plan.image else ""),
        *(f"         {words}" for words in _pulls(plan, shown)),
        *([f"code     {code_words(plan.code)}"] if plan.code is not None else []),
        f"command  {command[:400]}",
        *(f"! {words}" for words in _preflight(plan, shown)),
        *(f"! {words}" + (f", {more}" if more else "") for words, more in folded_warnings(remarks)),
    ]
    return tuple(visible(line) for line in lines)


def _how(plan: RunPlan) -> str:
    return PULLED[plan.pull] if plan.build is None else f"built from {plan.build.context}"


def _pulls(plan: RunPlan, shown: Preview) -> Iterator[str]:
    missing = shown.image.missing if shown.image is not None else ()
    if missing and shown.image is not None and (plan.pull == "missing" or plan.build is not None):
        yield f"missing on {fold(missing)}: {how_it_comes(plan, shown.image.present)}"


def _preflight(plan: RunPlan, shown: Preview) -> Iterator[str]:
    checked = shown.checked
    if checked is not None and checked.plan == plan.hash and checked.failed:
        yield f"the preflight at {checked.at} failed {counted(checked.failed, 'check')}"


class LaunchConfirm(Dialog):
    """Dismisses with `yes`, with `share` where others have its GPUs, or ""."""

    DEFAULT_CSS = BOX.format(kind="LaunchConfirm") + (
        "LaunchConfirm Input { height: 1; border: none; background: $surface; margin: 0 0 1 0; }"
        "LaunchConfirm Input:focus { border: none; }"
    )

    def __init__(self, job: Job, plan: RunPlan, shown: Preview, users: Sequence[GpuUser]) -> None:
        lines, asked = targets(job, plan, shown, users), f"Launch {plan.run_id}"
        asked += " on GPUs that are in use?" if users else "?"
        super().__init__(asked, lines, launch_buttons("Launch", users))
        self.wanted = plan.run_id if len(plan.hosts) > MANY_HOSTS else ""

    def compose_more(self) -> ComposeResult:
        """The name's field."""
        if self.wanted:
            yield Input(placeholder=f"type {self.wanted} to launch on so many hosts", compact=True)

    def on_mount(self) -> None:
        """Launch waits for the name."""
        if self.wanted:
            self._go.disabled = True

    @property
    def _go(self) -> Button:
        """The button that launches."""
        return self.query(Button).last()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The name makes Launch possible."""
        event.stop()
        self._go.disabled = event.value.strip() != self.wanted

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on to the button, it never launches by itself."""
        event.stop()
        (self._go if event.value.strip() == self.wanted else self.query_one("#cancel", Button)).focus()
