"""`distui version`."""

from __future__ import annotations

from distui.cli.options import verb


@verb("version", "version", outputs=("json",))
def command() -> None:
    """Print the version."""
