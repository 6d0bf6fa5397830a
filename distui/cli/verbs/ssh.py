"""`distui ssh`: a shell on a host, with what hosts.yaml says about it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from distui.cli.options import HOSTS, after_dashes, verb
from distui.cli.settings import settings_of
from distui.cluster.selection import host_named
from distui.errors import UsageError

if TYPE_CHECKING:
    from distui.spec.inventory import Host


@verb("ssh", words=True)
@click.argument("name", metavar="HOST", type=HOSTS)
@click.pass_context
def command(ctx: click.Context, name: str) -> int:
    """Open a shell on a host, or run the words after `--` there, by your own ssh.

    OpenSSH reads ~/.ssh/config as ever; hosts.yaml fills what that leaves open.
    """
    settings = settings_of(ctx)
    settings.refuse_readonly("ssh")
    host = host_named(settings.selection.inventory(), name)
    return become(login(host, after_dashes(ctx), tty=sys.stdin.isatty()))


def login(host: Host, command: tuple[str, ...] = (), *, tty: bool) -> tuple[str, ...]:
    """OpenSSH's command; a command gets a terminal where there is one to pass on."""
    from distui.cluster.backend.backend_hosts import ssh_login

    argv = ssh_login(host, command)
    return argv if tty else tuple(word for i, word in enumerate(argv) if (i, word) != (1, "-t"))


def become(argv: tuple[str, ...]) -> int:
    """Become another program on this terminal. Raises UsageError when it is not there."""
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as exc:
        raise UsageError(f"{argv[0]} can't be started: {exc.strerror}", hint="install OpenSSH's client") from exc
