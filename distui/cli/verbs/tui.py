"""`distui tui`: the terminal UI."""

from __future__ import annotations

import click

from distui.cli import console as consoles
from distui.cli import opening
from distui.cli.options import RUN, Choice, verb
from distui.cli.settings import settings_of
from distui.errors import UsageError


@verb("tui")
@click.argument("run", type=RUN, required=False)
@click.option("--view", type=Choice(["hosts", "jobs", "runs", "doctor"]), default="hosts", help="What to open [hosts].")
@click.pass_context
def command(ctx: click.Context, run: str | None, view: opening.View) -> int:
    """Open the terminal UI: hosts, jobs, runs, doctor; with RUN on that run.

    Everything is in its help (`?`). Quitting leaves runs alone unless you ask to stop them. With --readonly it only
    looks.
    """
    settings = settings_of(ctx)
    if not opening.on_terminal():
        raise UsageError("the terminal UI needs a terminal", hint="off one use probe, run --headless, ps, logs ...")
    return opening.open_views(settings, consoles.of(settings), view, run or "")
