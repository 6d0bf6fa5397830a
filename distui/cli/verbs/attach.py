"""`distui attach`: follow a run that was started elsewhere, or detached."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb
from distui.cli.plan_options import FOLLOW_OPTIONS, SECRET_OPTIONS, with_options


@verb("attach", "attach", outputs=("json", "ndjson"))
@click.argument("run", type=RUN)
@click.option("--headless", is_flag=True, help="Without the terminal UI: logs on stdout.")
@click.option("--view", is_flag=True, help="Only watch: nothing is stopped, recorded or removed from here.")
@with_options(FOLLOW_OPTIONS, SECRET_OPTIONS)
@click.option("--exit-first", is_flag=True, help="Exit with the first failed rank's exit code instead of 1.")
def command() -> None:
    """Follow a run on its hosts: one that was detached, started elsewhere, or whose distui is gone.

    Logs continue where this machine left off, no line twice. When the run ends, its logs are read to their end, it is
    reported and cleaned up, and attach exits as it did. Ctrl-C detaches; the run goes on. A run with retries goes on
    with its next attempt as long as the distui that started it is there to begin one.

    With --view the run stays with whoever follows it, on whatever machine: its logs and its result are shown here, and
    no more. The view goes on when they leave, and with the next attempt of a run that has retries.
    """
