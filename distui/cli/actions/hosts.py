"""`distui hosts`: the inventory as distui reads it."""

from __future__ import annotations

import dataclasses
from typing import Any

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.hosts.connecting import ssh_words
from distui.cluster.hosts.selection import host_named
from distui.columns import table
from distui.errors import Problem, SpecError
from distui.plan.network.rendezvous import bracketed
from distui.runs.lines.text import safe_lines
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.read_inventory import load_inventory


def ls(settings: Settings, out: Console, sets: tuple[str, ...]) -> int:
    """See `hosts ls --help`."""
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
        out.print("\n".join(map(safe_lines, table(("NAME", "ADDR", "ENGINE", "GPUS", "LABELS", "GROUPS"), rows))))
    return 0


def _row(host: Host, groups: list[str]) -> tuple[str, ...]:
    labels = ",".join(f"{k}={v}" for k, v in host.labels.items())
    addr = bracketed(host.addr or "") if host.port else host.addr or ""
    where = (f"{host.user}@" if host.user else "") + addr + (f":{host.port}" if host.port else "")
    return (host.name, where, " ".join(host.engine_command) or host.engine, _gpus(host), labels, ",".join(groups))


def _gpus(host: Host) -> str:
    return ",".join(map(str, host.gpus)) if isinstance(host.gpus, tuple) else str(host.gpus)


def host_value(host: Host) -> dict[str, Any]:
    """A host as JSON: the keys of hosts.yaml, with what was left open as null."""
    value = dataclasses.asdict(host)
    value["labels"] = dict(host.labels)
    return value


def show(settings: Settings, out: Console, name: str) -> int:
    """See `hosts show --help`."""
    found = settings.selection.inventory()
    host = host_named(found, name)
    ssh = ssh_words(settings.cluster, host)
    if settings.json:
        out.json({"schema": "distui/host/v1", "host": host_value(host), "ssh": ssh})
        return 0
    values = {k: v for k, v in host_value(host).items() if v not in (None, "", {}, [], ())}
    rows = [(k, _shown(v)) for k, v in values.items()] + [(f"ssh {k}", _shown(v)) for k, v in ssh.items() if v]
    width = max(len(k) for k, _ in rows)
    out.print("\n".join(safe_lines(f"{k.ljust(width)}  {v}") for k, v in rows))
    return 0


def _shown(value: Any) -> str:
    match value:
        case dict():
            return " ".join(f"{k}={v}" for k, v in value.items() if v is not None) or "-"
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)


def validate(settings: Settings, out: Console, files: tuple[str, ...]) -> int:
    """See `hosts validate --help`."""
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
