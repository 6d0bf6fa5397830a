"""`distui config`: settings with their origin, and distui's folders."""

from __future__ import annotations

from typing import Any

import click

from distui.cli import console, settings
from distui.cli.app import Verbs
from distui.cli.options import add_globals, verb
from distui.config import KEYS


@click.group("config", cls=Verbs)
def _group() -> None:
    """Show settings and distui's folders.

    Flags win over DISTUI_* variables, these over ./distui.yaml, that over the user's config.yaml.
    """


command = add_globals(_group)


@verb("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.pass_context
def show(ctx: click.Context, origin: bool) -> int:
    """Print every setting."""
    told = settings.of(ctx)
    out = console.of(told)
    if told.json:
        values: dict[str, Any] = {k: {"value": v.value, "origin": v.origin} for k, v in told.config.items()}
        out.json({"schema": "distui/config/v1", "settings": values})
        return 0
    header = ("KEY", "VALUE", "FROM") if origin else ("KEY", "VALUE", "MEANS")
    rows = [
        (name, _shown(value.value), value.origin if origin else KEYS[name].help) for name, value in told.config.items()
    ]
    out.print("\n".join(console.table(header, rows)))
    return 0


@verb("path")
@click.pass_context
def path(ctx: click.Context) -> int:
    """Print the folders and files distui uses, whether they exist or not."""
    told = settings.of(ctx)
    out = console.of(told)
    places = {
        "config": told.paths.config_file,
        "project_config": told.cwd / "distui.yaml",
        "hosts": told.paths.hosts_file,
        "project_hosts": told.cwd / "hosts.yaml",
        "jobs": told.paths.jobs,
        "runs": told.paths.runs,
        "crashes": told.paths.state / "crashes",
        "facts": told.paths.facts_file,
    }
    if told.json:
        out.json({"schema": "distui/paths/v1", "paths": {k: str(p) for k, p in places.items()}})
        return 0
    rows = [(name, "yes" if place.exists() else "no", str(place)) for name, place in places.items()]
    out.print("\n".join(console.table(("WHAT", "EXISTS", "PATH"), rows)))
    return 0


def _shown(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}s"
        case _:
            return str(value)


command.add_command(show)
command.add_command(path)
