"""Reads `hosts.yaml` into an Inventory, or says everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from distui.errors import UsageError
from distui.spec import names
from distui.spec.document import parse
from distui.spec.files import read_text
from distui.spec.groups import read_groups
from distui.spec.host_keys import INVENTORY
from distui.spec.inventory import DataNetwork, Host, Inventory
from distui.spec.nodes import Node, Scalar, Source, Table
from distui.spec.problems import Problems, shown
from distui.spec.shapes import MISSING

_PLACE = re.compile(r"\{[^{}]*\}|[{}]")


def load_inventory(path: str) -> Inventory:
    """The inventory in the file at `path` (`-` is standard input). Raises SpecError."""
    return read_inventory(read_text(path), path)


def read_inventory(text: str, path: str) -> Inventory:
    """The inventory in `text`. `path` is for messages. Raises SpecError with every problem."""
    problems = Problems()
    source = Source(path, text)
    documents = parse(source, problems)
    if not documents and not problems:
        problems.add_at(source, 0, 0, "", "the file is empty; it needs `version: 1` and `hosts:`")
    for extra in documents[1:]:
        problems.add(extra, "", "a second document; hosts.yaml is one document, without a line `---` inside")
    inventory = _inventory(documents[0], path, problems) if documents else Inventory(())
    problems.raise_any()
    return inventory


def inventory_from_names(exprs: Sequence[str]) -> Inventory:
    """The hosts that `-H` names, for use without hosts.yaml; ssh config knows the rest. Raises UsageError."""
    found = {p.name: Host(p.name) for expr in exprs for p in names.picks(expr)}
    if not found:
        raise UsageError("no host is named: give -H with host names, or list them in hosts.yaml")
    return Inventory(tuple(found.values()))


def _inventory(root: Node, path: str, problems: Problems) -> Inventory:
    values = INVENTORY.read(root, "", problems)
    if not isinstance(root, Table):
        return Inventory(())
    hosts_node, defaults_node = root.get("hosts"), root.get("defaults")
    if not isinstance(hosts_node, Table) or values is MISSING:
        return Inventory(())
    if not hosts_node.pairs:
        problems.add(hosts_node, "hosts", "no host is listed; add one, such as node01: {gpus: 8}")
    defaults = values.get("defaults", {})
    found: dict[str, tuple[Host, int]] = {}
    for key, settings in values["hosts"].items():
        word, body = hosts_node.pairs[key]
        entry = _Entry(word, _over(defaults, settings), (body, defaults_node), problems)
        for host in entry.hosts():
            _add(found, host, word, problems)
    groups = read_groups(root.get("groups"), list(found), problems)
    return Inventory(tuple(h for h, _ in found.values()), groups, path)


def _add(found: dict[str, tuple[Host, int]], host: Host, word: Scalar, problems: Problems) -> None:
    if host.name in found:
        line = found[host.name][1]
        problems.add(word, f"hosts.{word.text}", f"{host.name} is already listed on line {line}; list it once")
    else:
        found[host.name] = (host, word.line)


def _over(defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The host's settings over the defaults; labels and data are put together key by key."""
    merged = {**defaults, **settings}
    for nested in ("labels", "data"):
        if nested in defaults and nested in settings:
            merged[nested] = {**defaults[nested], **settings[nested]}
    return merged


class _Entry:
    """One entry of `hosts:`, which may stand for a range of hosts."""

    def __init__(
        self,
        word: Scalar,
        settings: dict[str, Any],
        bodies: tuple[Node | None, ...],
        problems: Problems,
    ) -> None:
        self._word = word
        self._settings = settings
        self._bodies = bodies
        self._problems = problems
        self._members = names.members(word.text)

    def hosts(self) -> list[Host]:
        """The hosts this entry stands for; those with an address that makes no sense are noted and left out."""
        settings = dict(self._settings)
        addr, data = settings.pop("addr", None), settings.pop("data", {})
        data_addr = data.get("addr")
        if not (self._fits(addr, "addr") and self._fits(data_addr, "data", "addr")):
            return []
        engine, command = settings.pop("engine", ("docker", ("docker",)))
        return [
            Host(
                m.name,
                addr=_filled(addr, m),
                engine=engine,
                engine_command=command,
                data=DataNetwork(**{**data, "addr": _filled(data_addr, m)}) if data else DataNetwork(),
                **settings,
            )
            for m in self._members
        ]

    def _fits(self, address: str | None, *keys: str) -> bool:
        """Whether an address gives each host of the range its own."""
        reason = _misfit(address, self._members)
        if reason:
            at = ".".join(("hosts", self._word.text, *keys))
            self._problems.add(self._written(keys) or self._word, at, reason)
        return not reason

    def _written(self, keys: tuple[str, ...]) -> Node | None:
        """Where a setting stands: with the host, or with the defaults."""
        for body in self._bodies:
            node = body
            for key in keys:
                node = node.get(key) if isinstance(node, Table) else None
            if node is not None:
                return node
        return None


def _misfit(address: str | None, members: Sequence[names.Numbered]) -> str:
    """Why an address can't be right for the hosts of a range, or ""."""
    if address is None:
        return ""
    places = _PLACE.findall(address)
    odd = next((p for p in places if p != "{n}"), None)
    if odd:
        return f"{shown(odd)} means nothing here; {{n}} is the number from the host's range"
    if places and any(len(m.numbers) != 1 for m in members):
        return "{n} needs one range in the host's name, such as node[01-04]"
    if not places and len(members) > 1:
        return f"all {len(members)} hosts of this range would get this address; write {{n}} for the range's number"
    return ""


def _filled(address: str | None, member: names.Numbered) -> str | None:
    if address is None or "{" not in address:
        return address
    return address.replace("{n}", str(member.numbers[0]))
