"""Ansible's inventories, INI and YAML (also the JSON of `ansible-inventory --list`), as hosts and groups."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from distui.errors import Problem, SpecError, UsageError
from distui.regex import regex
from distui.spec.imports.ansible_folders import Beside
from distui.spec.imports.ansible_model import AnsibleInventory
from distui.spec.imports.imported import Imported, by_ansible
from distui.spec.yaml.nodes import Source
from distui.spec.yaml.problems import shown
from distui.spec.yaml.syntax import explain

_MOST_ENTRIES = 20_000
"""Groups and hosts together: YAML's aliases can make a few lines stand for millions."""
_MOST_DEPTH = 100
_SECTION = regex(r"\[([^\]:]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_QUOTED = regex(r"(['\"])(.*?)\1(?:\s*#.*)?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_ansible(text: str, path: str) -> Imported:
    """The hosts of an inventory. What hosts.yaml can't say is left out and named. Raises UsageError, SpecError."""
    found = AnsibleInventory()
    if text.startswith("#!"):
        raise UsageError(f"{path} is a program that prints an inventory, not an inventory", hint=by_ansible(path))
    if _is_yaml(text, path):
        _read_tree(_load(text, path), found, path)
    else:
        _read_ini(text, found, path)
    if path != "-":
        _read_beside(found, Path(path).parent)
    return found.imported()


def _read_beside(found: AnsibleInventory, folder: Path) -> None:
    """The variables in folders beside the inventory."""
    groups = ("group_vars", found.groups, found.add_folder_variables)
    hosts = ("host_vars", found.hosts, found.add_host_variables)
    for name, known, take in (groups, hosts):
        if (folder / name).is_dir():
            for one, variables in Beside(_load, found.leave_out).read(folder / name, known):
                take(one, variables)


def _is_yaml(text: str, path: str) -> bool:
    """By the file's name; else by its first words, as no INI begins with them."""
    if path.endswith((".yml", ".yaml", ".json")):
        return True
    return bool(re.match(r"(?:\s*#.*\n|\s*\n)*\s*(?:---|\{|all:)", text))


# INI


def _read_ini(text: str, found: AnsibleInventory, path: str) -> None:
    group, part = "ungrouped", ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[" and (head := _SECTION.fullmatch(stripped)):
            group, part = head[1].strip(), head[2] or ""
            if part not in ("", "vars", "children", "hosts"):
                found.leave_out(f"{path}:{number}: [{group}:{part}] is no section of an inventory")
            continue
        _ini_line(stripped, group, part, found, f"{path}:{number}")


def _ini_line(line: str, group: str, part: str, found: AnsibleInventory, place: str) -> None:
    if part == "vars":
        name, equals, value = line.partition("=")
        if equals:
            found.add_variables(group, {name.strip(): _plain(value.strip())})
        else:
            found.leave_out(f"{place}: {shown(line)} is not NAME=VALUE")
        return
    try:
        words = shlex.split(line, comments=True) if set(line) & set("'\"\\#") else line.split()  # shlex is slow
    except ValueError as error:
        found.leave_out(f"{place}: {str(error)[:1].lower()}{str(error)[1:]}")
        return
    if part == "children" and words:
        found.add_child(group, words[0])
    elif part in ("", "hosts") and words:
        pairs = [word.partition("=") for word in words[1:]]
        for word, equals, _ in pairs:
            if not equals and "{" not in line:
                found.leave_out(f"{place}: {shown(word)} is not NAME=VALUE")
        found.add(words[0], {name: value for name, equals, value in pairs if equals}, group)


def _plain(value: str) -> str:
    """A value of a `:vars` section without its quotes or the comment behind it."""
    match = _QUOTED.fullmatch(value)
    return match[2] if match else re.sub(r"\s+#.*", "", value)


# YAML


class _Tagged:
    """A value with a tag, such as `!vault`: only Ansible can read it."""

    def __str__(self) -> str:
        return "{encrypted or tagged}"


class _Loader(_LOADER):  # type: ignore[misc] # libyaml's, where it is there
    """Reads plain values; those with tags become `_Tagged`."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: _Tagged())


def _load(text: str, path: str) -> Any:
    """The file's value. Raises SpecError for what is not YAML."""
    opened: list[yaml.CollectionStartEvent] = []
    try:
        _bound_depth(text, path, opened)
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        source = Source(path, text)
        mark = opened[-1].start_mark if opened and opened[-1].flow_style else None
        line, column, message = explain(error, source, (mark.line + 1, mark.column + 1) if mark else None)
        raise SpecError((Problem(path, line, column, "", message, source.line(line)),)) from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    except (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as error:  # odd tags
        raise UsageError(f"{path} is not YAML: {str(error)[:500]}") from None


def _bound_depth(text: str, path: str, opened: list[yaml.CollectionStartEvent]) -> None:
    """Raise UsageError for a text so deep that the loader, which recurses, would not come back.

    `opened` has what is open where the text can't be read on.
    """
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        if len(opened) > _MOST_DEPTH:
            raise UsageError(f"{path} is nested too deeply")


def _read_tree(value: Any, found: AnsibleInventory, path: str) -> None:
    if not isinstance(value, dict):
        raise UsageError(f"{path} is no inventory: expected groups such as `all:`, each with hosts, vars or children")
    if isinstance(value.get("plugin"), str):
        raise UsageError(
            f"{path} is for Ansible's plugin {shown(value['plugin'])}, which finds the hosts", hint=by_ansible(path)
        )
    entries = itertools.count(1)

    def one_more() -> None:
        if next(entries) > _MOST_ENTRIES:
            raise UsageError(f"{path} has over {_MOST_ENTRIES:,} groups and hosts")

    def walk(group: str, body: Any, depth: int) -> None:
        one_more()
        if depth > _MOST_DEPTH:  # an alias may hold itself
            raise UsageError(f"{path} is nested too deeply")
        if body is not None and not isinstance(body, dict):
            found.leave_out(f"group {shown(group)}: expected hosts, vars or children below it")
            return
        found.add_variables(group, _table(body, "vars", group))
        for name, values in _table(body, "hosts", group).items():
            one_more()
            found.add(str(name), values if isinstance(values, dict) else {}, group)
        for child, below in _table(body, "children", group).items():
            found.add_child(group, str(child))
            walk(str(child), below, depth + 1)

    def _table(body: Mapping[Any, Any] | None, key: str, group: str) -> dict[Any, Any]:
        part = (body or {}).get(key)
        if isinstance(part, str):
            return {part: None}
        if isinstance(part, list) and key != "vars":
            return {name: None for name in part if isinstance(name, str | int)}
        if part is not None and not isinstance(part, dict):
            found.leave_out(f"group {shown(group)}: `{key}` is no mapping")
        return part if isinstance(part, dict) else {}

    meta = value.get("_meta")
    for group, body in value.items():
        if group != "_meta":
            walk(str(group), body, 0)
    if isinstance(meta, dict) and isinstance(meta.get("hostvars"), dict):
        for name, values in meta["hostvars"].items():
            found.add_host_variables(str(name), values if isinstance(values, dict) else {})
