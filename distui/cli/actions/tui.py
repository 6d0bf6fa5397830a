"""`distui tui`: the terminal UI."""

from __future__ import annotations

from distui.cli.console import Console
from distui.cli.runs import opening, page
from distui.cli.settings import Settings
from distui.errors import UsageError


def act(settings: Settings, out: Console, run: str | None, view: opening.View) -> int:
    """See `tui --help`."""
    if not opening.on_terminal() and not page.in_browser():
        message = "the terminal UI needs a terminal, and TERM other than dumb"
        raise UsageError(message, hint="off one use probe, run --headless, ps, logs ...")
    return opening.open_views(settings, out, view, run or "")
