"""`distui hosts clean`: what distui keeps on hosts beyond its runs, removed."""

from __future__ import annotations

import click

from distui.cli.options import verb


@verb("clean", "hosts_clean.clean", outputs=("json",))
@click.argument("sets", metavar="[SET]...", nargs=-1)
def clean() -> None:
    """Remove code that no run uses any more from the hosts.

    The next run sends all of its code again. Exit 4 if it failed on a host.
    """
