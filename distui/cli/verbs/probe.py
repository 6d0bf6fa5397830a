"""`distui probe`: what the hosts have, a row as each one answers."""

from __future__ import annotations

import click

from distui.cli.options import DURATION, EVERY, HOSTS, Choice, verb


@verb("probe", "probe", outputs=("wide", "json", "ndjson", "name"))
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
@click.option("--watch", type=EVERY, metavar="DUR", is_flag=False, flag_value="2s", help="Probe again every DUR [2s].")
@click.option("--save", is_flag=True, help="Save the facts in distui's cache folder.")
@click.option("--parallel", type=click.IntRange(1, 9999), metavar="N", help="Hosts contacted at once [64].")
@click.option("--connect-timeout", type=DURATION, metavar="DUR", help="Limit for connecting [10s].")
@click.option("--fail-on", type=Choice(["any", "all"]), default="any", help="When to exit 3 [any].")
def command() -> None:
    """Ask hosts for their GPUs, networks, InfiniBand, container engine, clock and disk.

    SET names hosts: node01, node[01-04], @group; all hosts of the inventory by default. One connection and one
    script per host, all hosts in parallel. A host that fails keeps its row, with the reason. Exit 3 if a host failed
    (--fail-on all: if all did).
    """
