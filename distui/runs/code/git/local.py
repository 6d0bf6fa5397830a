"""A repository of this machine: which folder git is to read, and every folder that it would read with it.

A repository may be a stranger's, and lead elsewhere by more than its name: a `.git` that is a file or a link, a
`commondir`, `alternates`, links among its objects. Whoever names it takes all of that.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from distui.errors import UsageError
from distui.files import exists, open_to_read, read_text, real, reason
from distui.frozen import frozen
from distui.plan.content.tree import readable
from distui.runs.code.git.lock import go_on

_MOST_BYTES = 1 << 20
_LONGEST_NAME = 8 << 10
_MOST_ENTRIES = 500_000
"""Files and folders that are looked at for links: a repository with that many loose objects is none to send."""
_MOST_PLACES = 64
_READ = ("objects", "refs", "reftable", "info")
"""Of a repository's folders those that git reads to hand out commits."""


@frozen
class LocalRepository:
    """Where a repository's own folder is, and the folders that its content comes from, every link followed."""

    git_dir: Path
    places: tuple[Path, ...]
    """First the one that was named."""


def local(folder: Path, given_up: threading.Event | None = None) -> LocalRepository:
    """The repository that git would take `folder` for; itself where there is none, which git then says.

    Raises UsageError for one that can't be looked through, and GivenUp once that is set.
    """
    named = real(folder)
    if not exists(named) and exists(dotted := real(Path(f"{named}.git"))):
        named = dotted
    try:
        git_dir = _git_dir(named)
        found = _Walk(named, git_dir, given_up)
        found.look()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"code: the repository {readable(str(named))} can't be looked through: {_words(error)}",
            hint="name another one, or a clone of it",
        ) from error
    return LocalRepository(git_dir, tuple(_outermost(found.places)))


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{readable(str(error.filename))} {reason(error)}"
    return str(error)


def _git_dir(named: Path) -> Path:
    """By git's own order: `.git` in it, a folder or a file that leads to one, before itself."""
    for place in (named / ".git", named):
        if place.is_file():
            word, colon, where = _head(place).partition(": ")
            if word == "gitdir" and colon:
                return real(place.parent / where.rstrip("\r\n"))
        elif place.is_dir() and (place / "HEAD").exists():
            return real(place)
    return named


class _Walk:
    """All folders that a repository's content comes from."""

    def __init__(self, named: Path, git_dir: Path, given_up: threading.Event | None) -> None:
        self._given_up = given_up
        self.places = [named]
        self._objects: set[Path] = set()
        self._left = _MOST_ENTRIES
        self._add(git_dir)
        self._git_dirs = [git_dir]

    def look(self) -> None:
        """Raises OSError, and ValueError for a repository that is too much or that git would wait for."""
        for git_dir in self._git_dirs:
            common = git_dir / "commondir"
            if common.is_file():
                self._shared(real(git_dir / _text(common).rstrip("\r\n")))
            for item in _entries(git_dir, top=True) if git_dir.is_dir() else ():
                _refuse_endless(item)
                if item.name in _READ and item.is_dir():
                    self._folder(real(Path(item.path)))
            self._alternates(real(git_dir / "objects"))

    def _shared(self, git_dir: Path) -> None:
        if git_dir not in self._git_dirs:
            self._add(git_dir)
            self._git_dirs.append(git_dir)

    def _add(self, place: Path) -> None:
        if place not in self.places:
            if len(self.places) >= _MOST_PLACES:
                raise ValueError(f"it leads to more than {_MOST_PLACES} other folders")
            self.places.append(place)

    def _folder(self, folder: Path) -> None:
        """A folder of objects or refs, with everything below it."""
        self._add(folder)
        todo = [folder]
        for place in todo:
            go_on(self._given_up)
            for item in _entries(place, top=place == folder):
                self._left -= 1
                if self._left < 0:
                    raise ValueError(f"it holds more than {_MOST_ENTRIES} files")
                _refuse_endless(item)
                if item.is_symlink():
                    self._link(real(Path(item.path)))
                elif item.is_dir():
                    todo.append(Path(item.path))

    def _link(self, real: Path) -> None:
        if not real.is_dir():
            self._add(real.parent)
        elif real not in self.places:
            self._folder(real)

    def _alternates(self, objects: Path) -> None:
        """Where more objects are, a folder a line."""
        path = objects / "info" / "alternates"
        if objects in self._objects or not path.is_file():
            return
        self._objects.add(objects)
        for line in _text(path).split("\n"):
            if line.startswith('"'):
                raise ValueError(f"{readable(str(path))} has a name in quotes, which distui does not read")
            if line and not line.startswith("#"):
                for place in (
                    real(objects / line),
                    real(Path(os.path.normpath(objects / line))),
                ):  # git's: the latter
                    self._link(place)
                    self._alternates(place)


def _entries(folder: Path, *, top: bool) -> Iterator[os.DirEntry[str]]:
    """What is in a folder. Below the `top` one that is gone by now, or not ours to read, is none to git either."""
    try:
        with os.scandir(folder) as items:
            yield from items
    except (FileNotFoundError, PermissionError):
        if top:
            raise


def _refuse_endless(item: os.DirEntry[str]) -> None:
    """git would wait for a FIFO's other end, and read a device for ever; a socket it can't open."""
    if item.is_file(follow_symlinks=False):
        return
    try:
        mode = item.stat().st_mode
    except OSError:  # a link that leads nowhere
        return
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise ValueError(f"{readable(item.path)} is a FIFO or a device")


def _head(path: Path) -> str:
    """The beginning of a file: a bundle, which git also takes, may be large."""
    with open_to_read(path) as file:
        return file.read(_LONGEST_NAME).decode("utf-8", "surrogateescape")


def _text(path: Path) -> str:
    return read_text(path, _MOST_BYTES, "surrogateescape")


def _outermost(places: list[Path]) -> Iterator[Path]:
    """The first, as it was named, and those of the others that are in no other place."""
    named, *others = places
    yield named
    yield from (one for one in others if not any(place in one.parents for place in places))
