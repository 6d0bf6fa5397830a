"""Which forms of output a verb has."""

from __future__ import annotations

import click


def outputs_of(command: click.Command) -> tuple[str, ...]:
    """What a command can do with `-o`."""
    found: tuple[str, ...] = getattr(command, "outputs", ("table",))
    return found
