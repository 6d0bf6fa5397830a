"""`distui tui`: the terminal UI."""

from __future__ import annotations

import click

from distui.cli.options import RUN, Choice, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options


@verb("tui", "tui")
@click.argument("run", type=RUN, required=False)
@click.option("--view", type=Choice(["hosts", "jobs", "runs", "doctor"]), default="hosts", help="View to open [hosts].")
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Open the terminal UI: hosts, jobs, runs, doctor. With RUN, open that run.

    Press `?` in it for help. Quitting leaves runs running unless you ask to stop them. With --readonly nothing can be
    started, stopped or changed.
    """
