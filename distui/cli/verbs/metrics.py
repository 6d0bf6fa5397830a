"""`distui metrics`: what a run measured over time."""

from __future__ import annotations

import click

from distui.cli.options import DURATION, RUN, verb


@verb("metrics", "metrics", outputs=("json", "csv"))
@click.argument("run", type=RUN)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--every", type=DURATION, metavar="DUR", help="One row per DUR, where values are kept that finely.")
@click.option("--last", type=DURATION, metavar="DUR", help="Only the last DUR.")
@click.option(
    "--ranks", is_flag=True, help="One row per rank and host, also for loss and speed where ranks report them."
)
def command() -> None:
    """Show what a run measured: step time, loss, throughput, GPUs, network, lateness.

    Shows all series, or those named, in a table of newest, mean, lowest and highest values; with -o json or csv, every
    row. Loss, step time and throughput are those of the leading rank; with --ranks, those of each rank that reports
    any. Shows what was recorded on this machine; no host is asked.
    """
