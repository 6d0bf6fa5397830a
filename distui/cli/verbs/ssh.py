"""`distui ssh`: a shell on a host, with what hosts.yaml says about it."""

from __future__ import annotations

import click

from distui.cli.options import HOSTS, verb


@verb("ssh", "ssh", words=True)
@click.argument("name", metavar="HOST", type=HOSTS)
def command() -> None:
    """Open a shell on a host, or run the words after `--` there, with your own ssh.

    OpenSSH reads ~/.ssh/config as usual; hosts.yaml fills in what it leaves open. The words are a program and
    its arguments, none of them read by a shell: for pipes and the like use `-- sh -c 'ps aux | grep python'`.
    """
