"""`distui metrics`: what a run measured over time."""

from __future__ import annotations

import click

from distui.cli.options import DURATION, RUN, verb


@verb("metrics", "metrics", outputs=("json", "csv"))
@click.argument("run", type=RUN)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--every", type=DURATION, metavar="DUR", help="One row for each DUR, where it is kept so fine.")
@click.option("--last", type=DURATION, metavar="DUR", help="Only the last DUR.")
@click.option(
    "--ranks", is_flag=True, help="A line for each rank and host; of loss and speed, too, where ranks say it."
)
def command() -> None:
    """Show what a run measured: step time, loss, throughput, GPUs, network, lateness.

    Of all series or of those named, as a table of their newest, mean, lowest and highest values; every row with
    -o json or csv. Loss, step time and throughput are what the leading rank said; with --ranks they are those of each
    rank that says any. It is what was recorded on this machine; no host is asked.
    """
