"""`distui hosts add`, `rm`, `import` and `export`: hosts.yaml changed in place; comments and order stay."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from distui.amounts import counted
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.errors import NotFound, SpecError, UsageError
from distui.files import replace_text, writing
from distui.spec.choose import parse_label
from distui.spec.hosts.export_hosts import as_ansible, as_hostfile
from distui.spec.hosts.names import fold
from distui.spec.hosts.read_inventory import read_inventory
from distui.spec.imports import import_hosts
from distui.spec.imports.import_hosts import entries
from distui.spec.imports.imported import Imported
from distui.spec.yaml.document import parse
from distui.spec.yaml.edit_text import scalar, set_at
from distui.spec.yaml.files import read_text
from distui.spec.yaml.nodes import Items, Node, Scalar, Source, Table, is_null
from distui.spec.yaml.problems import Problems

NEW = "version: 1\n"

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
    parts = [f"{key}: {scalar(value)}" for key, value in (("addr", addr), ("user", user)) if value]
    parts += [f"{key}: {value}" for key, value in (("port", port), ("gpus", gpus)) if value is not None]
    if labels:
        pairs = ", ".join(f"{scalar(k)}: {scalar(v)}" for k, v in map(parse_label, labels))
        parts.append("labels: {" + pairs + "}")
    path = _path(settings)
    before = _text(path)
    changed = _changed(path, before or NEW, ("hosts", name), "{" + ", ".join(parts) + "}", new=True)
    for group in groups:
        changed = _join(path, changed, group, name)
    _save(path, before, changed)
    out.say(f"{path}: {name} added")
    return 0


def remove(settings: Settings, out: Console, name: str) -> int:
    """See `hosts rm --help`."""
    settings.refuse_readonly("hosts rm")
    path = settings.selection.need_path()
    before = _text(path) or ""
    if name not in _keys(path, before, "hosts"):
        found = settings.selection.inventory().get(name)
        if found is None:
            raise NotFound(f"there is no host '{name}' in {path}", hint="`distui hosts ls` lists them")
        raise UsageError(f"{path}: {name} is part of a range", hint="edit the range in the file")
    _save(path, before, _changed(path, before, ("hosts", name), None))
    out.say(f"{path}: {name} removed")
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
    target = _path(settings)
    before = _text(target)
    changed, added, there = _merged(target, before or NEW, found)
    for group, names in _left_out(target, before, found).items():
        out.say(f"{target}: group {group} is there and stays as it is, without {names}", "yellow")
    if added:
        _save(target, before, changed)
    out.say(
        f"{target}: {counted(added, 'host')} added"
        + (f", {there} {'was' if there == 1 else 'were'} there" if there else "")
    )
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
    if form == "nodeset" and source is not None and source != "-" and not Path(source).is_file():
        return source, "the set"
    return read_text(path), path


def _merged(path: str, text: str, found: Imported) -> tuple[str, int, int]:
    """The file with those hosts and groups that it lacks; how many hosts that were, and how many were there."""
    known = {h.name for h in read_inventory(text, path).hosts} if _keys(path, text, "hosts") else set()
    new = replace(found, hosts=tuple(h for h in found.hosts if h.name not in known))
    for name, line in entries(new.hosts):
        text = _changed(path, text, ("hosts", name), line, new=True)
    for group, members in found.groups.items() if new.hosts else ():
        if group not in _keys(path, text, "groups"):
            text = _changed(path, text, ("groups", group), scalar(fold(members)))
    return text, len(new.hosts), len(found.hosts) - len(new.hosts)


def _left_out(path: str, text: str | None, found: Imported) -> dict[str, str]:
    """Group -> hosts, folded, that the import has in it and the file, which has a group of that name, does not."""
    kept = read_inventory(text, path).groups if text and _keys(path, text, "hosts") else {}
    lacking = {g: [m for m in members if m not in kept[g]] for g, members in found.groups.items() if g in kept}
    return {group: fold(names) for group, names in lacking.items() if names}


def _path(settings: Settings) -> str:
    """The hosts.yaml to change; ./hosts.yaml when there is none yet."""
    if settings.hostfile is not None:
        raise UsageError("a hostfile is not changed", hint="`distui hosts import hostfile FILE --write`")
    return settings.selection.path or "hosts.yaml"


def _text(path: str) -> str | None:
    """The file's text; None when it is not there."""
    return read_text(path) if Path(path).exists() else None


def _written(path: str, text: str) -> Table | None:
    """The file as it is written, None when nothing is in it.

    Raises SpecError when it is not YAML as every verb reads it, or has something else where hosts and groups are
    listed, with what `hosts validate` says: that would be written over.
    """
    problems = Problems()
    documents = parse(Source(path, text), problems)
    if problems or not all(isinstance(d, Table) for d in documents) or len(documents) > 1:
        read_inventory(text, path)
    root = next((d for d in documents if isinstance(d, Table)), None)
    if root is not None and not _has_lists_in_place(root):
        read_inventory(text, path)
        raise _unsafe(path)
    return root


def _has_lists_in_place(root: Table) -> bool:
    """Whether hosts and groups are tables, or not written, and each group is words: what entries can be added to."""
    hosts, groups = root.get("hosts"), root.get("groups")
    if not all(node is None or is_null(node) or isinstance(node, Table) for node in (hosts, groups)):
        return False
    listed = [value for _, value in groups.pairs.values()] if isinstance(groups, Table) else []
    words = [word for value in listed for word in (value.items if isinstance(value, Items) else [value])]
    return all(isinstance(word, Scalar) for word in words)


def _value(path: str, text: str, key: str) -> Node | None:
    """What the file says for a key."""
    root = _written(path, text)
    return root.get(key) if root else None


def _keys(path: str, text: str, table: str) -> list[str]:
    """The keys of a table of the file."""
    found = _value(path, text, table)
    return list(found.pairs) if isinstance(found, Table) else []


def _changed(path: str, text: str, keys: Sequence[str], value: str | None, *, new: bool = False) -> str:
    """The text with one entry set or taken out. Raises UsageError when it has it already, or can't be changed."""
    if new and keys[-1] in _keys(path, text, keys[0]):
        raise UsageError(f"{path}: {keys[-1]} is listed already", hint="`distui hosts show` shows it")
    if _value(path, text, keys[0]) is None and value is not None:
        return f"{text.rstrip()}\n{keys[0]}:\n  {scalar(keys[1])}: {value}\n"
    changed = set_at(text, keys, value)
    if changed is None:
        raise _unsafe(path)
    return changed


def _join(path: str, text: str, group: str, name: str) -> str:
    """The text with a host in a group, as one more word of it."""
    words = _members(path, text, group)
    value = scalar(name) if not words else "[" + ", ".join(map(scalar, [*words, name])) + "]"
    return _changed(path, text, ("groups", group), value)


def _members(path: str, text: str, group: str) -> list[str]:
    """What a group is written as, one word or a list of them; nothing where it is not written."""
    groups = _value(path, text, "groups")
    found = groups.get(group) if isinstance(groups, Table) else None
    if found is None or is_null(found):
        return []
    words = found.items if isinstance(found, Items) else [found]
    return [word.text for word in words if isinstance(word, Scalar)]


def _unsafe(path: str) -> UsageError:
    return UsageError(f"{path} can't be changed safely", hint="`distui hosts validate` says what is wrong with it")


def _save(path: str, before: str | None, text: str) -> None:
    """Write the file when it is right; its mode stays. Raises SpecError with what is wrong, or would be."""
    try:
        read_inventory(text, path)
    except SpecError:
        if before and _keys(path, before, "hosts"):
            read_inventory(before, path)
        raise
    with writing(path):
        replace_text(Path(path), text)
