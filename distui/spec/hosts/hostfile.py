"""Reads `--hostfile` in the forms of Open MPI, DeepSpeed and Horovod: `host slots=8`, `host:8`, `user@host`."""

from __future__ import annotations

import re

from distui.regex import regex
from distui.spec.hosts import names
from distui.spec.hosts.address import six_login
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.yaml.files import read_text
from distui.spec.yaml.nodes import Source
from distui.spec.yaml.problems import Problems, Wrong, did_you_mean, shown

_COMMENT = regex(r"(^|\s)#.*")
_USER = regex(r"[^\s@:/\-][^\s@:/]{0,63}")
_IGNORED = ("max_slots", "max-slots")
_MAX_SLOTS = 1024


def load_hostfile(path: str) -> Inventory:
    """The inventory in the hostfile at `path`. Raises SpecError."""
    return read_hostfile(read_text(path), path)


def read_hostfile(text: str, path: str) -> Inventory:
    """The inventory in a hostfile's text. Raises SpecError with every problem.

    A line names a host, or a range such as node[01-04], and how many ranks each takes; `#` begins a comment.
    """
    problems = Problems()
    source = Source(path, text)
    found: dict[str, int] = {}
    hosts: list[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = _COMMENT.sub("", line).split()
        column = line.find(words[0]) + 1 if words else 0
        try:
            for host in _hosts(words):
                _only_once(found, host.name, number)
                hosts.append(host)
        except Wrong as wrong:
            problems.add_at(source, number, column, "", wrong.message)
    if not hosts and not problems:
        problems.add_at(source, 0, 0, "", "names no host; a line is written: node01 slots=8")
    problems.raise_any()
    return Inventory(tuple(hosts), path=path)


def _only_once(found: dict[str, int], name: str, line: int) -> None:
    if name in found:
        raise Wrong(f"{name} is already on line {found[name]}; give it one line, with slots=N")
    found[name] = line


def _hosts(words: list[str]) -> list[Host]:
    """The hosts on one line."""
    if not words:
        return []
    name, slots = _colon(words[0])
    for word in words[1:]:
        slots = _slots(word, slots)
    user, at, name = name.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise Wrong(f"{shown(words[0])}: expected user@host")
    return [Host(m.name, user=user or None, slots=slots) for m in names.members(name)]


def _colon(word: str) -> tuple[str, int | None]:
    """`host:8` -> ("host", 8)."""
    name, colon, count = word.rpartition(":")
    return (name, _count(count)) if colon and six_login(word) is None else (word, None)


def _slots(word: str, before: int | None) -> int | None:
    key, equals, value = word.partition("=")
    if not equals:
        raise Wrong(f"{shown(word)} is not understood; a line is written: node01 slots=8")
    if key in _IGNORED:
        return before
    if key != "slots":
        raise Wrong(f"unknown setting {shown(key)}{did_you_mean(key, ['slots', *_IGNORED])}")
    if before is not None:
        raise Wrong("slots are given twice")
    return _count(value)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= _MAX_SLOTS:
        raise Wrong(f"expected a number of slots from 1 to {_MAX_SLOTS}, got {shown(text)}")
    return int(text)
