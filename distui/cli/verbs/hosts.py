"""`distui hosts`: the inventory as distui reads it."""

from __future__ import annotations

import click

from distui.cli.app import Verbs
from distui.cli.options import add_globals, verb
from distui.cli.verbs.hosts_change import add, export, import_, remove
from distui.cli.verbs.hosts_clean import clean


@click.group("hosts", cls=Verbs)
def _group() -> None:
    """List, show, check and change the hosts of the inventory. Only `clean` contacts them, as `distui probe` does."""


command = add_globals(_group)


@verb("ls", "hosts.ls", outputs=("json", "name"))
@click.argument("sets", metavar="[SET]...", nargs=-1)
def ls() -> None:
    """List hosts with address, engine, GPUs, labels and groups."""


@verb("show", "hosts.show", outputs=("json",))
@click.argument("name", metavar="HOST")
def show() -> None:
    """Show what hosts.yaml and ~/.ssh/config say about a host."""


@verb("validate", "hosts.validate", outputs=("json",))
@click.argument("files", metavar="[FILE]...", nargs=-1)
def validate() -> None:
    """Check hosts.yaml: every problem with its line and column.

    With FILEs, check those instead. Exit 2 if there is a problem.
    """


for _verb in (ls, show, validate, add, remove, import_, export, clean):
    command.add_command(_verb)
