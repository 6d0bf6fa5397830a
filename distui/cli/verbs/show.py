"""`distui show`: everything that is known of one run."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options


@verb("show", "show", outputs=("json",))
@click.argument("run", type=RUN)
@click.option("--plan", "plan_too", is_flag=True, help="Also print the plan it was started from.")
@click.option(
    "--report",
    "as_report",
    is_flag=True,
    help="Print a report to share: failure, what followed, every rank.",
)
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Show one run: its state, ranks, exit codes, first failure, and where its logs are."""
