"""`distui version`."""

from __future__ import annotations

import platform

from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.version import __version__


def act(settings: Settings, out: Console) -> int:
    """See `version --help`."""
    if settings.json:
        out.json({"schema": "distui/version/v1", "version": __version__, "python": platform.python_version()})
    else:
        out.print(f"distui {__version__}")
    return 0
