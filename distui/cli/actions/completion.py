"""`distui completion`: a script for the shell, which asks distui itself for the words."""

from __future__ import annotations

from click.shell_completion import get_completion_class

from distui.cli.app import build
from distui.cli.console import Console
from distui.cli.process import COMPLETE
from distui.cli.settings import Settings


def act(settings: Settings, out: Console, shell: str) -> int:
    """See `completion --help`."""
    found = get_completion_class(shell)
    assert found is not None  # click has all three
    out.print(found(build(), {}, "distui", COMPLETE).source())
    return 0
