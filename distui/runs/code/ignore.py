"""What of a folder is left out, by git's own rules: `.gitignore` and `.distuiignore` in every folder, and the job's.

`.dockerignore` is not read: its patterns are anchored and mean other things than gitignore's, and it says what an image
is built from.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from distui.errors import UsageError
from distui.files import NotAFile, TooLarge, read_below
from distui.runs.code.git_lines import Classes, as_bytes, for_pathspec
from distui.runs.code.wildcards import TooSlow, Wildcard

ALWAYS = ("__pycache__/",)
"""Left out unless something says otherwise. `.git` never goes along."""
FILES = (".gitignore", ".distuiignore")
"""The later wins within a folder; a deeper folder's wins over those above it."""

MAX_BYTES = 256 << 10
"""Of an ignore file; the longest that people keep have a tenth of it."""


class Ignored:
    """The rules that hold in one folder. `git_files` off: a repository's files were chosen by git already."""

    def __init__(self, patterns: Sequence[str] = (), *, git_files: bool = True) -> None:
        self._files = FILES if git_files else FILES[1:]
        self._own: tuple[_Rules, ...] = (_Rules("", patterns),) if patterns else ()
        self._others: tuple[_Rules, ...] = (_Rules("", ALWAYS),)
        """The nearest first."""

    def below(self, path: str, lines_of: Callable[[str], list[str] | None]) -> Ignored:
        """The rules in the folder that is `path` in the tree; `lines_of` gives those of an ignore file in it.

        Raises what that does, and ValueError for what is no pattern.
        """
        return self._and(
            [_Rules(path, found) for name in reversed(self._files) if (found := lines_of(name)) is not None]
        )

    def around(self, folder: Path, top: Path) -> Ignored:
        """The rules in `folder`, with those that its repository, whose top is `top`, has in the folders above it: none,
        where they leave out `folder` itself, which is no part of the repository then.

        Both with every link followed. Raises as `below`.
        """
        parts = folder.relative_to(top).parts if FILES[0] in self._files else ()
        found, way = self, Ignored()
        for depth in range(len(parts)):
            above, inside = "/".join(parts[:depth]), "/".join(parts[depth:])
            read = (ignore_lines(top, posixpath.join(above, name)) for name in reversed(FILES))
            files = [lines for lines in read if lines is not None]
            found = found._and([_Rules("", lines, f"{inside}/") for lines in files])
            way = way._and([_Rules(above, lines) for lines in files])
            if way.has("/".join(parts[: depth + 1]), folder=True):
                return self
        return found

    def _and(self, nearer: Sequence[_Rules]) -> Ignored:
        if not nearer:
            return self
        deeper = Ignored.__new__(Ignored)
        deeper._files, deeper._own, deeper._others = self._files, self._own, (*nearer, *self._others)
        return deeper

    def has(self, path: str, *, folder: bool) -> bool:
        """Whether `path` is left out. Of a folder that is, nothing is looked at."""
        path = as_bytes(path)
        for rules in (*self._own, *self._others):
            said = rules.say(path, folder=folder)
            if said is not None:
                return said
        return False


class _Rules:
    """Patterns of one file, relative to its folder: `base` in the tree, or above it, which is `inside` that one."""

    def __init__(self, base: str, patterns: Iterable[str], inside: str = "") -> None:
        from pathspec import GitIgnoreSpec  # only for jobs with code

        self._skip = len(as_bytes(base)) + 1 if base else 0
        self._inside = as_bytes(inside)
        classes = Classes()
        lines = [(for_pathspec(as_bytes(line), classes), line) for line in patterns]
        written = dict(lines)
        found = GitIgnoreSpec.from_lines(line for line, _ in lines).patterns
        self._patterns = [
            (bool(p.include), Wildcard(written.get(str(p.pattern), ""), _as_git(p.regex, classes)))
            for p in reversed(found)
            if p.include is not None and p.regex
        ]

    def say(self, path: str, *, folder: bool) -> bool | None:
        """True to leave it out, False to keep it, None when no pattern names it. The last one that does decides."""
        name = self._inside + path[self._skip :]
        for include, pattern in self._patterns:
            if _names(pattern, name, folder=folder):
                return include
        return None


def _names(wildcard: Wildcard, name: str, *, folder: bool) -> bool:
    """Whether a pattern names this very thing.

    pathspec's patterns also match what is below a folder they name, and mark its slash as `ps_d`. Folders are looked
    at by themselves here, and asking for both would let `!folder/` take back what another pattern says of a file in it.
    """
    match = wildcard.search(name)
    if match and match.groupdict().get("ps_d") is None:
        return True
    if not folder:
        return False
    match = wildcard.search(f"{name}/")
    return match is not None and match.groupdict().get("ps_d") is not None and match.end() == len(name) + 1


def _as_git(made: re.Pattern[str], classes: Classes) -> re.Pattern[str]:
    """pathspec's expression as git means the line, with its brackets: of `*/`, any folder, pathspec finds the first
    slash of a path, not that of the folder asked about.
    """
    if made.pattern == "(?P<ps_d>/)":
        return re.compile("(?P<ps_d>/)$")
    meant = classes.put_into(made.pattern)
    return made if meant == made.pattern else re.compile(meant, made.flags)


def ignore_lines(folder: Path, name: str) -> list[str] | None:
    """The lines of an ignore file, which may be a stranger's; None where there is none.

    A link to a file within `folder` is that file. Raises OSError for one that leads elsewhere, for what is no regular
    file, and for one that is larger than ignore files are.
    """
    try:
        return lines_in(read_below(folder, _meant(folder, name), MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def lines_in(data: bytes) -> list[str]:
    """The lines of an ignore file."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _meant(folder: Path, name: str) -> str:
    """Where an ignore file that is a link leads to, within `folder`; `name` where it is none, or leads out."""
    try:
        target = os.fspath((folder / name).readlink())
    except FileNotFoundError:
        raise
    except OSError:  # no link
        return name
    place = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return name if place.startswith(("/", "..")) else place


def advice(error: OSError) -> str:
    """What to do about an ignore file that is not read."""
    return "an ignore file is a small file of its own: put one there" if isinstance(error, (NotAFile, TooLarge)) else ""


@contextlib.contextmanager
def pattern_errors(what: str, where: str = "an ignore file") -> Iterator[None]:
    """Turn what is wrong with patterns into UsageError, which begins with `what`."""
    try:
        yield
    except TooSlow as exc:
        raise UsageError(f"{what}: {where} has a pattern that is too slow: {exc}") from exc
    except ValueError as exc:
        raise UsageError(f"{what}: {where} has a pattern that is none: {exc}") from exc
