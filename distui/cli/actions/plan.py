"""`distui plan`: what a run would start."""

from __future__ import annotations

from typing import Any

from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.jobs.request import read_request
from distui.cli.runs.launching import prepare
from distui.cli.runs.planview import show_diff, show_plan, show_problems, tell_images
from distui.cli.settings import Settings
from distui.cluster.attach.places import recorded_plan
from distui.cluster.jobs.secrets import without_value
from distui.cluster.start.request import RunRequest
from distui.errors import PlanError


def act(settings: Settings, out: Console, job: str | None, full: bool, words: tuple[str, ...], **flags: Any) -> int:
    """See `plan --help`."""
    request = read_request(settings, job, words, flags, starts=False)
    return wiring.run_async(dry_run(settings, out, request, full=full, before=flags["diff"]), limit=settings.timeout)


async def dry_run(
    settings: Settings, out: consoles.Console, request: RunRequest, *, full: bool, before: str | None
) -> int:
    """Ask, plan, print: the plan, or what is different from the recorded run `before`."""
    old = recorded_plan(settings.cluster, before) if before is not None else None
    async with wiring.connected(settings, request.hosts) as connector:
        try:
            planned = await prepare(connector, settings, out, request)
        except PlanError as error:
            show_problems(out, settings, error)
            raise
        await tell_images(connector, out, request.hosts, planned.plan)
    if (missing := without_value(request.job, request.secrets)) is not None:
        out.tell(f"{missing.message}: `distui run` is refused without; {missing.hint}", "warning")
    if old is not None:
        show_diff(out, settings, old, planned.plan)
    else:
        show_plan(out, settings, planned.plan, full=full)
    return 0
