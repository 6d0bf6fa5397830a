"""`groups:` of hosts.yaml: names for sets of hosts. A group may name groups above it, so there are no circles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from distui.spec.hosts import names
from distui.spec.yaml.nodes import Items, Node, Scalar, Table
from distui.spec.yaml.problems import Problems, Wrong, did_you_mean, shown

ALL = "all"
"""The group of every host, there without being written."""
_MAX_UNKNOWN = 20
"""Unknown hosts named in one file; looking for the nearest among thousands of names takes time."""


def read_groups(node: Node | None, hosts: Sequence[str], problems: Problems) -> dict[str, tuple[str, ...]]:
    """Each group's hosts, in order. Unknown hosts and groups are noted."""
    groups: dict[str, tuple[str, ...]] = {}
    known = dict.fromkeys(hosts)
    below = {n: word.line for n, (word, _) in node.pairs.items()} if isinstance(node, Table) else {}
    for name, (_, body) in node.pairs.items() if isinstance(node, Table) else ():
        members: dict[str, None] = {}
        for text in _texts(body):
            members |= dict.fromkeys(_members(text, name, known, groups, below, problems))
        groups[name] = tuple(members)
    return groups


def _members(
    node: Scalar,
    group: str,
    known: Mapping[str, None],
    groups: Mapping[str, Sequence[str]],
    lines: Mapping[str, int],
    problems: Problems,
) -> list[str]:
    """The known hosts in one text of a group. `lines` has the line of every group there is."""
    later = [w for w in re.findall(r"@([\w.-]+)", node.text) if w in lines and w not in groups]
    if later:
        where = "itself" if later[0] == group else f"@{later[0]}, which is written on line {lines[later[0]]}"
        problems.add(node, f"groups.{group}", f"names {where}: a group can only name groups above it")
        return []
    try:
        found = names.expand(node.text, {ALL: tuple(known), **groups})
    except Wrong as wrong:
        problems.add(node, f"groups.{group}", wrong.message)
        return []
    unknown = [n for n in found if n not in known]
    if unknown:
        named = ", ".join(shown(n) for n in unknown[:3]) + (" ..." if len(unknown) > 3 else "")
        near = did_you_mean(unknown[0], known) if len(problems) < _MAX_UNKNOWN else ""
        problems.add(node, f"groups.{group}", f"{named} not in hosts{near}")
    return [n for n in found if n in known]


def _texts(node: Node) -> list[Scalar]:
    children = node.items if isinstance(node, Items) else [node]
    return [c for c in children if isinstance(c, Scalar) and c.value is not None]
