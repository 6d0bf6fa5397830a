"""Ansible's `group_vars/` and `host_vars/`: variables in files beside an inventory.

Which files belong to a group or host is Ansible's rule
(https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html#organizing-host-and-group-variables): the
first that is there of NAME, NAME.yml, NAME.yaml and NAME.json; where NAME is a folder, all such files in it and in the
folders below it that have no dot in their names, in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from distui.errors import SpecError, UsageError
from distui.files import reason
from distui.spec.yaml.files import read_text
from distui.spec.yaml.problems import printable

_ENDS = ("", ".yml", ".yaml", ".json")
_MOST_FILES = 5_000
_MOST_DEPTH = 20
_VAULT = "$ANSIBLE_VAULT"


class Beside:
    """The variables that files of one folder have for groups or hosts."""

    def __init__(self, load: Callable[[str, str], Any], leave_out: Callable[[str], None]) -> None:
        """`load` makes a value of a text and its path; what can't be read is left out with its reason."""
        self._load = load
        self._leave_out = leave_out
        self._left = _MOST_FILES

    def read(self, folder: Path, names: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Variables with the name they are for, of later files after those of earlier ones."""
        there = {entry.name: entry for entry in self._entries(folder)}
        for name in sorted(names):
            entry = next((there[name + end] for end in _ENDS if name + end in there), None)
            for file in self._files(entry) if entry is not None else ():
                if not self._left:
                    self._leave_out(f"{folder} has over {_MOST_FILES:,} files")
                    return
                self._left -= 1
                value = self._value(file)
                if isinstance(value, dict):
                    yield name, {str(key): one for key, one in value.items()}
                elif value is not None:
                    self._say(file, "expected variables, NAME: VALUE")

    def _say(self, file: Path, why: str) -> None:
        self._leave_out(printable(f"{file}: {why}"))

    def _value(self, file: Path) -> Any:
        """None for a file that is empty or can't be read."""
        try:
            text = read_text(str(file))
            if text.startswith(_VAULT):
                self._say(file, "encrypted: only Ansible can read it")
                return None
            return self._load(text, str(file))
        except SpecError as error:
            wrong = error.problems[0]
            self._say(file, f"{f'line {wrong.line}: ' * bool(wrong.line)}{wrong.message}")
        except UsageError as error:
            self._leave_out(printable(" ".join(error.message.split())))
        return None

    def _files(self, entry: Path, depth: int = 0) -> Iterator[Path]:
        if not os.path.isdir(entry):  # noqa: PTH112 - Path.is_dir() raises where a folder may not be searched
            yield entry
        elif depth and entry.is_symlink():  # Ansible follows it, though it may lead in circles
            self._say(entry, "a link to a folder, which is not followed")
        elif depth >= _MOST_DEPTH:
            self._say(entry, "nested too deeply")
        else:
            for below in self._entries(entry):
                is_folder = os.path.isdir(below)  # noqa: PTH112 - as above
                if below.suffix in (("",) if is_folder else _ENDS):
                    yield from self._files(below, depth + 1)

    def _entries(self, folder: Path) -> list[Path]:
        """What is in a folder by name, less hidden files and an editor's copies."""
        try:
            return sorted(one for one in folder.iterdir() if not one.name.startswith(".") and one.name[-1:] != "~")
        except OSError as error:
            self._say(folder, reason(error))
            return []
