"""`distui config`: settings with their origin, a file to begin with, and distui's folders."""

from __future__ import annotations

import click

from distui.cli.app import Verbs
from distui.cli.options import Choice, add_globals, verb
from distui.consent import KINDS


@click.group("config", cls=Verbs)
def _group() -> None:
    """Show and check settings, and distui's folders.

    Flags override DISTUI_* variables, these override ./distui.yaml, and that overrides your own config.yaml.
    """


command = add_globals(_group)


@verb("show", "config.show", outputs=("json",))
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
def show() -> None:
    """Print every setting."""


@verb("path", "config.path", outputs=("json",))
def path() -> None:
    """Print distui's folders and files, and whether they exist."""


@verb("init", "config.init")
@click.option("--project", is_flag=True, help="Write ./distui.yaml, for this folder, instead of your own file.")
def init() -> None:
    """Write a config file with every setting commented out. An existing file is left alone."""


@verb("validate", "config.validate")
@click.argument("files", metavar="[FILE]...", nargs=-1)
def validate() -> None:
    """Check config files: every problem with its line and column. Exit 2 if there is one.

    Keys of the terminal UI that can't be used, or that two actions want, are warnings.
    Without FILE, check those that apply here.
    """


@verb("allow", "config_allow.allow")
@click.argument("kind", type=Choice(KINDS))
@click.argument("what", metavar="VARIABLE|FOLDER")
@click.argument("to", metavar="HOST|JOBFOLDER")
def allow() -> None:
    """Let jobs use a variable or a folder of yours.

    \b
    token VARIABLE HOST      a job's `code.token` or `image` may send the variable's value to this host
    folder FOLDER JOBFOLDER  job files in JOBFOLDER may use FOLDER as `code` or `build`
    """


@verb("forget", "config_allow.forget")
@click.argument("kind", type=Choice(KINDS))
@click.argument("what", metavar="VARIABLE|FOLDER")
@click.argument("to", metavar="HOST|JOBFOLDER")
def forget() -> None:
    """Revoke a permission."""


@verb("allowed", "config_allow.allowed", outputs=("json",))
def allowed() -> None:
    """List what jobs may use.

    Permissions come from your answers, from `config allow` and from your config file.
    """


for _verb in (init, show, path, validate, allow, forget, allowed):
    command.add_command(_verb)
