"""`distui image`: which hosts have an image, and copying it to those that lack it."""

from __future__ import annotations

import click

from distui.cli.app import Verbs
from distui.cli.options import HOSTS, JOB, add_globals, verb


@click.group("image", cls=Verbs)
def _group() -> None:
    """Show which hosts have an image, and copy it to the others without a registry."""


command = add_globals(_group)


@verb("ls", "image.ls", outputs=("json", "ndjson"))
@click.argument("what", metavar="JOB|IMAGE", type=JOB)
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
def ls() -> None:
    """Show which hosts have an image, and whether it is the same.

    Exit 3 if a host lacks it, or hosts have different ones.
    """


@verb("push", "image.push", outputs=("json", "ndjson"))
@click.argument("what", metavar="JOB|IMAGE", type=JOB)
@click.option("--from", "source", metavar="HOST|local", type=HOSTS, help="Where to copy it from [a host that has it].")
@click.option("--to", "sets", metavar="SET", type=HOSTS, multiple=True, help="Hosts to copy it to. Repeatable.")
def push() -> None:
    """Copy an image to hosts without a registry.

    It comes from one of the hosts or from this machine's own engine (`local`), and goes through this machine: it is
    read once, and sent to all other hosts at the same time. Hosts that have it are skipped, and where the engine
    allows it only missing layers are sent. Asks before it takes a name from another image. Exit 1 if a host did not
    get it.
    """


for _sub in (ls, push):
    _group.add_command(_sub)
