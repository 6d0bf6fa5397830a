"""Chooses hosts of an inventory: by name, range, group and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.amounts import counted
from distui.errors import UsageError
from distui.spec.hosts import names
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import HostChoice
from distui.spec.yaml.problems import did_you_mean, printable, shown

_NAMED = 5
"""Unknown hosts named in one message."""


def choose_hosts(
    inventory: Inventory, exprs: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> tuple[HostPick, ...]:
    """The hosts that `exprs` (`-H`) name and that have all of `labels` (`-l`), in the order named, each once.

    Without `exprs` all hosts, in file order; `@all` names them too. Raises UsageError for an unknown host or
    group, for one host named with different GPUs, and when nothing is left.
    """
    if not inventory.hosts:
        raise UsageError(f"{inventory.path or 'hosts.yaml'} lists no hosts", hint="add one, or name hosts with -H")
    by_name = {h.name: h for h in inventory.hosts}
    picks = _picked(inventory, by_name, exprs) if exprs else [HostPick(n) for n in by_name]
    wanted = dict(labels or {})
    chosen = tuple(p for p in picks if _has(by_name[p.name], wanted))
    if not chosen:
        raise UsageError(_none_left(inventory, wanted))
    return chosen


def hosts_of_job(inventory: Inventory, choice: HostChoice) -> tuple[HostPick, ...]:
    """The hosts that a job's `hosts:` means on this inventory. Raises UsageError, also when there are too few."""
    exprs = (f"@{choice.group}",) if choice.group else choice.names
    chosen = choose_hosts(inventory, exprs, choice.label)
    if choice.count is not None and choice.count > len(chosen):
        found = names.fold(p.name for p in chosen)
        raise UsageError(f"the job wants {counted(choice.count, 'host')}, but there are only {len(chosen)}: {found}")
    return chosen[: choice.count]


def parse_label(text: str) -> tuple[str, str]:
    """`-l k=v`. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"-l {shown(text)}: expected KEY=VALUE, such as -l gpu=h100")
    return key, value


def _picked(inventory: Inventory, by_name: Mapping[str, Host], exprs: Sequence[str]) -> list[HostPick]:
    groups = {"all": tuple(by_name), **inventory.groups}
    found: dict[str, HostPick] = {}
    for expr in exprs:
        for pick in names.picks(expr, groups):
            if found.setdefault(pick.name, pick) != pick:
                raise UsageError(f"{pick.name} is named twice with different GPUs; name it once")
    unknown = [n for n in found if n not in by_name]
    if unknown:
        raise UsageError(_unknown(inventory, unknown, by_name))
    return list(found.values())


def _unknown(inventory: Inventory, unknown: Sequence[str], by_name: Mapping[str, Host]) -> str:
    where = printable(inventory.path) or "the inventory"
    if len(unknown) == 1:
        near = did_you_mean(unknown[0], by_name)
        known = "" if near or len(by_name) > 2 * _NAMED else f"; it has {names.fold(by_name)}"
        return f"unknown host {shown(unknown[0])}: not in {where}{near}{known}"
    named = names.fold(unknown[:_NAMED]) + (" ..." if len(unknown) > _NAMED else "")
    return f"{len(unknown)} unknown hosts: {named} not in {where}{did_you_mean(unknown[0], by_name)}"


def _has(host: Host, labels: Mapping[str, str]) -> bool:
    return all(host.labels.get(k) == v for k, v in labels.items())


def _none_left(inventory: Inventory, labels: Mapping[str, str]) -> str:
    if not labels:
        return "no host is chosen: the group is empty"
    wanted = ", ".join(f"{printable(k)}={printable(v)}" for k, v in labels.items())
    have = sorted({f"{k}={v}" for h in inventory.hosts for k, v in h.labels.items() if k in labels})
    used = f"; in use: {', '.join(have[:8])}" if have else ""
    return f"no host has the label {wanted}{used}"
