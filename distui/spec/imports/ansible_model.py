"""An Ansible inventory as values: hosts, groups of groups, variables, and which of them holds for a host.

Precedence is Ansible's (https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html): `all`, then
parents before children; of groups at one depth `ansible_group_priority` and then the name decide; what group_vars/ says
after all that the inventory says of groups; a host's own variables win, and of these host_vars/.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from distui.spec.hosts import names
from distui.spec.imports import ansible_ranges, imported
from distui.spec.imports.imported import SETTINGS, Imported, ImportedHost, Setting
from distui.spec.yaml.problems import Wrong, shown
from distui.whole import whole

_VARIABLES = {
    "addr": ("ansible_host", "ansible_ssh_host"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "port": ("ansible_port", "ansible_ssh_port"),
}
"""The names of each setting; the last one that is set counts, as in Ansible's ssh connection."""
_NO_PLACE = {
    "ansible_ssh_private_key_file": "write IdentityFile in ~/.ssh/config",
    "ansible_private_key_file": "write IdentityFile in ~/.ssh/config",
    "ansible_ssh_common_args": "write what it sets (ProxyJump ...) in ~/.ssh/config",
    "ansible_ssh_extra_args": "write what it sets in ~/.ssh/config",
    "ansible_password": "use a key or an ssh agent",
    "ansible_ssh_pass": "use a key or an ssh agent",
    "ansible_ssh_password": "use a key or an ssh agent",
}
"""What belongs to a login and can't stand in hosts.yaml, with what to do."""
_OVER_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "libssh")
_MOST_DEPTH = 100
_OWN_GROUPS = ("all", "ungrouped")


class AnsibleInventory:
    """Hosts and groups while an inventory is read; a host may be named many times."""

    def __init__(self) -> None:
        self._hosts: dict[str, dict[str, Any]] = {}
        self._members: dict[str, dict[str, None]] = {"all": {}}
        self._children: dict[str, dict[str, None]] = {}
        self._variables: dict[str, dict[str, Any]] = {}
        self._folder_variables: dict[str, dict[str, Any]] = {}
        """Of groups, from group_vars/: stronger than all that the inventory says of groups."""
        self._left_out: dict[str, dict[str, None]] = {}

    @property
    def groups(self) -> set[str]:
        """Every group that was named."""
        return {*_OWN_GROUPS, *self._members, *self._children}

    @property
    def hosts(self) -> set[str]:
        """Every host that was named."""
        return set(self._hosts)

    def leave_out(self, why: str, host: str = "") -> None:
        """Something can't be imported; the hosts it is about are gathered."""
        self._left_out.setdefault(why, {}).update({host: None} if host else {})

    def add(self, pattern: str, variables: Mapping[str, Any], group: str) -> None:
        """A host, or a range of them, of a group."""
        try:
            found, port = self._names(pattern)
        except Wrong as wrong:
            self.leave_out(wrong.message)
            return
        for name in found:
            own = self._hosts.setdefault(name, {})
            own |= ({"ansible_port": port} if port else {}) | dict(variables)
            self._members.setdefault(group, {})[name] = None

    def _names(self, pattern: str) -> tuple[tuple[str, ...], str]:
        """The hosts of a pattern, and a port behind it. Raises Wrong."""
        if pattern in self._hosts:
            return (pattern,), ""
        found, port = ansible_ranges.parse(pattern)
        return tuple(imported.host_name(name) for name in found), port

    def add_child(self, group: str, child: str) -> None:
        """A group of a group."""
        self._children.setdefault(group, {})[child] = None
        self._members.setdefault(child, {})

    def add_variables(self, group: str, variables: Mapping[str, Any]) -> None:
        """Variables that hold for a group; later ones win."""
        self._variables.setdefault(group, {}).update(variables)

    def add_folder_variables(self, group: str, variables: Mapping[str, Any]) -> None:
        """Variables that a file in group_vars/ has for a group; later ones win."""
        self._folder_variables.setdefault(group, {}).update(variables)

    def add_host_variables(self, name: str, variables: Mapping[str, Any]) -> None:
        """Variables of a host that is named elsewhere."""
        if name in self._hosts:
            self._hosts[name].update(variables)

    def imported(self) -> Imported:
        """Everything that hosts.yaml can say; the rest as remarks."""
        strongest_last = self._ranked()
        holds = self._groups_of_hosts(strongest_last)
        hosts = [found for name in self._hosts if (found := self._host(name, holds[name])) is not None]
        known = {host.name for host in hosts}
        groups = {}
        for group in dict.fromkeys([*self._members, *self._children]):
            members = tuple(m for m in dict.fromkeys(self._all(group, set())) if m in known)
            if group not in _OWN_GROUPS and members and self._can_be_called(group):
                groups[group] = members
        return Imported(tuple(hosts), groups, tuple(self._remarks()))

    def _can_be_called(self, group: str) -> bool:
        try:
            imported.group_name(group)
        except Wrong as wrong:
            self.leave_out(f"group {wrong.message}")
            return False
        return True

    def _remarks(self) -> Iterator[str]:
        for why, hosts in self._left_out.items():
            yield f"left out: {names.fold(hosts)}: {why}" if hosts else f"left out: {why}"

    def _all(self, group: str, seen: set[str]) -> Iterator[str]:
        """Hosts of a group and of the groups below it."""
        open_ = [group]
        while open_:
            one = open_.pop(0)
            if one not in seen:
                seen.add(one)
                yield from self._members.get(one, ())
                open_[:0] = self._children.get(one, ())

    def _host(self, name: str, groups: Sequence[str]) -> ImportedHost | None:
        """A host with what holds for it; None when it is not reached over ssh."""
        variables: dict[str, Any] = {}
        for said in (self._variables, self._folder_variables):
            for group in groups:
                variables |= said.get(group, {})
        variables |= self._hosts[name]
        connection = _text(variables.get("ansible_connection") or "ssh").rpartition(".")[2]
        if connection not in _OVER_SSH:
            self.leave_out(f"ansible_connection {shown(connection)} is not ssh", name)
            return None
        for option in _NO_PLACE.keys() & variables.keys():
            self.leave_out(f"{option} has no place in hosts.yaml: {_NO_PLACE[option]}", name)
        settings = {key: value for key in SETTINGS if (value := self._setting(name, key, variables)) is not None}
        if settings.get("addr") == name:  # says nothing that the name does not
            del settings["addr"]
        return ImportedHost(name, settings)

    def _setting(self, name: str, key: str, variables: Mapping[str, Any]) -> Setting | None:
        given = [(v, variables[v]) for v in _VARIABLES[key] if variables.get(v) not in (None, "")]
        if not given:
            return None
        variable, value = given[-1]
        try:
            return imported.setting(key, value)
        except Wrong as wrong:
            self.leave_out(f"{variable} {shown(_text(value))}: {wrong.message}", name)
            return None

    def _groups_of_hosts(self, ranked: Sequence[str]) -> dict[str, list[str]]:
        """For each host the groups whose variables hold for it, the weakest first."""
        found: dict[str, list[str]] = {name: [] for name in self._hosts}
        for group in ranked:
            for name in self._hosts if group == "all" else self._all(group, set()):
                found[name].append(group)
        return found

    def _ranked(self) -> list[str]:
        """The groups with variables, the weakest first."""
        depths = self._depths()
        return sorted(
            self._variables.keys() | self._folder_variables.keys(),
            key=lambda group: (group != "all", depths.get(group, 1), self._priority(group), group),
        )

    def _priority(self, group: str) -> int:
        value = _text(self._variables.get(group, {}).get("ansible_group_priority", 1))
        priority = whole(value, 9)
        return 1 if priority is None else priority

    def _depths(self) -> dict[str, int]:
        """How far each group of groups is from the top, by the longest way. Circles end at the bound."""
        depths: dict[str, int] = {}
        for depth in range(2, _MOST_DEPTH):
            deeper = {child for group, children in self._children.items() if group != "all" for child in children
                      if depths.get(group, 1) == depth - 1 and depths.get(child, 1) < depth}  # fmt: skip
            if not deeper:
                break
            depths |= dict.fromkeys(deeper, depth)
        return depths


def _text(value: object) -> str:
    """A single value as it is written; of lists and tables, which may be without end, only that they are some."""
    return str(value) if isinstance(value, str) or not isinstance(value, Collection) else "(a list or table)"
