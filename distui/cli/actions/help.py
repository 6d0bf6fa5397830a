"""`distui help`: the help of a verb, as `VERB --help` prints it."""

from __future__ import annotations

import click

from distui.cli.console import Console
from distui.cli.settings import Settings


def act(settings: Settings, out: Console, words: tuple[str, ...]) -> int:
    """See `help --help`."""
    found = click.get_current_context().find_root()
    for word in words:
        found = _below(found, word)
    click.echo(found.get_help())
    return 0


def _below(ctx: click.Context, word: str) -> click.Context:
    """The context of a verb of `ctx`. Raises click.UsageError, with the nearest verb, when there is none."""
    if not isinstance(ctx.command, click.Group):
        raise click.UsageError(f"`{ctx.command_path}` has no commands of its own, such as '{word}'", ctx)
    _, found, _ = ctx.command.resolve_command(ctx, [word])
    if found is None:
        raise click.UsageError(f"there is no command '{word}'", ctx)
    return click.Context(found, info_name=word, parent=ctx, **found.context_settings)
