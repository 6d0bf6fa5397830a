"""Reads `hosts.yaml` into an Inventory, or says everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from distui.errors import UsageError
from distui.regex import regex
from distui.spec.hosts import names
from distui.spec.hosts.groups import read_groups
from distui.spec.hosts.host_keys import INVENTORY
from distui.spec.hosts.inventory import DataNetwork, Host, Inventory
from distui.spec.yaml.files import read_text
from distui.spec.yaml.nodes import Node, Scalar, Source, Table, node_at
from distui.spec.yaml.problems import Problems, Wrong, shown

_WITH_PORT = regex(r"[^:]+:[0-9]{1,5}")
_PLACE = regex(r"\{[^{}]*\}|[{}]")


def load_inventory(path: str) -> Inventory:
    """The inventory in the file at `path` (`-` is standard input). Raises SpecError."""
    return read_inventory(read_text(path), path)


def read_inventory(text: str, path: str) -> Inventory:
    """The inventory in `text`. `path` is for messages. Raises SpecError with every problem."""
    from distui.spec.yaml.document import parse  # the one place here that needs yaml

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
    if not isinstance(root, Table):
        if isinstance(root, Scalar) and " " in root.text and ":" not in root.text:
            another = "is this another tool's file? `distui hosts import` and --hostfile read some"
            problems.add(root, "", f"expected {INVENTORY.expected}; {another}")
        else:
            INVENTORY.read(root, "", problems)
        return Inventory(())
    if root.get("command") or (root.get("name") and root.get("image")):
        checks = "`distui job validate` checks it, `distui run` takes it"
        problems.add(root, "", f"this is a job file, not a hosts.yaml; {checks}")
        return Inventory(())
    values = INVENTORY.read_partial(root, "", problems)
    listed = root.get("hosts")
    if not isinstance(listed, Table):
        return Inventory(())
    if not listed.pairs:
        problems.add(listed, "hosts", "no host is listed; add one, such as node01: {gpus: 8}")
    hosts: list[Host] = []
    lines: dict[str, int] = {}
    for key, (word, body) in listed.pairs.items():
        members = _members(key)
        _once(members, word, lines, problems)
        if key in values["hosts"]:
            settings = _over(values.get("defaults", {}), values["hosts"][key])
            hosts += _hosts(word, members, settings, (body, root.get("defaults")), problems)
    groups = read_groups(root.get("groups"), list(lines), problems)
    return Inventory(tuple(hosts), groups, path)


def _members(key: str) -> tuple[names.Numbered, ...]:
    """The hosts of an entry; none when the key's problem is noted already."""
    try:
        return names.members(key)
    except Wrong:
        return ()


def _once(members: Sequence[names.Numbered], word: Scalar, lines: dict[str, int], problems: Problems) -> None:
    """Note the first host of an entry that another entry has too."""
    twice = next((m.name for m in members if m.name in lines), None)
    if twice:
        message = f"{twice} is already listed on line {lines[twice]}; list it once"
        problems.add(word, f"hosts.{word.text}", message)
    for member in members:
        lines.setdefault(member.name, word.line)


def _over(defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The host's settings over the defaults; labels and data are put together key by key."""
    merged = {**defaults, **settings}
    for nested in ("labels", "data"):
        if nested in defaults and nested in settings:
            merged[nested] = {**defaults[nested], **settings[nested]}
    return merged


def _hosts(
    word: Scalar,
    members: Sequence[names.Numbered],
    settings: dict[str, Any],
    bodies: tuple[Node | None, ...],
    problems: Problems,
) -> list[Host]:
    """The hosts of an entry of `hosts:`; none, with the problem noted, where an address makes no sense.

    `bodies` are where its settings may stand: with the host, and with the defaults.
    """
    settings = dict(settings)
    addr, data = settings.pop("addr", None), settings.pop("data", {})
    data_addr = data.get("addr")
    for address, keys in ((addr, ("addr",)), (data_addr, ("data", "addr"))):
        wrong = _misfit(address, members) or (_not_ip(address, members) if keys[0] == "data" else "")
        if wrong:
            written = next((node for body in bodies if (node := node_at(body, *keys)) is not None), word)
            problems.add(written, ".".join(("hosts", word.text, *keys)), wrong)
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
        for m in members
    ]


def _misfit(address: str | None, members: Sequence[names.Numbered]) -> str:
    """Why an address can't be right for the hosts of a range, or ""."""
    if address is None:
        return ""
    if _WITH_PORT.fullmatch(address):
        return f"{shown(address)}: a port is written beside it, port: {address.rpartition(':')[2]}"
    places = _PLACE.findall(address)
    odd = next((p for p in places if p != "{n}"), None)
    if odd:
        return f"{shown(odd)} means nothing here; {{n}} is the number from the host's range"
    if places and any(len(m.numbers) != 1 for m in members):
        return "{n} needs one range in the host's name, such as node[01-04]"
    if not places and len(members) > 1:
        return f"all {len(members)} hosts of this range would get this address; write {{n}} for the range's number"
    return ""


def _not_ip(address: str | None, members: Sequence[names.Numbered]) -> str:
    """Why `data.addr` is no IP address for each host, or "": the plan compares it with what the host has."""
    for member in members if address else ():
        filled = _filled(address, member) or ""
        try:
            ip_address(filled)
        except ValueError:
            return f"{shown(filled)} for {member.name} is not an IP address"
    return ""


def _filled(address: str | None, member: names.Numbered) -> str | None:
    if address is None or "{" not in address:
        return address
    return address.replace("{n}", str(member.numbers[0]))
