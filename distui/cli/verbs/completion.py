"""`distui completion`: a script for the shell, which asks distui itself for the words."""

from __future__ import annotations

import click

from distui.cli import console as consoles
from distui.cli.options import Choice, verb
from distui.cli.settings import settings_of


@verb("completion")
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
      bash    eval "$(distui completion bash)"            in ~/.bashrc
      zsh     eval "$(distui completion zsh)"             in ~/.zshrc
      fish    distui completion fish > ~/.config/fish/completions/distui.fish
    """
    from click.shell_completion import get_completion_class

    from distui.cli.app import build

    out = consoles.of(settings_of(ctx))
    found = get_completion_class(shell)
    assert found is not None  # click has all three
    out.print(found(build(), {}, "distui", "_DISTUI_COMPLETE").source())
    return 0
