"""`distui config`: settings with their origin, a file to begin with, and distui's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from distui.cli import console
from distui.cli.app import Verbs
from distui.cli.options import Choice, add_globals, verb
from distui.cli.settings import Settings, settings_of
from distui.config import KEYS, load, tokens
from distui.consent import KINDS, Ask, Consents, Kind
from distui.errors import NotFound, UsageError
from distui.files import make_private, new_file


@click.group("config", cls=Verbs)
def _group() -> None:
    """Show and check settings, and distui's folders.

    Flags win over DISTUI_* variables, these over ./distui.yaml, that over the user's config.yaml.
    """


command = add_globals(_group)


@verb("show", outputs=("json",))
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.pass_context
def show(ctx: click.Context, origin: bool) -> int:
    """Print every setting."""
    settings = settings_of(ctx)
    out = console.of(settings)
    if settings.json:
        values: dict[str, Any] = {k: {"value": v.value, "origin": v.origin} for k, v in settings.config.items()}
        out.json({"schema": "distui/config/v1", "settings": values})
        return 0
    header = ("KEY", "VALUE", "FROM") if origin else ("KEY", "VALUE", "MEANS")
    rows = [
        (name, _shown(value.value), value.origin if origin else KEYS[name].help)
        for name, value in settings.config.items()
    ]
    out.print("\n".join(console.table(header, rows)))
    return 0


@verb("path", outputs=("json",))
@click.pass_context
def path(ctx: click.Context) -> int:
    """Print the folders and files distui uses, whether they exist or not."""
    settings = settings_of(ctx)
    out = console.of(settings)
    places = {
        "config": settings.paths.config_file,
        "project_config": settings.cwd / "distui.yaml",
        "hosts": settings.paths.hosts_file,
        "project_hosts": settings.cwd / "hosts.yaml",
        "jobs": settings.paths.jobs,
        "runs": settings.paths.runs,
        "crashes": settings.paths.state / "crashes",
        "facts": settings.paths.facts_file,
        "allowed": settings.paths.allowed_file,
        "commands": settings.paths.state / "commands",
    }
    if settings.json:
        out.json({"schema": "distui/paths/v1", "paths": {k: str(p) for k, p in places.items()}})
        return 0
    rows = [(name, "yes" if place.exists() else "no", str(place)) for name, place in places.items()]
    out.print("\n".join(console.table(("WHAT", "EXISTS", "PATH"), rows)))
    return 0


@verb("init")
@click.option("--project", is_flag=True, help="./distui.yaml, which holds for this folder, instead of the user's file.")
@click.pass_context
def init(ctx: click.Context, project: bool) -> int:
    """Write a config file in which every setting stands as a comment. An existing file is left alone."""
    settings = settings_of(ctx)
    settings.refuse_readonly("config init")
    path = settings.cwd / "distui.yaml" if project else settings.paths.config_file
    try:
        if not project:
            make_private(path.parent)
        with new_file(path) as target:
            target.write(template().encode())
    except FileExistsError as exc:
        raise UsageError(f"{path} exists", hint="`distui config show --origin` says what it sets") from exc
    except OSError as exc:
        raise UsageError(f"{path} can't be written: {exc.strerror}") from exc
    console.of(settings).say(f"{path}: written; take away the # of what you want to set")
    return 0


def template() -> str:
    """A config file that changes nothing: every key with its default and what it does."""
    head = (
        "# distui's settings. Flags win over DISTUI_* variables, these over ./distui.yaml, that over the user's file.\n"
    )
    return head + "".join(f"\n# {key.help}\n# {name}: {_written(key.default)}\n" for name, key in KEYS.items())


def _written(value: Any) -> str:
    """A default as it may stand in the file; what has none is shown empty."""
    return "" if value in (None, "", ()) else "{}" if value == {} else _shown(value)


@verb("validate")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...]) -> int:
    """Check config files: every problem with its line and column; without FILE those that hold here. Exit 2 on one."""
    settings = settings_of(ctx)  # refuses what is wrong in the usual files and variables
    for name in files:
        load({}, {}, settings.cwd, name)
    used = [str(p) for p in (settings.paths.config_file, settings.cwd / "distui.yaml") if p.is_file()]
    console.of(settings).say(f"{', '.join(files or used) or 'there is no config file'}: ok")
    return 0


@verb("allow")
@click.argument("kind", type=Choice(KINDS))
@click.argument("what", metavar="VARIABLE|FOLDER")
@click.argument("to", metavar="HOST|JOBFOLDER")
@click.pass_context
def allow(ctx: click.Context, kind: Kind, what: str, to: str) -> int:
    """Allow jobs to take something of yours.

    \b
    token VARIABLE HOST      a job's `code.token` may send the variable's value to this host
    folder FOLDER JOBFOLDER  job files in JOBFOLDER may take FOLDER as `code` or `build`
    """
    settings = settings_of(ctx)
    settings.refuse_readonly("config allow")
    ask = _ask(kind, what, to)
    _consents(settings).remember(ask)
    console.of(settings).say(f"allowed: {ask.kind} {ask.what} to {ask.to}; `distui config forget` takes it back")
    return 0


@verb("forget")
@click.argument("kind", type=Choice(KINDS))
@click.argument("what", metavar="VARIABLE|FOLDER")
@click.argument("to", metavar="HOST|JOBFOLDER")
@click.pass_context
def forget(ctx: click.Context, kind: Kind, what: str, to: str) -> int:
    """Take back what was allowed."""
    settings = settings_of(ctx)
    settings.refuse_readonly("config forget")
    ask = _ask(kind, what, to)
    if not _consents(settings).forget(ask):
        raise NotFound(f"{ask.kind} {ask.what} to {ask.to} was not allowed", hint="`distui config allowed` lists all")
    console.of(settings).say(f"no longer allowed: {ask.kind} {ask.what} to {ask.to}")
    return 0


@verb("allowed", outputs=("json",))
@click.pass_context
def allowed(ctx: click.Context) -> int:
    """List what jobs may take: allowed by an answer, by `config allow`, or by your config file."""
    settings = settings_of(ctx)
    out = console.of(settings)
    listed = [Ask("token", name, host) for name, host in settings["allow_tokens"]]
    listed += [Ask("folder", folder, "any job") for folder in settings["allow_folders"]]
    every = [*_consents(settings).remembered(), *listed]
    if settings.json:
        out.json({"schema": "distui/allowed/v1", "allowed": [[a.kind, a.what, a.to] for a in every]})
        return 0
    out.print("\n".join(console.table(("KIND", "WHAT", "TO"), [(a.kind, a.what, a.to) for a in every])))
    return 0


def _ask(kind: Kind, what: str, to: str) -> Ask:
    """The pair as jobs ask for it. Raises UsageError for what can't be one."""
    if kind == "token":
        (found,) = tokens(f"{what}@{to.lower()}") or (("", ""),)
        return Ask(kind, *found)
    return Ask(kind, str(Path(what).expanduser().resolve()), str(Path(to).expanduser().resolve()))


def _shown(value: Any) -> str:
    match value:
        case tuple():
            return ", ".join("@".join(part) if isinstance(part, tuple) else part for part in value) or "-"
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}s"
        case _:
            return str(value)


for _verb in (init, show, path, validate, allow, forget, allowed):
    command.add_command(_verb)


def _consents(settings: Settings) -> Consents:
    from distui.cluster.permit import consents

    return consents(settings.cluster)
