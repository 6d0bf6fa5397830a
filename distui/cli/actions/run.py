"""`distui run`: plan, confirm, launch, follow."""

from __future__ import annotations

import signal
from typing import Any

from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.actions.plan import dry_run
from distui.cli.console import Console
from distui.cli.jobs.request import read_request
from distui.cli.printing.printer import LogView
from distui.cli.printing.results import Promise
from distui.cli.runs import opening
from distui.cli.runs.launching import How, run
from distui.cli.settings import Settings
from distui.cli.signals import signals_end
from distui.cluster.start.request import RunRequest
from distui.errors import UsageError


def act(settings: Settings, out: Console, job: str | None, words: tuple[str, ...], **flags: Any) -> int:
    """See `run --help`."""
    if flags["diff"] is not None and not flags["dry_run"]:
        raise UsageError("--diff shows a plan and starts nothing", hint="add --dry-run, or call `distui plan`")
    if flags["dry_run"]:
        request = read_request(settings, job, words, flags, starts=False)
        return wiring.run_async(
            dry_run(settings, out, request, full=False, before=flags["diff"]), limit=settings.timeout
        )
    how = How(
        view=LogView.of(flags),
        detach=flags["detach"],
        keep=flags["keep"],
        preflight=not flags["no_preflight"],
        force=flags["force"],
        exit_first=flags["exit_first"],
    )
    promise = Promise(settings.output, out, flags["name"] or "", starts=True)

    def work() -> int:
        settings.refuse_readonly("run")
        request = read_request(settings, job, words, flags)
        promise.run = request.run_id
        if opening.wanted(settings, headless=flags["headless"] or flags["detach"]):
            return wiring.run_async(opening.launch(settings, out, request, how))
        return wiring.run_async(_run(settings, out, request, how))

    with signals_end(signal.SIGTERM, signal.SIGHUP):  # until the run's own handlers take them: its record has an end
        return promise.keep(work)


async def _run(settings: Settings, out: consoles.Console, request: RunRequest, how: How) -> int:
    async with wiring.connected(settings, request.hosts) as connector:
        return await run(connector, settings, out, request, how)
