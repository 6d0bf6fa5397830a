"""`distui help`: the help of a command, as `COMMAND --help` prints it."""

from __future__ import annotations

import click

from distui.cli.options import verb


@verb("help", "help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
def command() -> None:
    """Print the help of a command: `distui help run`, `distui help hosts add`. Without one the overview."""
