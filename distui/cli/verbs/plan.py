"""`distui plan`: what a run would start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.options import JOB, verb
from distui.cli.order import DIFF_OPTIONS, PLAN_OPTIONS, read_order, with_options
from distui.cli.settings import settings_of
from distui.cluster.request import RunRequest

if TYPE_CHECKING:
    from distui.cli.settings import Settings


@verb("plan", words=True, outputs=("json", "ndjson"))
@click.argument("job", type=JOB, required=False)
@click.option("--full", is_flag=True, help="With every variable and label of every task.")
@with_options(PLAN_OPTIONS, DIFF_OPTIONS)
@click.pass_context
def command(ctx: click.Context, /, job: str | None, full: bool, **flags: Any) -> int:
    """Print the plan of a run: ranks, hosts, networks with reasons, ports, env (secrets masked), exact commands.

    Asks the hosts what they have, starts nothing. The printed `docker run` lines work when pasted. Exit 3 when there
    is no plan, with every reason; exit 4 when a host can't be reached.
    """
    settings = settings_of(ctx)
    out = consoles.of(settings)
    order = read_order(ctx, settings, job, flags)
    return wiring.run_async(dry_run(settings, out, order, full=full, before=flags["diff"]), limit=settings.timeout)


async def dry_run(
    settings: Settings, out: consoles.Console, order: RunRequest, *, full: bool, before: str | None
) -> int:
    """Ask, plan, print: the plan, or what is different from the recorded run `before`."""
    from distui.cli.launching import prepare
    from distui.cli.planview import show_diff, show_plan, tell_images
    from distui.cluster.attach.places import recorded_plan

    old = recorded_plan(settings.cluster, before) if before is not None else None
    async with wiring.connected(settings, order.hosts) as connector:
        planned = await prepare(connector, settings, out, order)
        await tell_images(connector, out, order.hosts, planned.plan)
    if old is not None:
        show_diff(out, settings, old, planned.plan)
    else:
        show_plan(out, settings, planned.plan, full=full)
    return 0
