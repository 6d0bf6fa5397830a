"""`distui hosts add`, `rm`, `import` and `export`: hosts.yaml changed in place; comments and order stay."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

from distui.amounts import counted
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.hosts.inventory_file import InventoryFile, without
from distui.errors import NotFound, UsageError
from distui.files import is_file, is_folder
from distui.spec.choose import parse_label
from distui.spec.hosts.address import six_login
from distui.spec.hosts.export_hosts import as_ansible, as_hostfile
from distui.spec.imports import import_hosts
from distui.spec.imports.imported import by_ansible
from distui.spec.yaml.edit_text import scalar
from distui.spec.yaml.files import read_text

_MOST_REMARKS = 20


def add(
    settings: Settings,
    out: Console,
    name: str,
    addr: str | None,
    user: str | None,
    port: int | None,
    gpus: int | None,
    labels: tuple[str, ...],
    groups: tuple[str, ...],
) -> int:
    """See `hosts add --help`."""
    settings.refuse_readonly("hosts add")
    if (login := six_login(name)) is not None:
        raise UsageError(f"'{name}' is an IPv6 address, and the host needs a name", hint=f"`{login.advice}`")
    parts = [f"{key}: {scalar(value)}" for key, value in (("addr", addr), ("user", user)) if value]
    parts += [f"{key}: {value}" for key, value in (("port", port), ("gpus", gpus)) if value is not None]
    if labels:
        pairs = ", ".join(f"{scalar(k)}: {scalar(v)}" for k, v in map(parse_label, labels))
        parts.append("labels: {" + pairs + "}")
    file = InventoryFile(target(settings))
    file.add(name, "{" + ", ".join(parts) + "}")
    for group in groups:
        file.join(group, name)
    file.save()
    out.say(f"{file.path}: {name} added")
    return 0


def remove(settings: Settings, out: Console, name: str) -> int:
    """See `hosts rm --help`."""
    settings.refuse_readonly("hosts rm")
    file = InventoryFile(settings.selection.need_path())
    if name not in file.names("hosts"):
        found = settings.selection.inventory().get(name)
        if found is None:
            raise NotFound(f"there is no host '{name}' in {file.path}", hint="`distui hosts ls` lists them")
        entry = file.range_with(name)
        left = without(entry, name)
        hint = f"write '{left}' in its place, there and in groups" if left else "take that entry out of the file"
        raise UsageError(f"{file.path}: {name} is one of the hosts of '{entry}'", hint=hint)
    if file.names("hosts") == [name]:
        raise UsageError(f"{name} is the only host of {file.path}", hint="`distui hosts add` the next one first")
    groups = file.remove(name)
    file.save()
    out.say(
        f"{file.path}: {name} removed" + (f", also from {', '.join(f'@{group}' for group in groups)}" if groups else "")
    )
    return 0


def import_(
    settings: Settings,
    out: Console,
    form: Literal["ssh-config", "ansible", "hostfile", "nodeset"],
    source: str | None,
    match: str | None,
    write: bool,
) -> int:
    """See `hosts import --help`."""
    if write:
        settings.refuse_readonly("hosts import --write")
    text, path = _source(settings, form, source)
    found = import_hosts.read(text, form, path)
    found = found.matching(match) if match else found
    if not found.hosts:
        raise UsageError(f"no host of {path} matches '{match}'")
    for remark in found.remarks[:_MOST_REMARKS]:
        out.say(f"{path}: {remark}", "yellow")
    if len(found.remarks) > _MOST_REMARKS:
        out.say(f"{path}: {len(found.remarks) - _MOST_REMARKS} more were left out", "yellow")
    if not write:
        out.print(import_hosts.as_yaml(found))
        return 0
    file = InventoryFile(target(settings))
    lacking = file.lacking(found)
    added = file.merge(found)
    there = len(found.hosts) - added
    for group, names in lacking.items():
        out.say(f"{file.path}: group {group} is there and stays as it is, without {names}", "yellow")
    if added:
        file.save()
    already = f", {there} {'was' if there == 1 else 'were'} there" if there else ""
    out.say(f"{file.path}: {counted(added, 'host')} added{already}")
    return 0


def export(settings: Settings, out: Console, form: str, sets: tuple[str, ...]) -> int:
    """See `hosts export --help`."""
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    names = {host.name for host in hosts}
    groups = {group: tuple(m for m in members if m in names) for group, members in found.groups.items()}
    chosen = replace(found, hosts=hosts, groups={group: members for group, members in groups.items() if members})
    out.print(as_hostfile(chosen) if form == "hostfile" else as_ansible(chosen))
    return 0


def _source(settings: Settings, form: str, source: str | None) -> tuple[str, str]:
    """The text to read hosts from, and what it is called."""
    if source is None and form != "ssh-config":
        raise UsageError(f"which {form}?", hint=f"distui hosts import {form} FILE")
    path = source or os.path.join(settings.environ.get("HOME", ""), ".ssh", "config")  # noqa: PTH118
    if form == "nodeset" and source is not None and source != "-" and not is_file(source):
        return source, "the set"
    if form == "ansible" and is_folder(path):
        raise UsageError(f"{path} is a folder; name a file in it", hint=f"for all of them: {by_ansible(path)}")
    return read_text(path, any_bytes=form == "ssh-config"), path


def target(settings: Settings) -> str:
    """The hosts.yaml to change; ./hosts.yaml when there is none yet."""
    if settings.hostfile is not None:
        raise UsageError("a hostfile is not changed", hint="`distui hosts import hostfile FILE --write`")
    return settings.selection.path or "hosts.yaml"
