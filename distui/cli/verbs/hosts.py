"""`distui hosts`: the inventory as distui reads it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from distui.amounts import counted
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.app import Verbs
from distui.cli.options import add_globals, verb
from distui.cli.settings import settings_of
from distui.cli.verbs.hosts_change import add, export, import_, remove
from distui.cli.verbs.hosts_clean import clean
from distui.cluster.connecting import ssh_words
from distui.cluster.selection import host_named

if TYPE_CHECKING:
    from distui.errors import Problem
    from distui.spec.inventory import Host


@click.group("hosts", cls=Verbs)
def _group() -> None:
    """List, show, check and change the hosts of the inventory. Only `clean` contacts any; `distui probe` asks them."""


command = add_globals(_group)


@verb("ls", outputs=("json", "name"))
@click.argument("sets", metavar="[SET]...", nargs=-1)
@click.pass_context
def ls(ctx: click.Context, sets: tuple[str, ...]) -> int:
    """List hosts, their address as hosts.yaml gives it, engine, labels and groups."""
    settings = settings_of(ctx)
    out = consoles.of(settings)
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    groups = {h.name: [g for g, names in found.groups.items() if h.name in names] for h in hosts}
    if settings.output == "name" or settings.quiet:
        out.print("\n".join(h.name for h in hosts))
    elif settings.json:
        values = [host_value(h) | {"groups": groups[h.name]} for h in hosts]
        out.json({"schema": "distui/hosts/v1", "hosts": values, "path": found.path})
    else:
        rows = [_row(h, groups[h.name]) for h in hosts]
        out.print("\n".join(consoles.table(("NAME", "ADDR", "ENGINE", "GPUS", "LABELS", "GROUPS"), rows)))
    return 0


def _row(host: Host, groups: list[str]) -> tuple[str, ...]:
    labels = ",".join(f"{k}={v}" for k, v in host.labels.items())
    where = (f"{host.user}@" if host.user else "") + (host.addr or "") + (f":{host.port}" if host.port else "")
    return (host.name, where, " ".join(host.engine_command) or host.engine, _gpus(host), labels, ",".join(groups))


def _gpus(host: Host) -> str:
    return ",".join(map(str, host.gpus)) if isinstance(host.gpus, tuple) else str(host.gpus)


def host_value(host: Host) -> dict[str, Any]:
    """A host as JSON: the keys of hosts.yaml, with what was left open as null."""
    value = dataclasses.asdict(host)
    value["labels"] = dict(host.labels)
    return value


@verb("show", outputs=("json",))
@click.argument("name", metavar="HOST")
@click.pass_context
def show(ctx: click.Context, name: str) -> int:
    """Show one host: what hosts.yaml says, and where ssh will connect (from ~/.ssh/config)."""
    settings = settings_of(ctx)
    out = consoles.of(settings)
    found = settings.selection.inventory()
    host = host_named(found, name)
    ssh = ssh_words(settings.cluster, host)
    if settings.json:
        out.json({"schema": "distui/host/v1", "host": host_value(host), "ssh": ssh})
        return 0
    values = {k: v for k, v in host_value(host).items() if v not in (None, "", {}, [], ())}
    rows = [(k, _shown(v)) for k, v in values.items()] + [(f"ssh {k}", _shown(v)) for k, v in ssh.items() if v]
    width = max(len(k) for k, _ in rows)
    out.print("\n".join(f"{k.ljust(width)}  {v}" for k, v in rows))
    return 0


def _shown(value: Any) -> str:
    match value:
        case dict():
            return " ".join(f"{k}={v}" for k, v in value.items() if v is not None) or "-"
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)


@verb("validate", outputs=("json",))
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...]) -> int:
    """Check hosts.yaml, or FILEs: every problem with its line and column. Exit 2 when there is one."""
    from distui.errors import SpecError
    from distui.spec.read_inventory import load_inventory

    settings = settings_of(ctx)
    out = consoles.of(settings)
    problems: list[Problem] = []
    for path in files or (settings.selection.need_path(),):
        try:
            found = load_inventory(path)
        except SpecError as exc:
            problems += exc.problems
        else:
            groups = f", {counted(len(found.groups), 'group')}" if found.groups else ""
            out.say(f"{path}: ok, {counted(len(found.hosts), 'host')}{groups}")
    return wiring.tell_problems(out, settings, tuple(problems))


for _verb in (ls, show, validate, add, remove, import_, export, clean):
    command.add_command(_verb)
