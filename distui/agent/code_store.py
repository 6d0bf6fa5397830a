# ruff: noqa: PTH103, PTH115, PTH118, PTH120, PTH123
# ruff: noqa: PTH208, SIM105
# Python 3.6 runs this, and every import costs a start on the host.
"""The trees of code on a host: which are there and whole, which a run uses, and which may go.

Below the store folder each tree has a folder of its own, named by its id:

    ID/tree/            what is mounted; complete and never changed once it has this name
    ID/manifest.json    its entries, with the time stamps by which an edit on the host is noticed
    .new-XXXX/          a tree being made; removed when that fails, swept when its maker, who locks it, was killed
    .old-ID-XXXX/       a tree that somebody edited, while a run still uses it
    .lock               held for the moments in which trees appear and go, never while files are sent

A tree is in use while a run's folder (`../hosts/HOST/RUN/`, on whatever host of a shared home) names it in `code-tree`.
Of the others the newest few stay, so that the next run is sent changed files only.
"""

import fcntl
import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from collections.abc import Iterator
    from typing import Any

QUIET = 60
"""Seconds untouched after which a half-made tree is nobody's where its lock can't tell: its maker touches it often."""
NEW = b".new-"
OLD = b".old-"
USE = b"code-tree"
HELD = b"lock"


def raw(text: str) -> bytes:
    """The bytes of a path, whatever this host's locale is."""
    return text.encode("utf-8", "surrogateescape")


def text(path: bytes) -> str:
    """The same path as the manifest has it."""
    return path.decode("utf-8", "surrogateescape")


def shown(path: bytes) -> str:
    """A path for words."""
    return path.decode("utf-8", "replace")


class Store:
    """The trees of one login."""

    def __init__(self, root: bytes) -> None:
        self.root = root

    def path(self, tree: str) -> bytes:
        """The folder of a tree."""
        return os.path.join(self.root, raw(tree))

    def top(self, tree: str) -> bytes:
        """The folder in it that is mounted."""
        return os.path.join(self.path(tree), b"tree")

    def open(self) -> None:
        """Make the store, private."""
        os.makedirs(self.root, 0o700, exist_ok=True)

    def locked(self) -> "Lock":
        """The lock, for a moment. On a file system without locks everything still works for one at a time."""
        return Lock(os.path.join(self.root, b".lock"))

    def trees(self) -> "list[str]":
        """Ids of the trees there, newest first."""
        found = [n for n in os.listdir(self.root) if not n.startswith(b".")]
        return sorted(map(os.fsdecode, found), key=lambda n: -stamp(self.path(n)))

    def used(self, but: bytes = b"") -> "set[str]":
        """Ids that some run names, other than the one whose folder is `but`."""
        hosts = os.path.join(os.path.dirname(self.root), b"hosts")
        found = set()
        for host in listed(hosts):
            for run in listed(os.path.join(hosts, host)):
                folder = os.path.join(hosts, host, run)
                try:
                    with open(os.path.join(folder, USE)) as file:
                        found |= {file.read().strip()} if folder != but else set()
                except OSError:
                    pass
        return found

    def written(self, tree: str) -> bytes:
        """A tree's manifest as it was written, in which a content is found without reading it; empty without one."""
        try:
            with open(os.path.join(self.path(tree), b"manifest.json"), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def manifest(self, tree: str) -> "dict[str, Any] | None":
        """What a tree holds; None when it was not finished."""
        return read_manifest(self.written(tree))

    def intact(self, tree: str) -> bool:
        """Whether a tree is there, complete and as it was made."""
        entries = self.manifest(tree)
        if entries is None:
            return False
        left = dict(entries)
        try:
            return all(as_made(left.pop(path, None), item) for path, item in leaves(self.top(tree))) and not left
        except OSError:
            return False

    def prune(self, keep: int, kept: "set[str]", measured: bool = True) -> "tuple[int, int]":
        """Remove trees that no run names, but for the newest `keep`, and what killed makers left: trees and bytes.

        Those that a run uses now are among the `keep`: once it has ended nobody looks again. Not `measured`: no bytes,
        which are another look at every file.
        """
        used = self.used() | kept
        there = self.trees()
        idle = [name for name in there if name not in used]
        gone = idle[max(0, keep - (len(there) - len(idle))) :]
        doomed = [self.path(name) for name in gone]
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            dead = name.startswith(NEW) and abandoned(path)
            if dead or (name.startswith(OLD) and os.fsdecode(name).split("-")[1] not in used):
                doomed.append(path)
        freed = sum(map(weight, doomed)) if measured else 0
        for path in doomed:
            remove(path)
        return len(gone), freed


def read_manifest(written: bytes) -> "dict[str, Any] | None":
    """The entries of a manifest by their paths; None where it is none."""
    try:
        return {entry[0]: entry for entry in json.loads(written.decode("ascii"))}
    except ValueError:
        return None


class Lock:
    """An flock that ends with its holder."""

    def __init__(self, path: bytes) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError:
            pass

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)


def hold(made: bytes) -> None:
    """Lock what is being made until this program ends, so that others see that it has a maker, and where."""
    held = os.open(os.path.join(made, HELD), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(held, here())
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass


def here() -> bytes:
    """The name of this host, as one home that many hosts share tells them apart."""
    return os.fsencode(os.uname().nodename)


def abandoned(made: bytes) -> bool:
    """Whether the maker of a tree has ended without removing it.

    On its maker's host the lock tells. Some shared file systems keep locks to each host, or have none: there it must
    have been left untouched for a while.
    """
    try:
        quiet = time.time() - os.lstat(made).st_mtime > QUIET
    except OSError:
        return False
    try:
        held = os.open(os.path.join(made, HELD), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return quiet
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return quiet or os.read(held, 256) == here()
    except BlockingIOError:
        return False
    except OSError:
        return quiet
    finally:
        os.close(held)


def listed(path: bytes) -> "list[bytes]":
    """Names in a folder, none when it is not there."""
    try:
        return os.listdir(path)
    except OSError:
        return []


def leaves(top: bytes) -> "Iterator[tuple[str, os.DirEntry[bytes]]]":
    """Everything but folders that hold something, with its path as the manifest has it."""
    waiting = [("", top)]
    while waiting:
        above, folder = waiting.pop()
        with os.scandir(folder) as items:
            for item in items:
                path = above + text(item.name)
                if not item.is_dir(follow_symlinks=False) or empty(item.path):
                    yield path, item
                else:
                    waiting.append((path + "/", item.path))


def empty(folder: bytes) -> bool:
    """Whether nothing is in a folder."""
    with os.scandir(folder) as items:
        return next(items, None) is None


def as_made(entry: "list[Any] | None", item: "os.DirEntry[bytes]") -> bool:
    """Whether a thing is as the manifest says, by what `stat` tells."""
    return entry is not None and same(entry, item.path, item.stat(follow_symlinks=False))


def same(entry: "list[Any]", place: bytes, found: os.stat_result) -> bool:
    """The same of what was found at a place."""
    _, kind, executable, size, _, target, stamp = entry
    if kind == "link":
        return stat.S_ISLNK(found.st_mode) and os.readlink(place) == raw(target)
    if kind == "folder":
        return stat.S_ISDIR(found.st_mode)
    fits = stat.S_ISREG(found.st_mode) and found.st_size == size and found.st_mtime_ns == stamp
    return fits and bool(found.st_mode & 0o100) == executable


def stamp(path: bytes) -> float:
    """When a folder was changed; long ago for one that somebody has removed."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def remove(path: bytes) -> None:
    """A folder with all in it, as far as that can be removed."""
    if os.path.lexists(path):
        import shutil  # with all that it imports a third of this program's start, and seldom needed

        shutil.rmtree(path, ignore_errors=True)


def weight(path: bytes) -> int:
    """Bytes that removing a folder sets free: of files linked elsewhere too, none."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += found.st_blocks * 512 if found.st_nlink == 1 else 0
    return total
