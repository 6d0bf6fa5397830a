"""`distui ssh`: a shell on a host, with what hosts.yaml says about it."""

from __future__ import annotations

import os
import sys

from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.backend.backend_hosts import ssh_login
from distui.cluster.hosts.selection import host_named
from distui.errors import UsageError


def act(settings: Settings, out: Console, name: str, words: tuple[str, ...]) -> int:
    """See `ssh --help`."""
    settings.refuse_readonly("ssh")
    host = host_named(settings.selection.inventory(), name)
    return become(ssh_login(host, words, tty=sys.stdin.isatty()))


def become(argv: tuple[str, ...]) -> int:
    """Become another program on this terminal. Raises UsageError when it is not there."""
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as exc:
        raise UsageError(f"{argv[0]} can't be started: {exc.strerror}", hint="install OpenSSH's client") from exc
