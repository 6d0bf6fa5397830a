"""A person's own programs, with the app out of the way: an ssh shell, an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from distui.errors import UsageError
from distui.spec.inventory import Host
from tui.desk import Desk


def ssh_argv(desk: Desk, host: Host) -> tuple[str, ...]:
    """The command that logs in to a host; a desk whose hosts are not in the user's ssh config has its own."""
    own = getattr(desk, "ssh_argv", None)
    if own is not None:
        return tuple(own(host.name))
    options: list[str] = []
    if host.port:
        options += ["-p", str(host.port)]
    if host.user:
        options += ["-l", host.user]
    if host.addr:
        options += ["-o", f"HostName={host.addr}"]
    return ("ssh", *options, "--", host.name)


def editor_argv(path: Path, line: int = 0) -> tuple[str, ...]:
    """`$VISUAL` or `$EDITOR` on a file, at a line where the editor takes `+N`. Raises UsageError without one."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    if not words:
        raise UsageError("no editor is set", hint="set $EDITOR")
    at = [f"+{line}"] if line and Path(words[0]).name in ("vi", "vim", "nvim", "nano", "emacs", "micro") else []
    return (*words, *at, str(path))


def outside(app: App[object], argv: tuple[str, ...]) -> int:
    """Run a program on the terminal while the app is suspended; its exit status. Raises UsageError when it can't."""
    try:
        with app.suspend():
            return subprocess.run(argv, check=False).returncode
    except SuspendNotSupported:
        raise UsageError(f"this terminal can't be lent to {argv[0]}") from None
    except OSError as error:
        raise UsageError(f"{argv[0]} can't be started: {error.strerror or error}") from None
