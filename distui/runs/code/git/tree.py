"""The files of a commit: as git lists them, and as a folder of ours.

Whoever wrote the repository wrote its trees, and git hands out also such as it would never make: a name twice, a folder
that is a link as well, `..`. They are refused before anything is written, and nothing is written through a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from distui.errors import CheckFailed
from distui.frozen import frozen
from distui.plan.content.tree import readable
from distui.runs.code.git.call import TooMany, rows
from distui.runs.code.git.lock import go_on
from distui.runs.code.ignore import Ignored
from distui.runs.code.limits import refuse_too_deep
from distui.whole import whole

LINK = "120000"
SUBMODULE = "160000"
_PROGRAM = "100755"
_LONGEST_LINK = 4095
"""Bytes of where a link leads: Linux takes no more."""
_NO_ROOM = dict.fromkeys(
    map(ord, "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff")
)
"""What a Mac's file system leaves out of names: `.g\u200cit` is `.git` there."""


@frozen
class Listed:
    """A file, link or submodule of a commit."""

    mode: str
    blob: str
    path: str
    size: int = 0


def listed(pieces: Iterable[bytes], what: str) -> Iterator[Listed]:
    """What `git ls-tree -r -l -z` says, as it comes. Raises CheckFailed, which begins with `what`, for too much."""
    try:
        for row in rows(pieces):
            head, _, path = row.partition(b"\t")
            mode, _, blob, size = head.decode().split()
            yield Listed(mode, blob, os.fsdecode(path), whole(size) or 0)
    except TooMany as error:
        raise CheckFailed(f"{what} holds {error.message}", hint="name a smaller folder of it: subdir: FOLDER") from None


def wanted(files: Sequence[Listed], ignored: Ignored, lines_of: Callable[[Listed], list[str]]) -> Iterator[Listed]:
    """The files that the ignore rules leave, by the ignore files among them; `lines_of` reads one of those."""
    by_path = {file.path: file for file in files}

    def below(above: Ignored, folder: str) -> Ignored:
        prefix = f"{folder}/" if folder else ""
        return above.below(folder, lambda name: lines_of(by_path[prefix + name]) if prefix + name in by_path else None)

    known: dict[str, Ignored | None] = {"": below(ignored, "")}
    for file in files:
        rules, parts = known[""], file.path.split("/")
        for count in range(1, len(parts)):
            folder = "/".join(parts[:count])
            if folder not in known:
                known[folder] = None if rules is None or rules.has(folder, folder=True) else below(rules, folder)
            rules = known[folder]
        if rules is not None and not rules.has(file.path, folder=False):
            yield file


def checked(files: Iterable[Listed], what: str) -> Iterator[Listed]:
    """The same files, each with a place of its own inside a folder. Raises CheckFailed, which begins with `what`."""
    leaves: set[str] = set()
    folders: set[str] = set()
    for file in files:
        refuse_too_deep(file.path, what)
        parts = file.path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if any(part in ("", ".", "..") for part in parts):
            raise _refused(what, f"the path {readable(file.path)!r}, which leads out of a folder")
        if any(is_git(part) for part in parts):
            raise _refused(what, f"the path {readable(file.path)!r}, which is a repository's own")
        if file.path in leaves or file.path in folders or not leaves.isdisjoint(above):
            raise _refused(what, f"two things in one place, at {readable(file.path)!r}")
        leaves.add(file.path)
        folders.update(above)
        yield file


def is_git(name: str) -> bool:
    """Whether a file system may take `name` for `.git`: some know no capitals, and leave characters out."""
    return (name if name.isascii() else name.translate(_NO_ROOM)).lower() == ".git"


def _refused(what: str, holds: str) -> CheckFailed:
    hint = "git itself never writes such a commit: ask who made it, or name another ref"
    return CheckFailed(f"{what} holds {holds}; nothing of it was written", hint=hint)


def write(
    folder: Path,
    files: Iterable[Listed],
    asked: IO[bytes],
    answers: IO[bytes],
    what: str,
    given_up: threading.Event | None = None,
) -> None:
    """Make the files in `folder`, an empty one of ours, with what `git cat-file --batch` answers.

    Raises OSError, CheckFailed, which begins with `what`, for an object that is no file's, and GivenUp once that is
    set.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for file in sorted(files, key=lambda file: file.mode == LINK):
            go_on(given_up)
            asked.write(f"{file.blob}\n".encode())
            asked.flush()
            length = _length(answers.readline(), file, what)
            try:
                _make(top, file, answers, length, what)
            except (FileExistsError, NotADirectoryError):
                raise _one_name(file.path, what) from None
            except OSError as exc:
                if exc.errno == errno.ELOOP:
                    raise _one_name(file.path, what) from None
                raise
            answers.read(1)
    finally:
        os.close(top)


def _one_name(path: str, what: str) -> CheckFailed:
    return CheckFailed(
        f"{what} holds {readable(path)!r} and what this machine's file system takes for the same name",
        hint="such names differ in capitals or accents only: rename one, or start from another machine",
    )


def _length(head: bytes, file: Listed, what: str) -> int:
    words = head.split()
    if len(words) != 3 or words[1] != b"blob":
        raise CheckFailed(f"{what} has no content for {readable(file.path)}", hint="is the repository damaged?")
    return int(words[2])


def _make(top: int, file: Listed, answers: IO[bytes], length: int, what: str) -> None:
    with _parent(top, file.path) as (parent, name):
        if file.mode == LINK:
            if length > _LONGEST_LINK:
                raise _refused(what, f"a link of {length} bytes, {readable(file.path)!r}")
            target = answers.read(length)
            if not target or b"\0" in target:
                raise _refused(what, f"a link that leads nowhere, {readable(file.path)!r}")
            os.symlink(target, os.fsencode(name), dir_fd=parent)
            return
        mode = 0o700 if file.mode == _PROGRAM else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, mode, dir_fd=parent), "wb") as made:
            while length > 0 and (piece := answers.read(min(length, 1 << 20))):
                made.write(piece)
                length -= len(piece)
            if length > 0:
                raise CheckFailed(f"{what}: git ended within {readable(file.path)}", hint="try again")


@contextlib.contextmanager
def _parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """The folder of `path` below `top`, made where it lacks and reached through no link, and the name in it."""
    *above, name = path.split("/")
    here = os.dup(top)
    try:
        for part in above:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=here)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)
