"""`distui plan`: what a run would start."""

from __future__ import annotations

import click

from distui.cli.options import JOB, verb
from distui.cli.plan_options import DIFF_OPTIONS, PLAN_OPTIONS, with_options


@verb("plan", "plan", words=True, outputs=("json", "ndjson"))
@click.argument("job", type=JOB, required=False)
@click.option("--full", is_flag=True, help="Also print every variable and label of every task.")
@with_options(PLAN_OPTIONS, DIFF_OPTIONS)
def command() -> None:
    """Print the plan of a run: ranks, hosts, networks with reasons, ports, env (secrets masked), exact commands.

    Asks the hosts what they have, starts nothing. The printed `docker run` lines work when pasted. Exit 3 if there
    is no plan, with every reason; exit 4 if a host can't be reached.
    """
