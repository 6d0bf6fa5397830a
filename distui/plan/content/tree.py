"""A folder's content as a value: every file with its hash, and one id that two equal folders share. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from distui.frozen import frozen
from distui.plan.visible import visible

Kind = Literal["file", "link", "folder"]

_FORM = b"distui-tree-1\0"
ID_LENGTH = 32
"""Hex digits of an id: 128 bits, and a folder's name that people can still read."""


@frozen
class Entry:
    """One thing in a tree; folders only where they are empty. Of the mode only whether it may be executed is kept.

    `path` is relative, with `/`; bytes that are not UTF-8 are lone surrogates, as `os.fsdecode` gives them.
    """

    path: str
    kind: Kind = "file"
    size: int = 0
    executable: bool = False
    sha256: str = ""
    target: str = ""
    """Of a link."""


@dataclass(frozen=True)
class Tree:
    """A folder's content, entries by path."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Tree:
        """The tree of these entries, in whatever order they come."""
        return cls(tuple(sorted(entries, key=lambda e: raw(e.path))))

    @cached_property
    def id(self) -> str:
        """Equal for equal content, whatever machine, time or owner the files have."""
        digest = hashlib.sha256(_FORM)
        for e in self.entries:
            fields = (e.kind.encode(), b"x" if e.executable else b"", e.sha256.encode(), raw(e.target), raw(e.path))
            digest.update(b"\0".join(fields) + b"\0")
        return digest.hexdigest()[:ID_LENGTH]

    @cached_property
    def files(self) -> tuple[Entry, ...]:
        """The files alone."""
        return tuple(e for e in self.entries if e.kind == "file")

    @cached_property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(e.size for e in self.files)

    @cached_property
    def by_hash(self) -> dict[str, Entry]:
        """One file for each content."""
        return {e.sha256: e for e in reversed(self.files)}

    @cached_property
    def listed(self) -> bytes:
        """All entries as one line of JSON, made once for all hosts."""
        rows = [(e.path, e.kind, e.executable, e.size, e.sha256, e.target) for e in self.entries]
        return json.dumps(rows).encode() + b"\n"


def readable(path: str) -> str:
    """A path for words: what is no UTF-8 as `\\udcff`, control characters too."""
    return visible(path.encode("utf-8", "backslashreplace").decode())


def raw(text: str) -> bytes:
    """The bytes of a path: UTF-8, and what is not UTF-8 as it was."""
    return text.encode("utf-8", "surrogateescape")
