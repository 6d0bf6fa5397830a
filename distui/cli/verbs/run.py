"""`distui run`: plan, confirm, launch, follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distui.cli import console as consoles
from distui.cli import opening, wiring
from distui.cli.options import JOB, verb
from distui.cli.order import DIFF_OPTIONS, FOLLOW_OPTIONS, PLAN_OPTIONS, read_order, with_options
from distui.cli.results import Promise
from distui.cli.settings import settings_of
from distui.cli.verbs.plan import dry_run
from distui.cluster.request import RunRequest
from distui.errors import UsageError

if TYPE_CHECKING:
    from distui.cli.launching import How
    from distui.cli.settings import Settings


@verb("run", words=True, outputs=("json", "ndjson"))
@click.argument("job", type=JOB, required=False)
@click.option("--headless", is_flag=True, help="Without the terminal UI: logs on stdout.")
@click.option("--dry-run", is_flag=True, help="Print the plan and end.")
@click.option("-d", "--detach", is_flag=True, help="Start, print the run's name and end; the run goes on.")
@with_options(DIFF_OPTIONS, PLAN_OPTIONS, FOLLOW_OPTIONS)
@click.option("--no-preflight", is_flag=True, help="Skip the check that hosts reach each other.")
@click.option("--force", is_flag=True, help="Start though another run uses the same GPUs.")
@click.option("--exit-first", is_flag=True, help="Exit as the first failed rank did, instead of 1.")
@click.option("--keep", is_flag=True, help="Leave the ended containers on the hosts, until `distui stop`.")
@click.pass_context
def command(ctx: click.Context, /, job: str | None, **flags: Any) -> int:
    """Run a job: ask the hosts, plan, start one container per rank, follow the logs, report, clean up.

    \b
      distui run job.yaml --headless -y
      distui run job.yaml -H 'node[01-04]' -- --epochs 3     more arguments
      distui run --headless -H 'node[01-02]' --image IMG -- python train.py

    On a terminal the run's view opens; quitting it leaves the run alone unless you ask to stop it. Otherwise, and
    with --headless, stdout holds what the ranks print (`013 node02 | text`), or events with -o ndjson; distui's own
    words go to stderr. Ctrl-C stops the run on all hosts, a second one kills it. A closed stdout (`| head`) does not
    end the run: it is followed quietly, and its logs are in its folder.
    """
    from distui.cli.launching import How
    from distui.cli.printer import LogView

    settings = settings_of(ctx)
    out = consoles.of(settings)
    if flags["diff"] is not None and not flags["dry_run"]:
        raise UsageError("--diff shows a plan and starts nothing", hint="add --dry-run, or call `distui plan`")
    if flags["dry_run"]:
        order = read_order(ctx, settings, job, flags)
        return wiring.run_async(dry_run(settings, out, order, full=False, before=flags["diff"]), limit=settings.timeout)
    view = LogView(
        stdout=flags["log_to"] == "stdout",
        ranks=flags["ranks"],
        prefix=not flags["no_prefix"],
        timestamps=flags["timestamps"],
    )
    how = How(
        view=view,
        detach=flags["detach"],
        keep=flags["keep"],
        preflight=not flags["no_preflight"],
        force=flags["force"],
        exit_first=flags["exit_first"],
    )
    promise = Promise(settings, out, flags["name"] or "", starts=True)

    def work() -> int:
        settings.refuse_readonly("run")
        order = read_order(ctx, settings, job, flags)
        promise.run = order.run_id
        if opening.wanted(settings, headless=flags["headless"] or flags["detach"]):
            return wiring.run_async(opening.launch(settings, out, order, how))
        return wiring.run_async(_run(settings, out, order, how))

    return promise.keep(work)


async def _run(settings: Settings, out: consoles.Console, order: RunRequest, how: How) -> int:
    from distui.cli.launching import run

    async with wiring.connected(settings, order.hosts) as connector:
        return await run(connector, settings, out, order, how)
