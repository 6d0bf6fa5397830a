"""Hosts as they were found in another tool's file, and what of them hosts.yaml can say."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from fnmatch import fnmatch

from distui.frozen import frozen
from distui.spec.hosts import host_keys, names
from distui.spec.yaml.nodes import Scalar, Source
from distui.spec.yaml.problems import Wrong, printable, shown
from distui.spec.yaml.shapes import Leaf

Setting = str | int
SETTINGS = ("addr", "user", "port")
"""What is imported of a host, in the order it is written."""


@frozen
class ImportedHost:
    """One host as it was written elsewhere."""

    name: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Of `SETTINGS` those that were said."""
    aside: str = ""
    """Why it is hardly a host to run on, in a few words; empty for all others."""


@frozen
class Imported:
    """All hosts of a file, in its order, and its groups."""

    hosts: tuple[ImportedHost, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What could not be imported, with names and reasons."""

    def matching(self, pattern: str) -> Imported:
        """Only hosts whose name matches a pattern with `*` and `?`."""
        kept = tuple(host for host in self.hosts if fnmatch(host.name, pattern))
        known = {host.name for host in kept}
        groups = {name: tuple(m for m in members if m in known) for name, members in self.groups.items()}
        return replace(self, hosts=kept, groups={name: members for name, members in groups.items() if members})


def setting(key: str, value: object) -> Setting:
    """What hosts.yaml has for a host's `key`. Raises Wrong for what it can't say."""
    if isinstance(value, Collection) and not isinstance(value, str):  # written out it may be without end
        raise Wrong("is no single value")
    text = str(value)
    if "{" in text or "}" in text:
        raise Wrong("is a template")
    leaf = next(k.shape for k in host_keys.HOST.keys if k.name == key)
    assert isinstance(leaf, Leaf)
    node = Scalar(Source("", text), 1, 1, text, text, loose=True)
    try:
        taken = leaf.take(node)
    except Wrong as wrong:
        raise Wrong(wrong.message or f"expected {leaf.expected}") from None
    return taken if isinstance(taken, int) else str(taken)


def host_name(name: str) -> str:
    """A host's name. Raises Wrong for what hosts.yaml can't call a host."""
    if "[" in name:
        raise Wrong(f"{shown(name)} is not a host name")
    return names.numbered(name)[0].name


def group_name(name: str) -> str:
    """A group's name. Raises Wrong for what hosts.yaml can't call a group."""
    return host_keys.group_key(Scalar(Source("", name), 1, 1, name, name))


def by_ansible(path: str) -> str:
    """The hint for what only Ansible can read: folders of inventories, programs, plugins."""
    name = printable(shlex.quote(path)) if path != "-" else "INVENTORY"
    return f"`ansible-inventory -i {name} --list | distui hosts import ansible -`"
