"""A report that can be passed on: hosts, users, addresses and serial numbers become `host1`, `user1` and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from distui.facts.host import HostFacts, ProbeResult
from distui.spec.hosts.inventory import Host

_COMMON = frozenset({"root", "nobody", "localhost"})
"""Names that tell nothing of anybody."""

_IPV4 = r"(?<![\d.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
_MAC = r"\b(?:[0-9A-Fa-f]{2}:){5,}[0-9A-Fa-f]{2}\b"
_IPV6 = r"(?<![\w:.])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]+:){7})(?!::1?(?![\w:]))[0-9A-Fa-f:]{3,}(?:\.\d+)*(?![\w:])"
_SERIAL = r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"


class Redactor:
    """Gives everything that identifies somebody a name of its own, the same one wherever it stands."""

    def __init__(
        self, hosts: Sequence[Host], results: Mapping[str, ProbeResult], *, more_users: Iterable[str] = ()
    ) -> None:
        self._names: dict[str, str] = {}
        self._made: dict[str, dict[str, str]] = {}
        for number, host in enumerate(hosts, 1):
            found = results.get(host.name)
            names = {host.name, host.addr or ""}
            if isinstance(found, HostFacts):
                names |= {found.hostname, found.hostname.partition(".")[0]}
            for name in names - _COMMON - {""}:
                self._names.setdefault(name, f"host{number}")
        for number, user in enumerate(_users(hosts, results, more_users), 1):
            self._names.setdefault(user, f"user{number}")
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest)})(?![\w-])") if longest else None

    def text(self, text: str) -> str:
        """A text without them."""
        if self._known is not None:
            text = self._known.sub(lambda m: self._names[m[0]], text)
        for kind, pattern in (("mac", _MAC), ("addr", _IPV4), ("addr", _IPV6), ("id", _SERIAL)):
            text = re.sub(pattern, partial(self._number, kind), text)
        return text

    def _number(self, kind: str, found: re.Match[str]) -> str:
        made = self._made.setdefault(kind, {})
        return made.setdefault(found[0], f"{kind}{len(made) + 1}")

    def value(self, value: Any) -> Any:
        """A JSON value without them, keys of objects included."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.value(item) for key, item in value.items()}
            case list() | tuple():
                return [self.value(item) for item in value]
            case _:
                return value


def _users(hosts: Sequence[Host], results: Mapping[str, ProbeResult], more: Iterable[str]) -> list[str]:
    """Logins, and owners of processes on GPUs."""
    found = {host.user or "" for host in hosts} | set(more)
    for result in results.values():
        if isinstance(result, HostFacts):
            found |= {result.user or "", *(p.user or "" for g in result.gpu.gpus for p in g.processes)}
    return sorted(found - _COMMON - {""})
