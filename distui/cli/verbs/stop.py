"""`distui stop` and `distui kill`: end a run from any machine."""

from __future__ import annotations

import click

from distui.cli.options import DURATION, RANKS, RUN, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options

_SOME = click.option(
    "--rank",
    "ranks",
    type=RANKS,
    metavar="SET",
    help="Only these ranks; the job's on_fail says what the others do.",
)


@verb("stop", "stop", outputs=("json", "ndjson"))
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option("--grace", type=DURATION, metavar="DUR", help="Time between SIGTERM and SIGKILL [the job's stop_grace].")
@_SOME
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Stop runs on all their hosts: SIGTERM, after a grace period SIGKILL; read the logs to their end, clean up.

    Works from any machine that reaches the hosts. Repeating it is safe.
    """


@verb("kill", "stop.kill", outputs=("json", "ndjson"))
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@_SOME
@with_options(SECRET_OPTIONS)
def kill() -> None:
    """Kill runs on all their hosts at once with SIGKILL, then clean up as stop does."""
