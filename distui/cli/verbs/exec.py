"""`distui exec`: a command or a shell in the container of a rank."""

from __future__ import annotations

import click

from distui.cli.options import RUN, verb


@verb("exec", "exec", words=True)
@click.argument("run", type=RUN)
@click.option(
    "--rank", type=click.IntRange(0), metavar="N", help="Rank whose container is used; needed if there are several."
)
@click.option("-t", "--tty", is_flag=True, help="Use this terminal, over your own ssh; always without a command.")
def command() -> None:
    """Run the words after `--` in the container of a rank, or open a shell in it; exits as the command did.

    It reads this stdin (in a loop over a script's input give it `</dev/null`, as with ssh), and what it prints comes
    as it is printed, stdout and stderr apart; with -t it has this terminal. Without -t the command ends when this
    call is ended (SIGTERM, SIGKILL after 3 s), in containers that have a shell.
    """
