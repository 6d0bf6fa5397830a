"""Ansible's `group_vars/` and `host_vars/`: variables in files beside an inventory.

Which files belong to a group or host is Ansible's rule
(https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html#organizing-host-and-group-variables):
NAME, NAME.yml, NAME.yaml or NAME.json, or all such files in a folder NAME, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from distui.errors import SpecError, UsageError
from distui.files import reason
from distui.spec.files import read_text

_ENDS = (".yml", ".yaml", ".json")
_MOST_FILES = 5_000
_VAULT = "$ANSIBLE_VAULT"


def variables_beside(
    folder: Path, names: Collection[str], load: Callable[[str, str], Any], leave_out: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The variables that files of a folder have for these groups or hosts, each with its name, later ones winning.

    `load` makes a value of a text and its path; what can't be read is left out with its reason.
    """
    for name, file in _files(folder, names, leave_out):
        try:
            text = read_text(str(file))
            if text.startswith(_VAULT):
                leave_out(f"{file} is encrypted: only Ansible can read it")
                continue
            value = load(text, str(file))
        except SpecError as error:
            wrong = error.problems[0]
            leave_out(f"{file}{f':{wrong.line}' * bool(wrong.line)}: {wrong.message}")
        except UsageError as error:
            leave_out(str(error))
        else:
            if isinstance(value, dict):
                yield name, {str(key): one for key, one in value.items()}
            elif value is not None:
                leave_out(f"{file}: expected variables, NAME: VALUE")


def _files(folder: Path, names: Collection[str], leave_out: Callable[[str], None]) -> Iterator[tuple[str, Path]]:
    left = _MOST_FILES
    for entry in _entries(folder, leave_out):
        name = _stem(entry.name)
        if name not in names:
            continue
        for file in _below(entry, leave_out) if entry.is_dir() else (entry,):
            if not left:
                leave_out(f"{folder} has over {_MOST_FILES:,} files")
                return
            left -= 1
            yield name, file


def _below(folder: Path, leave_out: Callable[[str], None]) -> Iterator[Path]:
    """Files in a folder and those below it; links to folders are not followed, which may lead in circles."""
    for entry in _entries(folder, leave_out):
        if entry.is_dir():
            if not entry.is_symlink():
                yield from _below(entry, leave_out)
        elif entry.suffix in ("", *_ENDS):
            yield entry


def _entries(folder: Path, leave_out: Callable[[str], None]) -> list[Path]:
    """What is in a folder by name, less hidden files and an editor's copies."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name[-1:] != "~")
    except OSError as error:
        leave_out(f"{folder}: {reason(error)}")
        return []


def _stem(name: str) -> str:
    return next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)
