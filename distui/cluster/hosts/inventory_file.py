"""A hosts.yaml that is changed in place: comments and order stay, and nothing is written that can't be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from distui.errors import SpecError, UsageError
from distui.files import absent, replace_text, writing
from distui.spec.hosts.names import expand, fold
from distui.spec.hosts.read_inventory import read_inventory
from distui.spec.imports.import_hosts import entries
from distui.spec.imports.imported import Imported
from distui.spec.yaml.document import parse
from distui.spec.yaml.edit_text import scalar, set_at
from distui.spec.yaml.files import read_text
from distui.spec.yaml.nodes import Items, Node, Scalar, Source, Table, is_null, node_at
from distui.spec.yaml.problems import Problems, Wrong


class InventoryFile:
    """The file at a path, which need not be there yet, and what it is to become. Changes count once they are saved."""

    def __init__(self, path: str) -> None:
        """Raises SpecError when it can't be read."""
        self.path = path
        self._before = self._on_disk()
        self._text = self._before or "version: 1\n"

    def names(self, table: str) -> list[str]:
        """The keys of a table of the file. Raises as `add`."""
        found = self._value(table)
        return list(found.pairs) if isinstance(found, Table) else []

    def add(self, name: str, settings: str) -> None:
        """A host, or a range of them, with its settings as YAML on one line.

        Raises UsageError when it is listed already or the file can't be changed safely, SpecError when it is wrong.
        """
        if name in self.names("hosts"):
            raise UsageError(f"{self.path}: {name} is listed already", hint="`distui hosts show` shows it")
        self._set(("hosts", name), settings)

    def remove(self, name: str) -> list[str]:
        """Take a host out, also of groups that name it, alone or in a range: which these are. Raises as `add`."""
        self._set(("hosts", name), None)
        groups = []
        for group in self.names("groups"):
            words = self._words(group)
            left = [less for word in words if (less := without(word, name))]
            if left != words:
                self._write_group(group, left)
                groups.append(group)
        return groups

    def range_with(self, name: str) -> str:
        """The entry of several hosts that has this one, "" where none has. Raises as `add`."""
        return next((entry for entry in self.names("hosts") if without(entry, name) != entry), "")

    def join(self, group: str, name: str) -> None:
        """A host as one more word of a group. Raises as `add`."""
        self._write_group(group, [*self._words(group), name])

    def _words(self, group: str) -> list[str]:
        found = self._value("groups", group)
        listed = found.items if isinstance(found, Items) else [found]
        return [word.text for word in listed if isinstance(word, Scalar) and not is_null(word)]

    def _write_group(self, group: str, words: Sequence[str]) -> None:
        value = scalar(words[0]) if len(words) == 1 else "[" + ", ".join(map(scalar, words)) + "]"
        self._set(("groups", group), value)

    def merge(self, found: Imported) -> int:
        """Add those hosts and groups that the file lacks; how many hosts that are. Raises as `add`."""
        known = {h.name for h in read_inventory(self._text, self.path).hosts} if self.names("hosts") else set()
        new = replace(found, hosts=tuple(h for h in found.hosts if h.name not in known))
        for name, line in entries(new.hosts):
            self.add(name, line)
        for group, members in found.groups.items() if new.hosts else ():
            if group not in self.names("groups"):
                self._set(("groups", group), scalar(fold(members)))
        return len(new.hosts)

    def lacking(self, found: Imported) -> dict[str, str]:
        """Group -> hosts, folded, that `found` has in it and the file, which has a group of that name, does not."""
        kept = read_inventory(self._text, self.path).groups if self.names("hosts") else {}
        lacking = {g: [m for m in members if m not in kept[g]] for g, members in found.groups.items() if g in kept}
        return {group: fold(names) for group, names in lacking.items() if names}

    def save(self) -> None:
        """Write the file when it is right; its mode stays, and a link to it. Raises SpecError with what is wrong, or
        would be, and UsageError where another program has changed it meanwhile.
        """
        try:
            read_inventory(self._text, self.path)
        except SpecError:
            if self._before and isinstance(node_at(_root(self.path, self._before), "hosts"), Table):
                read_inventory(self._before, self.path)
            raise
        if self._on_disk() != self._before:
            hint = "do it again: nothing was written"
            raise UsageError(f"{self.path} was changed by another program meanwhile", hint=hint)
        with writing(self.path):
            replace_text(Path(os.path.realpath(self.path)), self._text)
        self._before = self._text

    def _on_disk(self) -> str | None:
        return None if absent(self.path) else read_text(self.path)

    def _value(self, *keys: str) -> Node | None:
        return node_at(_root(self.path, self._text), *keys)

    def _set(self, keys: Sequence[str], value: str | None) -> None:
        """Set one entry, or take it out."""
        if self._value(keys[0]) is None and value is not None:
            self._text = f"{self._text.rstrip()}\n{keys[0]}:\n  {scalar(keys[1])}: {value}\n"
            return
        changed = set_at(self._text, keys, value)
        if changed is None:
            raise _unsafe(self.path)
        self._text = changed


def without(word: str, name: str) -> str:
    """A set of hosts without those of `name`, "" where that was all; as it is where it has none of them."""
    try:
        names, gone = expand(word), {*expand(name)}
    except Wrong:  # a group, or what is wrong in another way, which is said when the file is saved
        return word
    return word if gone.isdisjoint(names) else fold(one for one in names if one not in gone)


def _root(path: str, text: str) -> Table | None:
    """The file as it is written, None when nothing is in it.

    Raises SpecError when it is not YAML as every command reads it, or has something else where hosts and groups are
    listed, with what `hosts validate` says: that would be written over.
    """
    problems = Problems()
    documents = parse(Source(path, text), problems)
    if problems or not all(isinstance(d, Table) for d in documents) or len(documents) > 1:
        read_inventory(text, path)
    root = next((d for d in documents if isinstance(d, Table)), None)
    if root is not None and not _has_lists_in_place(root):
        read_inventory(text, path)
        raise _unsafe(path)
    return root


def _has_lists_in_place(root: Table) -> bool:
    """Whether hosts and groups are tables, or not written, and each group is words: what entries can be added to."""
    hosts, groups = root.get("hosts"), root.get("groups")
    if not all(node is None or is_null(node) or isinstance(node, Table) for node in (hosts, groups)):
        return False
    listed = [value for _, value in groups.pairs.values()] if isinstance(groups, Table) else []
    words = [word for value in listed for word in (value.items if isinstance(value, Items) else [value])]
    return all(isinstance(word, Scalar) for word in words)


def _unsafe(path: str) -> UsageError:
    return UsageError(f"{path} can't be changed safely", hint="`distui hosts validate` says what is wrong with it")
