"""`distui wait`: until a run has ended."""

from __future__ import annotations

import click

from distui.cli.options import RUN, Choice, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options


@verb("wait", "wait", outputs=("json", "ndjson"))
@click.argument("run", type=RUN)
@click.option(
    "--for", "goal", type=Choice(["finished", "running"]), default="finished", help="What to wait for [finished]."
)
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Wait until a run has ended, and exit as it did; --for running: until all its ranks run.

    Your own run that nobody follows is attached to: its logs are read into this machine's folder, a failed rank stops
    the others, and it is cleaned up. Other runs are only watched, and all of them with --readonly. --timeout ends the
    wait with 124.
    """
