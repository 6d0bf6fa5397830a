"""A report that can be passed on: hosts, users, addresses and serial numbers become `host1`, `user1` and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from distui.facts.host import HostFacts, ProbeResult
from distui.frozen import frozen
from distui.regex import regex
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import expand, fold
from distui.spec.yaml.problems import Wrong

_COMMON = frozenset({"root", "nobody", "localhost", "git", "admin", "ubuntu", "debian", "centos", "rocky", "ec2-user"})
"""Names that tell nothing of anybody."""

_IPV4 = r"(?<![\d.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
_MAC = r"\b(?:[0-9A-Fa-f]{2}:){5,}[0-9A-Fa-f]{2}\b"
_IPV6 = r"(?<![\w:.])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]+:){7})(?!::1?(?![\w:]))[0-9A-Fa-f:]{3,}(?:\.\d+)*(?![\w:])"
_SERIAL = r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
_PRINT = r"\bSHA256:[A-Za-z0-9+/]{43}"
_AGENT_KEY = r"(?:(?<=tried: )|(?<=, )|(?<=after ))[^,;]{1,200}?(?= \(agent\))"
"""What an ssh agent calls a key, as messages of a login have it: its comment, most often somebody's address."""
_LOGIN = r"(?<![\w@.+-])(?!sha256:)[\w+-][\w.+-]*(?=@(?!sha256:|[\w-]+\.service\b)[\w\[])"
_AT = r"(?<=@)(?!sha256:)[A-Za-z][\w-]*(?![\w.-])"
"""The host of a login that is no domain name."""
_DOMAIN = r"(?<![\w.-])(?:[A-Za-z0-9_](?:[\w-]*\w)?\.)+[A-Za-z]{2,}(?![\w-]|\.\w)"
_REGISTRY = r"(?<![\w./:-])[A-Za-z][\w-]*(?=:\d{2,5}/\w)"
"""One without a domain, before the path of an image."""
_SERVER = r"(?<=NFS server )[A-Za-z][\w-]*(?![\w.-])|(?<![\w./:-])[A-Za-z][\w-]*(?=:/[^/\s])"
"""That of an NFS export, without a domain."""
_IN_URL = r"(?<=\w://)(?=[\d.]*[A-Za-z_-])[\w-]+(?:\.[\w-]+)*(?![\w-])"
"""A bucket, or a server whose name is no domain; no address of numbers."""
_SEVERAL = r"(?<![\w.-])[\w.-]*(?:\[[0-9,-]+\][\w.-]*)+"
"""Names of hosts with ranges."""

_PUBLIC = ("docker.io", "nvcr.io", "ghcr.io", "quay.io", "github.com", "nvidia.com", "pytorch.org")
"""Domains that everybody uses."""

_FILES = regex(
    r".*\.(?:bin|cfg|conf|cu|current|db|deb|gz|json|ko|limit|lock|log|md|mode|pem|pub|py|service|sh|slice|so|sock"
    r"|socket|state|tar|target|tgz|tlimit|toml|txt|whl|yaml|yml|zip)"
)
"""What looks like a domain name and is a file, a unit of systemd or a figure of a driver."""

_TOP = regex(
    r".*\.(?:[a-z]{2}|com|net|org|edu|gov|mil|int|info|biz|cloud|dev|app|tech|systems|science|academy"
    r"|local|lan|internal|intranet|intra|corp|home|private|localdomain|test|example|invalid)"
)
"""Domain names of two parts: such words also stand for other things."""


@frozen
class SshNames:
    """Names that ssh's configuration has for one host, as messages about it show them."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    jumps: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Files of keys."""


class Redactor:
    """Gives everything that identifies somebody a name of its own, the same one wherever it stands.

    What is not known of a host that is down, or is of another's, is recognised by its form: domain names, `user@host`.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        results: Mapping[str, ProbeResult],
        *,
        ssh: Mapping[str, SshNames] | None = None,
        more_users: Iterable[str] = (),
    ) -> None:
        """`ssh` has what ssh's configuration says of hosts, by their names."""
        known = ssh or {}
        self._names: dict[str, str] = {}
        self._made: dict[str, dict[str, str]] = {}
        for number, host in enumerate(hosts, 1):
            found, configured = results.get(host.name), known.get(host.name, SshNames())
            names = {host.name, host.addr or "", *configured.hosts}
            names |= {short for name in names if re.search(r"[A-Za-z].*\d|-", short := name.partition(".")[0])}
            if isinstance(found, HostFacts):
                names |= {found.hostname, found.hostname.partition(".")[0]}
            self._know(f"host{number}", names)
        self._count("user", _users(hosts, results, (*more_users, *(u for one in known.values() for u in one.users))))
        self._count("jump", (jump for one in known.values() for jump in one.jumps))
        self._count("key", (key for one in known.values() for key in one.keys))
        self._domains = {name.lower(): made for name, made in self._names.items() if "." in name}
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest)})(?![\w-])") if longest else None

    def _know(self, made: str, names: Iterable[str]) -> None:
        for name in set(names) - {"localhost", ""}:
            if not name.startswith(("127.", "::1")):
                self._names.setdefault(name, made)

    def _count(self, kind: str, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            if name not in self._names and name not in _COMMON | {""}:
                self._names[name] = self._number(kind, name)

    def text(self, text: str) -> str:
        """A text without them."""
        text = re.sub(_AGENT_KEY, partial(self._replaced, "key"), text)
        text = re.sub(_SEVERAL, self._all_of, text)
        if self._known is not None:
            text = self._known.sub(lambda m: self._names[m[0]], text)
        for kind, pattern in _BY_FORM:
            text = re.sub(pattern, partial(self._replaced, kind), text)
        return text

    def _all_of(self, found: re.Match[str]) -> str:
        """Hosts that are written as one, `node[01-04]`: each as if it stood alone."""
        try:
            names = expand(found[0])
        except Wrong:
            return found[0]
        without = tuple(map(self.text, names))
        return fold(dict.fromkeys(without)) if without != names else found[0]

    def _replaced(self, kind: str, found: re.Match[str]) -> str:
        word = found[0]
        server = found.string.endswith(("@", "://"), 0, found.start())
        if word in _COMMON or _MADE.fullmatch(word) or (kind == "name" and _is_no_domain(word, server=server)):
            return word
        known = self._domains.get(word.lower()) if kind == "name" else None
        return known or self._number(kind, word)

    def _number(self, kind: str, word: str) -> str:
        made = self._made.setdefault(kind, {})
        return made.setdefault(word.lower(), f"{kind}{len(made) + 1}")

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


_BY_FORM = (
    ("print", _PRINT),
    ("mac", _MAC),
    ("addr", _IPV4),
    ("addr", _IPV6),
    ("id", _SERIAL),
    ("name", _DOMAIN),
    ("user", _LOGIN),
    ("name", _AT),
    ("name", _REGISTRY),
    ("name", _SERVER),
    ("name", _IN_URL),
)
"""What is known by its form, in this order."""

_MADE = regex(r"(?:host|user|jump|key|print|mac|addr|id|name)\d*")
"""Names that were given here; without a number those of several, before its brackets."""


def _is_no_domain(word: str, *, server: bool) -> bool:
    """Whether it has the form of a domain name, and is a file, a key of distui's own, or everybody's domain. Where a
    `server` stands, behind the `@` of a login or in a URL, a name of two parts is one.
    """
    if "." not in word:
        return False
    low = word.lower()
    if low.startswith("distui.") or any(low == one or low.endswith("." + one) for one in _PUBLIC):
        return True
    if _FILES.fullmatch(low) is not None:
        return True
    return not server and low.count(".") == 1 and _TOP.fullmatch(low) is None
