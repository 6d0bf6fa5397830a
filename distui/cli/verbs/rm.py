"""`distui rm`: remove what an ended run left, on its hosts and here."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb


@verb("rm", "rm")
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option("--purge", is_flag=True, help="Also delete the run's folder here, with its logs.")
def command() -> None:
    """Remove ended containers, processes' folders and env files of runs from their hosts.

    Logs that were never read here go with them: that is asked first, and refused without a terminal or -y; `distui
    attach` reads them. A run that still runs is refused, or that somebody still reads, on whatever machine, or of which
    a host does not answer (-H names the hosts to remove it from all the same).
    """
