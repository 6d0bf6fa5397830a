"""Hosts as other tools write them down, and as entries of hosts.yaml.

Read are OpenSSH's config (`import_ssh`), Ansible's inventories in both forms (`import_ansible`), hostfiles of Open MPI,
DeepSpeed and Horovod, and node sets such as `node[001-064]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from distui.errors import UsageError
from distui.spec.hosts import names
from distui.spec.imports.imported import Imported, ImportedHost, Setting
from distui.spec.yaml.edit_text import scalar
from distui.spec.yaml.problems import Wrong

Form = Literal["ssh-config", "ansible", "hostfile", "nodeset"]


def read(text: str, form: Form, path: str) -> Imported:
    """The hosts in a text. Raises UsageError, or SpecError with every problem of a hostfile."""
    found = _read(text, form, path)
    if not found.hosts:
        why = f": {'; '.join(found.remarks[:3])}" if found.remarks else ""
        raise UsageError(f"{path} names no host{why}", hint=f"is it a file of the form {form}?")
    return replace(found, hosts=tuple({host.name: host for host in found.hosts}.values()))


def _read(text: str, form: Form, path: str) -> Imported:
    match form:
        case "ssh-config":
            from distui.spec.imports.import_ssh import read_ssh_config

            return read_ssh_config(text, path)
        case "hostfile":
            return _hostfile(text, path)
        case "nodeset":
            return Imported(tuple(ImportedHost(name) for word in text.split() for name in _expanded(word, path)))
        case "ansible":
            from distui.spec.imports.import_ansible import read_ansible

            return read_ansible(text, path)


def _expanded(word: str, path: str) -> tuple[str, ...]:
    try:
        return names.expand(word)
    except Wrong as wrong:
        raise UsageError(f"{path}: {wrong.message}") from None


def _hostfile(text: str, path: str) -> Imported:
    from distui.spec.hosts.hostfile import read_hostfile

    hosts = read_hostfile(text, path).hosts
    slots = any(host.slots is not None for host in hosts)
    remarks = ("slots are left out: hosts.yaml has `gpus`, jobs have `ranks: {per_host: N}`",) if slots else ()
    return Imported(tuple(ImportedHost(h.name, {"user": h.user} if h.user else {}) for h in hosts), remarks=remarks)


# As hosts.yaml


def entries(hosts: Sequence[ImportedHost]) -> list[tuple[str, str]]:
    """(name or range, settings on one line) for each entry of `hosts:`; neighbours with equal settings are a range."""
    found = []
    for settings, group in groupby(hosts, key=lambda host: tuple(host.settings.items())):
        members = [host.name for host in group]
        folded = names.fold(members) if not any(key == "addr" for key, _ in settings) else ",".join(members)
        found += [(piece, _line(settings)) for piece in names.split(folded)]
    return found


def _line(settings: Sequence[tuple[str, Setting]]) -> str:
    return "{" + ", ".join(f"{k}: {v if isinstance(v, int) else scalar(v)}" for k, v in settings) + "}"


def as_yaml(found: Imported) -> str:
    """A whole hosts.yaml."""
    lines = ["version: 1", "hosts:", *(f"  {scalar(name)}: {line}" for name, line in entries(found.hosts))]
    if found.groups:
        lines += ["groups:", *(f"  {scalar(g)}: {scalar(names.fold(members))}" for g, members in found.groups.items())]
    return "\n".join(lines) + "\n"
