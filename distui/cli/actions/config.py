"""`distui config`: settings with their origin, a file to begin with, and distui's folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distui.amounts import counted
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.columns import table
from distui.config import KEYS, load
from distui.files import exists, is_file
from distui.spec.yaml.files import write_new


def show(settings: Settings, out: Console, origin: bool) -> int:
    """See `config show --help`."""
    if settings.json:
        values: dict[str, Any] = {k: {"value": v.value, "origin": v.origin} for k, v in settings.config.items()}
        out.json({"schema": "distui/config/v1", "settings": values})
        return 0
    header = ("KEY", "VALUE", "FROM") if origin else ("KEY", "VALUE", "MEANS")
    rows = [
        (name, _shown(value.value), value.origin if origin else KEYS[name].help)
        for name, value in settings.config.items()
    ]
    out.print("\n".join(table(header, rows)))
    return 0


def path(settings: Settings, out: Console) -> int:
    """See `config path --help`."""
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
    rows = [(name, "yes" if exists(place) else "no", str(place)) for name, place in places.items()]
    out.print("\n".join(table(("WHAT", "EXISTS", "PATH"), rows)))
    return 0


def init(settings: Settings, out: Console, project: bool) -> int:
    """See `config init --help`."""
    settings.refuse_readonly("config init")
    path = settings.cwd / "distui.yaml" if project else settings.paths.config_file
    hint = "`distui config show --origin` says what it sets"
    write_new(path, str(path), template(), hint=hint, private=not project)
    out.say(f"{path}: written; uncomment what you want to set")
    return 0


def template() -> str:
    """A config file that changes nothing: every key with its default and what it does."""
    head = (
        "# distui's settings. Flags override DISTUI_* variables, these ./distui.yaml, and that your own config.yaml.\n"
    )
    return head + "".join(f"\n# {key.help}\n# {name}: {_written(key.default)}\n" for name, key in KEYS.items())


def _written(value: Any) -> str:
    """A default as it may stand in the file; what has none is shown empty."""
    return "" if value in (None, "", ()) else "{}" if value == {} else _shown(value)


def validate(settings: Settings, out: Console, files: tuple[str, ...]) -> int:
    """See `config validate --help`."""
    keymaps = [load({}, {}, settings.cwd, name)["keymap"].value for name in files] or [settings["keymap"]]
    used = [str(p) for p in (settings.paths.config_file, settings.cwd / "distui.yaml") if is_file(p)]
    warnings = tuple(dict.fromkeys(words for keymap in keymaps for words in _wrong_keys(keymap)))
    for words in warnings:
        out.warn(f"distui: {words}", "yellow")
    found = f"ok, {counted(len(warnings), 'warning')}" if warnings else "ok"
    out.say(f"{', '.join(files or used) or 'there is no config file'}: {found}")
    return 0


def _wrong_keys(keymap: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the keys of the terminal UI, by its registry of actions."""
    if not keymap:
        return ()
    from distui.tui.registry import keymap_of

    return keymap_of(keymap)[1]


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
