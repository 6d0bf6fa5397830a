"""`distui help`: the help of a verb, as `VERB --help` prints it."""

from __future__ import annotations

import click

from distui.cli.options import verb


@verb("help", "help")
@click.argument("words", metavar="[VERB]...", nargs=-1)
def command() -> None:
    """Print the help of a verb: `distui help run`, `distui help hosts add`. Without a verb the overview."""
