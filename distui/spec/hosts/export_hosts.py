"""The inventory in the forms of other tools: a hostfile of Open MPI and DeepSpeed, an Ansible inventory."""

from __future__ import annotations

from shlex import quote

from distui.spec.hosts.inventory import Host, Inventory


def as_hostfile(found: Inventory) -> str:
    """A line for each host; `slots=` where hosts.yaml says how many GPUs it has."""
    lines = [f"{host.name} slots={count}" if (count := _slots(host)) else host.name for host in found.hosts]
    return "\n".join(lines) + "\n"


def _slots(host: Host) -> int:
    if host.slots is not None:
        return host.slots
    return len(host.gpus) if isinstance(host.gpus, tuple) else host.gpus if isinstance(host.gpus, int) else 0


def as_ansible(found: Inventory) -> str:
    """Hosts with what hosts.yaml says of address, login and port, then its groups."""
    lines = [_ansible(host) for host in found.hosts]
    for group, members in found.groups.items():
        lines += ["", f"[{group}]", *members]
    return "\n".join(lines) + "\n"


def _ansible(host: Host) -> str:
    variables = (("ansible_host", host.addr), ("ansible_user", host.user), ("ansible_port", host.port))
    return " ".join([host.name, *(f"{key}={quote(str(value))}" for key, value in variables if value is not None)])
