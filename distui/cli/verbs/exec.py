"""`distui exec`: a command or a shell in the container of a rank."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb


@verb("exec", "exec", words=True)
@click.argument("run", type=RUN)
@click.option(
    "--rank", type=click.IntRange(0), metavar="N", help="Rank whose container is used; required if there are several."
)
@click.option("-t", "--tty", is_flag=True, help="Use this terminal, over your own ssh; the default without a command.")
def command() -> None:
    """Run the words after `--` in the container of a rank, or open a shell in it; exits as the command did.

    The command gets this stdin (in a loop that reads a script's input use `</dev/null`, as with ssh). Its output comes
    as it is printed, with stdout and stderr separate; with -t it gets this terminal. Without -t it is ended when this
    call ends (SIGTERM, SIGKILL after 3 s), in containers that have a shell.
    """
