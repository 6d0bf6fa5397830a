"""`distui top`: the figures of the Hosts screen for scripts, and as a live table."""

from __future__ import annotations

import click

from distui.cli.options import EVERY, HOSTS, verb


@verb("top", "top", outputs=("json", "ndjson", "csv"))
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
@click.option("--once", is_flag=True, help="Print one snapshot and exit; exit 3 if a host does not answer.")
@click.option("--interval", type=EVERY, metavar="DUR", default="1s", help="Refresh interval [1s].")
@click.option("--procs", is_flag=True, help="Also show the processes on the GPUs; with csv, only those.")
def command() -> None:
    """Show what GPUs and networks do, a row per GPU: load, memory, power, temperature, clock, PCIe, ECC, XID, owner.

    SET names hosts: node01, node[01-04], @group; all hosts of the inventory by default. On a terminal the table is
    redrawn every second until Ctrl-C; otherwise, and with -o ndjson or csv, snapshots are printed one after another.
    Nothing is installed on the hosts: one connection each, and figures from nvidia-smi and the kernel.
    """
