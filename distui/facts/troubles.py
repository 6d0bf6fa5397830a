"""The same trouble of many hosts, reported once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.regex import regex
from distui.spec.hosts.names import fold


@frozen
class SharedTrouble:
    """One trouble and the hosts that have it."""

    hosts: tuple[str, ...]
    message: str
    """A sentence that names the hosts: `node[01-04]: refuses connections ...`, `can't pull it on node[01-04]: ...`."""
    hint: str = ""


def shared(troubles: Mapping[str, Trouble]) -> tuple[SharedTrouble, ...]:
    """Troubles that differ only in the host's own name and address as one, in the order they were found in.

    A hint that names its host is kept for the first one: `ssh -v node01` says how it goes for the others.
    """
    same: dict[tuple[str, str], list[str]] = {}
    for host, trouble in troubles.items():
        same.setdefault((without_host(host, trouble.message), without_host(host, trouble.hint)), []).append(host)
    found = []
    for (message, _), hosts in same.items():
        first = troubles[hosts[0]]
        text = in_words(hosts[0], first.message) if len(hosts) == 1 else _of_all(hosts, message)
        found.append(SharedTrouble(tuple(hosts), text, first.hint))
    return tuple(found)


def in_words(host: str, message: str) -> str:
    """What is wrong at a host as a sentence that names it: one that begins with it, or says what is on it, or the like.
    Elsewhere its name may be a word of the sentence: a host can be called docker.
    """
    named = re.search(rf"{_BEFORE_NAME}{re.escape(host)}(?![\w.-])", message)
    return message if named else f"{host}: {message}"


def _of_all(hosts: Sequence[str], message: str) -> str:
    """The same of several, from what `without_host` left of their message."""
    text = for_hosts(hosts, message)
    return text if re.search(_BEFORE_NAME + _ANY_HOST, message) else f"{fold(hosts)}: {text}"


_BEFORE_NAME = "(?:^| (?:on|to|of|at|from) )"
"""What stands before the name of a host that a sentence is about."""


def lines(troubles: Mapping[str, Trouble]) -> Iterator[str]:
    """`shared` as lines for people, the way out below each."""
    for one in shared(troubles):
        yield one.message
        if one.hint:
            yield f"  try: {one.hint}"


_ANY_HOST = "\0"
"""Stands for a host's name in texts that are compared; no message has it."""


def without_host(host: str, text: str) -> str:
    """A text to compare with those of other hosts: without its host's name, the address right behind that, and the one
    in a command that `ssh` is to be pasted as.
    """
    behind = _BEHIND_NAME.match(text, len(host)) if text.startswith(host) else None
    rest = text[behind.end() :] if behind is not None else text
    return _without_name(host, _PASTED.sub(_ANY_HOST, rest) if "HostName=" in rest else rest)


_BEHIND_NAME = regex(r"(?: \([^)]*\))?:? ")
_PASTED = regex(r"(?<= -o HostName=)\S+")


def _without_name(host: str, text: str) -> str:
    """A text without that word. A pattern for each of a thousand hosts would take a thousand times as long to make as
    it takes to be looked for.
    """
    parts, begin, at = [], 0, text.find(host) if host else -1
    while at >= 0:
        end = at + len(host)
        if not (_in_name(text[at - 1 : at]) or text[at - 1 : at] == ".") and not _in_name(text[end : end + 1]):
            parts.append(text[begin:at])
            begin = end
            at = text.find(host, end)
        else:
            at = text.find(host, at + 1)
    return _ANY_HOST.join([*parts, text[begin:]])


def _in_name(sign: str) -> bool:
    """Whether a sign goes on a name; none is "" at the ends of a text."""
    return sign.isalnum() or sign in ("_", "-")


def for_hosts(hosts: Sequence[str], text: str) -> str:
    """What `without_host` left of a text that `hosts` have in common, for people: where a name stood stand all."""
    if len(hosts) > 1:
        text = text.replace(f"the name '{_ANY_HOST}'", "these names")
    return text.replace(_ANY_HOST, fold(hosts))
