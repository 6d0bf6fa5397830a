"""Reads a folder of this machine into a Tree: what goes along, what does not and why, and whether it is too much."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from distui.errors import UsageError
from distui.files import real, reason
from distui.frozen import frozen
from distui.plan.content.tree import Entry, Tree, readable
from distui.runs.code.git.folder import top_of
from distui.runs.code.git.lock import go_on
from distui.runs.code.git.tree import is_git
from distui.runs.code.hashes import Hashes, key_of
from distui.runs.code.ignore import Ignored, advice, ignore_lines, pattern_errors
from distui.runs.code.limits import BIGGEST, LIMITS, MAX_FILES, Limits, leave_out, refuse_too_deep, refuse_too_much

_FIRST = 32 << 10
_TRIES = 5

_memory = Hashes()
"""For those who keep no hashes of their own: a plan that is made again at each key must not read all again."""


@frozen
class Scan:
    """A folder as it was read. `left_out` are sentences."""

    tree: Tree
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    files: list[tuple[str, os.stat_result]] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    given_up: threading.Event | None = None

    @property
    def more(self) -> int:
        """Links and empty folders, which have no size."""
        return len(self.others) + len(self.links)

    @property
    def full(self) -> bool:
        """Whether there is no need to look on."""
        return len(self.files) + len(self.others) + len(self.links) + len(self.special) > MAX_FILES


def scan(
    root: Path,
    ignored: Ignored,
    limits: Limits = LIMITS,
    hashes: Hashes = _memory,
    given_up: threading.Event | None = None,
) -> Scan:
    """The content of `root`; files that `hashes` knows are not read. Raises UsageError for what can't or should not be
    sent, before anything big is read, and GivenUp once that is set.
    """
    found = _Found(given_up=given_up)
    try:
        with pattern_errors("code"):
            _walk(root, "", ignored.around(real(root), _top(root)), found)
    except OSError as exc:
        raise UsageError(f"code: {readable(str(exc.filename or root))} {reason(exc)}", hint=advice(exc)) from exc
    _refuse_special(root, found)
    sizes = [(path, status.st_size) for path, status in found.files]
    refuse_too_much(readable(str(root)), sizes, limits, found.more)
    top = os.fspath(root)
    files = [hashed(top, path, status, hashes=hashes, given_up=given_up) for path, status in found.files]
    hashes.save()
    out = (f"left out, since it leads out of the folder: link {readable(path)}" for path in sorted(found.links))
    dead = (f"leads to what is ignored, and to nothing there: link {readable(path)}" for path in _dead(root, found))
    return Scan(Tree.of([*files, *found.others]), (*out, *dead))


def _dead(root: Path, found: _Found) -> Iterator[str]:
    """Links to what is there and does not go along, each with where it leads."""
    links = [entry for entry in found.others if entry.kind == "link"]
    sent = {name for name, _ in found.files} | {entry.path for entry in found.others} if links else set()
    sent |= {parent for name in sent for parent in _above(name)}
    top = os.path.realpath(root)
    for link in sorted(links, key=lambda one: one.path):
        place = os.path.realpath(root / link.path)
        if place != top and os.path.exists(place) and os.path.relpath(place, top) not in sent:  # noqa: PTH110
            yield f"{link.path} -> {link.target}"


def _above(name: str) -> Iterator[str]:
    """The folders that a path goes through."""
    while name := name.rpartition("/")[0]:
        yield name


def _top(root: Path) -> Path:
    """The top of the repository around a folder; itself where there is none, or it is neither ours nor of whose folder
    this is: anybody may put one above, as into /tmp.
    """
    with contextlib.suppress(OSError, ValueError):
        top = top_of(root)
        if top is not None and top.stat().st_uid in (0, os.geteuid(), root.stat().st_uid):
            return top
    return real(root)


def in_order(items: Iterable[os.DirEntry[str]], given_up: threading.Event | None) -> list[os.DirEntry[str]]:
    """What is in a folder, by its names. It may be millions, over a network: raises GivenUp once that is set."""
    listed = list[os.DirEntry[str]]()
    for item in items:
        go_on(given_up)
        listed.append(item)
    return sorted(listed, key=lambda one: one.name)


def _walk(root: Path, path: str, above: Ignored, found: _Found) -> bool:
    """Look at one folder; whether anything in it goes along."""
    refuse_too_deep(path)
    go_on(found.given_up)
    folder = root / path if path else root
    ignored = above.below(path, lambda name: ignore_lines(root, f"{path}/{name}" if path else name))
    kept = False
    with os.scandir(folder) as items:
        for item in in_order(items, found.given_up):
            name = f"{path}/{item.name}" if path else item.name
            status = item.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if is_git(item.name) or ignored.has(name, folder=is_folder):
                continue
            kept = _take(root, name, status, ignored, found) or kept
            if found.full:
                return True
    if path and not kept:
        found.others.append(Entry(path, "folder"))
    return True


def _take(root: Path, name: str, status: os.stat_result, ignored: Ignored, found: _Found) -> bool:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return _walk(root, name, ignored, found)
    if kind == stat.S_IFREG:
        found.files.append((name, status))
        return True
    if kind != stat.S_IFLNK:
        found.special.append(name)
        return True
    target = os.readlink(root / name)  # noqa: PTH115  # a Path would tidy it up
    if _leads_out(root, name, target):
        found.links.append(f"{name} -> {target}")
        return False
    found.others.append(Entry(name, "link", target=target))
    return True


def _leads_out(root: Path, name: str, target: str) -> bool:
    """Whether a link leaves the tree, as it is written or as this machine follows it."""
    if target.startswith("/"):
        return True
    written = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120  # may be no UTF-8
    if written == ".." or written.startswith("../"):
        return True
    real, top = os.path.realpath(root / name), os.path.realpath(root)
    return real != top and not real.startswith(top.rstrip("/") + "/")


def _refuse_special(root: Path, found: _Found) -> None:
    if found.special:
        names = ", ".join(map(readable, found.special[:BIGGEST]))
        raise UsageError(
            f"code: {readable(str(root))} holds what is neither file, folder nor link: {names}",
            hint=leave_out(found.special[0]),
        )


# reading


def hashed(
    root: str | Path,
    path: str,
    status: os.stat_result,
    *,
    what: str = "code",
    hashes: Hashes = _memory,
    given_up: threading.Event | None = None,
) -> Entry:
    """A file as an entry. Raises UsageError, which begins with `what`, when it can't be read or changes meanwhile, and
    GivenUp once that is set. One that grows is looked at again: it may be the log of this very call.
    """
    place = f"{root}/{path}"
    try:
        for _ in range(_TRIES):
            go_on(given_up)
            key = key_of(status)
            known = hashes.get(key) or _hash(place, status.st_size, given_up)
            if known:
                hashes.add(key, known)
                return Entry(path, "file", status.st_size, bool(status.st_mode & 0o111), known)
            status = os.stat(place, follow_symlinks=False)  # noqa: PTH116  # may be no UTF-8
    except OSError as exc:
        raise UsageError(f"{what}: can't read {readable(place)}: {exc.strerror}") from exc
    raise UsageError(f"{what}: {readable(place)} changed while it was read", hint="try again once it is written")


def _hash(path: str, size: int, given_up: threading.Event | None) -> str:
    """Empty for a file of another size by now. Raises OSError."""
    digest, read = hashlib.sha256(), 0
    for piece in pieces(path, most=size + 1):  # it may grow for ever
        go_on(given_up)
        digest.update(piece)
        read += len(piece)
    return digest.hexdigest() if read == size else ""


def pieces(path: str | Path, amount: int = 1 << 20, most: int | None = None) -> Iterator[bytes]:
    """A file's content, or its first `most` bytes; never that of what a link put in its place leads to. Raises OSError.

    It is asked for little at first, as most files are small: room for much costs more than reading them.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        asked = min(amount, _FIRST)
        left = sys.maxsize if most is None else most
        while piece := os.read(handle, min(asked, left)):
            yield piece
            left -= len(piece)
            asked = amount if len(piece) == asked else min(amount, _FIRST)
    finally:
        os.close(handle)
