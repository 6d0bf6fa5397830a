"""`distui top`: the figures of the Hosts screen for scripts, and as a live table."""

from __future__ import annotations

import click

from distui.cli.options import EVERY, HOSTS, verb


@verb("top", "top", outputs=("json", "ndjson", "csv"))
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
@click.option("--once", is_flag=True, help="Print one snapshot and exit; 3 when a host does not answer.")
@click.option("--interval", type=EVERY, metavar="DUR", default="1s", help="Refresh interval [1s].")
@click.option("--procs", is_flag=True, help="Show the processes on the GPUs, too; with csv only they.")
def command() -> None:
    """Show what GPUs and networks do, a row per GPU: load, memory, power, temperature, clock, PCIe, ECC, XID, owner.

    SET names hosts: node01, node[01-04], @group; all hosts of the inventory when left out. On a terminal the table is
    drawn again every second until Ctrl-C; off it, and with -o ndjson or csv, each snapshot follows the one before.
    Nothing is installed on the hosts: one connection each, and figures from nvidia-smi and the kernel.
    """
