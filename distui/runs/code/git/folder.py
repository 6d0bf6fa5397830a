"""Where a folder's repository is and which commit its HEAD names, read from its files.

git itself is not asked there: it would do what that repository's config says, and the folder may be a stranger's.
"""

from __future__ import annotations

import os
from pathlib import Path

from distui.files import read_text, real
from distui.frozen import frozen
from distui.regex import regex

MAX_BYTES = 16 << 20
"""Of packed-refs; larger ones are not read."""
_COMMIT = regex(r"[0-9a-f]{40}([0-9a-f]{24})?")
_DEEPEST = 5
"""Symbolic refs that lead to each other (git's own limit)."""


@frozen
class GitFolder:
    """A repository as its files say it."""

    objects: Path
    commit: str
    prefix: str
    """The folder that was asked about, within the repository; "" for its top."""


def find(folder: Path) -> GitFolder | None:
    """The repository around `folder`; None without one, without a commit, or in a form that is not known (reftable).

    Raises OSError and ValueError for files that can't be read.
    """
    folder = real(folder)
    for top in (folder, *folder.parents):
        place = _git_dir(top)
        if place is None:
            continue
        common = _common(place)
        commit = _commit(place, common)
        prefix = os.path.relpath(folder, top)
        return GitFolder(common / "objects", commit, "" if prefix == "." else prefix) if commit else None
    return None


def top_of(folder: Path) -> Path | None:
    """The top folder of the repository around `folder`, every link followed; None without one. Raises as `find`."""
    folder = real(folder)
    return next((top for top in (folder, *folder.parents) if _git_dir(top) is not None), None)


def _git_dir(top: Path) -> Path | None:
    """The repository's own folder: `.git`, or where a file of that name leads (a worktree, a submodule)."""
    place = top / ".git"
    if place.is_dir():
        return place if (place / "HEAD").exists() else None
    if not place.is_file():
        return None
    word, _, where = _text(place).strip().partition(": ")
    return real(top / where) if word == "gitdir" and where else None


def _common(place: Path) -> Path:
    """Where objects and refs are: elsewhere for a worktree."""
    pointer = place / "commondir"
    return real(place / _text(pointer).strip()) if pointer.is_file() else real(place)


def _commit(place: Path, common: Path) -> str:
    said = _text(place / "HEAD").strip()
    for _ in range(_DEEPEST):
        if _COMMIT.fullmatch(said):
            return said
        name = said.removeprefix("ref: ")
        if name == said or not name.startswith("refs/") or ".." in name.split("/"):
            return ""
        said = _text(common / name).strip() if (common / name).is_file() else _packed(common, name)
    return ""


def _packed(common: Path, name: str) -> str:
    path = common / "packed-refs"
    for line in _text(path).splitlines() if path.is_file() else ():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""


def _text(path: Path) -> str:
    return read_text(path, MAX_BYTES, "surrogateescape")
