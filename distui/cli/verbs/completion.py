"""`distui completion`: a script for the shell, which asks distui itself for the words."""

from __future__ import annotations

import click

from distui.cli.options import Choice, verb


@verb("completion", "completion")
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def command() -> None:
    """Print the completion script of a shell.

    \b
      bash    eval "$(distui completion bash)"            in ~/.bashrc
      zsh     eval "$(distui completion zsh)"             in ~/.zshrc
      fish    distui completion fish > ~/.config/fish/completions/distui.fish
    """
