"""Hosts as other tools write them down, and as entries of hosts.yaml.

Read are OpenSSH's config (names only: ssh itself knows the rest), Ansible's inventories in both forms, hostfiles of
Open MPI, DeepSpeed and Horovod, and node sets such as `node[001-064]`.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import groupby
from typing import Any, Literal

from distui.errors import UsageError
from distui.spec import names
from distui.spec.edit_text import scalar
from distui.spec.problems import Wrong

Form = Literal["ssh-config", "ansible", "hostfile", "nodeset"]
FORMS: tuple[Form, ...] = ("ssh-config", "ansible", "hostfile", "nodeset")


@dataclass(frozen=True, slots=True)
class Found:
    """One host as it was written elsewhere."""

    name: str
    settings: Mapping[str, str | int] = field(default_factory=dict)
    """`addr`, `user`, `port`, as far as they were told."""


@dataclass(frozen=True, slots=True)
class Imported:
    """All hosts of a file, in its order, and its groups."""

    hosts: tuple[Found, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What could not be taken over."""

    def matching(self, pattern: str) -> Imported:
        """Only hosts whose name matches a pattern with `*` and `?`."""
        kept = tuple(host for host in self.hosts if fnmatch(host.name, pattern))
        known = {host.name for host in kept}
        groups = {name: tuple(m for m in members if m in known) for name, members in self.groups.items()}
        return replace(self, hosts=kept, groups={name: members for name, members in groups.items() if members})


def read(text: str, form: Form, path: str) -> Imported:
    """The hosts in a text. Raises UsageError, or SpecError with every problem of a hostfile."""
    found = _read(text, form, path)
    if not found.hosts:
        raise UsageError(f"{path} names no host", hint=f"is it a file of the form {form}?")
    return replace(found, hosts=tuple({host.name: host for host in found.hosts}.values()))


def _read(text: str, form: Form, path: str) -> Imported:
    match form:
        case "ssh-config":
            return Imported(tuple(Found(name) for name in _ssh_names(text)))
        case "hostfile":
            return _hostfile(text, path)
        case "nodeset":
            return Imported(tuple(Found(name) for word in text.split() for name in _expanded(word, path)))
        case "ansible":
            return _ansible_yaml(text, path) if path.endswith((".yml", ".yaml")) else _ansible_ini(text, path)


def _expanded(word: str, path: str) -> tuple[str, ...]:
    try:
        return names.expand(word)
    except Wrong as wrong:
        raise UsageError(f"{path}: {wrong.message}") from None


def _ssh_names(text: str) -> Iterator[str]:
    """Aliases of `Host` lines; patterns and negations name no host."""
    for line in text.splitlines():
        words = re.split(r"[\s=]+", line.strip().partition("#")[0].strip())
        if words[0].lower() == "host":
            yield from (word.strip('"') for word in words[1:] if word and not set(word) & set("*?!"))


def _hostfile(text: str, path: str) -> Imported:
    from distui.spec.hostfile import read_hostfile

    hosts = read_hostfile(text, path).hosts
    slots = any(host.slots is not None for host in hosts)
    remarks = ("slots are left out: hosts.yaml has `gpus`, jobs have `ranks: {per_host: N}`",) if slots else ()
    return Imported(tuple(Found(h.name, {"user": h.user} if h.user else {}) for h in hosts), remarks=remarks)


# Ansible

_KEYS = {"ansible_host": "addr", "ansible_ssh_host": "addr", "ansible_user": "user", "ansible_ssh_user": "user",
         "ansible_port": "port", "ansible_ssh_port": "port"}  # fmt: skip
_MOST_GROUPS = 10_000
_OWN_GROUPS = ("all", "ungrouped")


class _Ansible:
    """Hosts and groups while an inventory is read; a host may be named many times."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.hosts: dict[str, dict[str, str | int]] = {}
        self.members: dict[str, list[str]] = {}
        self.children: dict[str, list[str]] = {}

    def add(self, pattern: str, values: Mapping[str, Any], group: str) -> None:
        """A host, or a range `node[01:50]`, of a group."""
        for name in _expanded(re.sub(r"\[(\d+):(\d+)\]", r"[\1-\2]", pattern), self.path):
            known = self.hosts.setdefault(name, {})
            for key, value in values.items():
                if key in _KEYS and value not in (None, ""):
                    known[_KEYS[key]] = int(value) if _KEYS[key] == "port" and str(value).isdigit() else str(value)
            self.members.setdefault(group, []).append(name)

    def imported(self) -> Imported:
        """Everything, groups of groups as their hosts. An address that is the name itself says nothing."""
        hosts = []
        for name, known in self.hosts.items():
            hosts.append(Found(name, {k: v for k, v in known.items() if (k, v) != ("addr", name)}))
        wanted = [g for g in dict.fromkeys([*self.members, *self.children]) if g not in _OWN_GROUPS]
        groups = {group: tuple(dict.fromkeys(self._all(group, ()))) for group in wanted}
        return Imported(tuple(hosts), {group: members for group, members in groups.items() if members})

    def _all(self, group: str, seen: tuple[str, ...]) -> Iterator[str]:
        if group in seen:
            return
        yield from self.members.get(group, ())
        for child in self.children.get(group, ()):
            yield from self._all(child, (*seen, group))


def _ansible_ini(text: str, path: str) -> Imported:
    found, group, part = _Ansible(path), "ungrouped", ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if head := re.fullmatch(r"\[([^\]:]+)(?::(\w+))?\]", stripped.partition(" #")[0].strip()):
            group, part = head[1], head[2] or ""
            continue
        try:
            words = shlex.split(stripped, comments=True)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if part == "children":
            found.children.setdefault(group, []).append(words[0])
        elif not part:
            found.add(words[0], dict(word.split("=", 1) for word in words[1:] if "=" in word), group)
    return found.imported()


def _ansible_yaml(text: str, path: str) -> Imported:
    import yaml

    try:
        return _ansible_tree(yaml.safe_load(text), path)
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path} is not YAML: {str(error)[:500]}") from None


def _ansible_tree(value: Any, path: str) -> Imported:
    found = _Ansible(path)
    visits = itertools.count(1)

    def walk(group: str, body: Any) -> None:
        if next(visits) > _MOST_GROUPS:  # YAML's aliases can make a few lines stand for millions
            raise UsageError(f"{path} has over {_MOST_GROUPS:,} groups")
        for name, values in _mapping(_mapping(body).get("hosts")).items():
            found.add(str(name), _mapping(values), group)
        for child, below in _mapping(_mapping(body).get("children")).items():
            found.children.setdefault(group, []).append(str(child))
            walk(str(child), below)

    for group, body in _mapping(value).items():
        walk(str(group), body)
    return found.imported()


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


# As hosts.yaml


def entries(hosts: Sequence[Found]) -> list[tuple[str, str]]:
    """(name or range, settings on one line) for each entry of `hosts:`; neighbours that are alike become a range."""
    found = []
    for settings, alike in groupby(hosts, key=lambda host: tuple(host.settings.items())):
        members = [host.name for host in alike]
        folded = names.fold(members) if not any(key == "addr" for key, _ in settings) else ",".join(members)
        found += [(piece, _line(settings)) for piece in _split(folded)]
    return found


def _split(folded: str) -> list[str]:
    """Pieces of a node set; commas in brackets part no pieces."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\])+", folded)


def _line(settings: Sequence[tuple[str, str | int]]) -> str:
    return "{" + ", ".join(f"{k}: {v if isinstance(v, int) else scalar(v)}" for k, v in settings) + "}"


def as_yaml(found: Imported) -> str:
    """A whole hosts.yaml."""
    lines = ["version: 1", "hosts:", *(f"  {scalar(name)}: {line}" for name, line in entries(found.hosts))]
    if found.groups:
        lines += ["groups:", *(f"  {scalar(g)}: {scalar(names.fold(members))}" for g, members in found.groups.items())]
    return "\n".join(lines) + "\n"
