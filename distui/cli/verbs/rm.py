"""`distui rm`: remove what an ended run left, on its hosts and here."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb


@verb("rm", "rm")
@click.argument("names", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option("--purge", is_flag=True, help="Also delete the run's folder here, with its logs.")
def command() -> None:
    """Remove ended containers, processes' folders and env files of runs from their hosts.

    Logs that were not read to their end here are lost with them: distui asks first, and refuses without a terminal or
    -y; `distui attach` reads them. A run is not removed while it runs, while somebody still reads it (on any machine),
    or while one of its hosts does not answer (-H names the hosts to remove it from anyway).
    """
