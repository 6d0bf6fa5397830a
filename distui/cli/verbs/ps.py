"""`distui ps`: runs, as the hosts remember them."""

from __future__ import annotations

import click

from distui.cli.options import Choice, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options
from distui.runs.report import states


@verb("ps", "ps", outputs=("json", "ndjson", "name"))
@click.option("-a", "--all", "all_", is_flag=True, help="Also show ended runs, as recorded on this machine.")
@click.option("--state", type=Choice(states.STATES), metavar="STATE", help="Only runs in this state, ended or not.")
@click.option("-n", "--last", type=click.IntRange(1), metavar="N", help="Show at most N runs.")
@with_options(SECRET_OPTIONS)
def command() -> None:
    """List runs that are on the hosts, whoever started them, and with -a what is recorded here.

    Runs are found by the labels of their containers, so any machine with ssh sees the same ones. A host that does not
    answer is named on stderr. -q prints names only.
    """
