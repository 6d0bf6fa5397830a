"""`distui version`."""

from __future__ import annotations

import platform

import click

from distui.cli import console
from distui.cli.options import verb
from distui.cli.settings import settings_of
from distui.version import __version__


@verb("version", outputs=("json",))
@click.pass_context
def command(ctx: click.Context) -> int:
    """Print the version."""
    settings = settings_of(ctx)
    out = console.of(settings)
    if settings.json:
        out.json({"schema": "distui/version/v1", "version": __version__, "python": platform.python_version()})
    else:
        out.print(f"distui {__version__}")
    return 0
