# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH111, PTH112, PTH118, PTH120, PTH123
# ruff: noqa: PTH208, PTH211, SIM105
# Python 3.6 runs this, and every import costs a start on the host.
"""Puts one tree of code on a host: asks for what is missing, makes it beside, checks it, and switches by rename.

The request is one JSON line on stdin, then an answer, then `go` and the contents asked for, in order, then an answer.
"""

import errno
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from distui.agent.code_store import HELD, NEW, OLD, USE, Store, hold, raw, shown

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

    Request = dict[str, Any]
    Key = tuple[str, bool]

PIECE = 1 << 20
BLOCK = 4096
LOOK = 5
"""Seconds between two looks whether the launch goes on, while something is waited for: a connection that was cut
without a word closes nothing here, and this program would wait for days."""
SILENT = 60
"""Seconds without a byte after which the other side is gone."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Refused(Exception):
    """What is told instead of done: a code, and words."""


def hashed(path: bytes) -> str:
    """SHA-256 of a file; empty when it can't be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(PIECE), b""):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


class Make:
    """One tree being made."""

    def __init__(self, store: Store, request: "Request", source: "Any") -> None:
        self.store, self.source = store, source
        self.tree = request["tree"]
        self.entries = request["entries"]
        self.run_dir = raw(request["run_dir"])
        self.copy = raw(request["copy"])
        self.keep = request["keep"]
        self.claim = self.claimed()
        self.heard = 0.0
        self.had = {}  # type: dict[Key, bytes]
        self.linked = 0

    def serve(self) -> "dict[str, Any]":
        """All of it. Raises Refused, OSError, EOFError."""
        store = self.store
        signal.signal(signal.SIGALRM, self.look)
        signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
        store.open()
        with store.locked(), open(os.path.join(self.run_dir, USE), "w") as file:
            file.write(self.tree)
        whole = store.intact(self.tree)
        if whole:
            os.utime(store.path(self.tree))
        want, more = ([], 0) if whole else self.missing()
        copied = sum(e[3] + BLOCK for e in self.entries) if self.copy else 0
        self.room(more + copied)
        say({"state": "have" if whole else "want", "want": [e[4] for e in want]})
        if self.source.readline().strip() != b"go":
            raise EOFError
        if not whole:
            self.make(want)
        if self.copy:
            self.private()
        with store.locked():
            store.prune(self.keep, {self.tree})
        return {"state": "done", "sent": len(want), "bytes": sum(e[3] for e in want), "linked": self.linked}

    def claimed(self) -> bytes:
        """Whose launch the run's folder is held by; nothing once it has ended, or was stopped."""
        try:
            with open(os.path.join(self.run_dir, b"launch"), "rb") as file:
                return file.read(4096)
        except OSError:
            return b""

    def look(self, number: int, frame: object) -> None:
        """Give up when the launch is not under way any more, or its contents have stopped coming."""
        if self.claimed() != self.claim:
            leave(number, frame)
        touch([self.run_dir, *HALF])
        if self.heard and time.monotonic() - self.heard > SILENT:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Refused("silent", shown(self.store.root), {})

    def missing(self) -> "tuple[list[Any], int]":
        """One file for each content that no tree here has, and the bytes they need."""
        for tree in self.store.trees():
            top = os.path.join(self.store.path(tree), b"tree")
            for entry in (self.store.manifest(tree) or {}).values():
                if entry[1] == "file":
                    self.had.setdefault((entry[4], entry[2]), os.path.join(top, raw(entry[0])))
        found = {}  # type: dict[str, Any]
        good = {}  # type: dict[str, bool]
        for entry in self.entries:
            _, kind, executable, _, sha = entry[:5]
            if kind != "file" or sha in found or sha in good:
                continue
            for flag in (executable, not executable):
                old = self.had.get((sha, flag))
                if old is not None and hashed(old) == sha:
                    good[sha] = True
                    break
                self.had.pop((sha, flag), None)
            else:
                found[sha] = entry
        return list(found.values()), sum(e[3] + BLOCK for e in found.values()) + BLOCK * len(self.entries)

    def room(self, wanted: int) -> None:
        """Refuse before anything is written where it would not fit."""
        disk = os.statvfs(self.store.root)
        free = disk.f_bavail * disk.f_frsize
        if wanted > free:
            raise Refused("disk_full", shown(self.store.root), {"need": wanted, "free": free})

    def make(self, want: "list[Any]") -> None:
        """Write it beside, then give it its name."""
        with self.store.locked():
            made = half_made(self.store.root, NEW)
            hold(made)
        try:
            top = os.path.join(made, b"tree")
            os.mkdir(top, 0o755)
            self.heard = time.monotonic()
            fresh = {entry[4]: self.receive(top, entry) for entry in want}
            self.heard = 0.0  # nothing is waited for any more
            done = [[*entry[:6], self.place(top, entry, fresh)] for entry in links_last(self.entries)]
            with open(os.path.join(made, b"manifest.json"), "w", encoding="ascii") as file:
                json.dump(done, file)
            self.switch(made)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def receive(self, top: bytes, entry: "list[Any]") -> bytes:
        """One content from the stream, at its first place."""
        path, size, sha = os.path.join(top, raw(entry[0])), entry[3], entry[4]
        parents(top, path)
        digest, left = hashlib.sha256(), size
        with open(path, "xb") as file:
            while left:
                piece = self.source.read1(min(left, PIECE))
                if not piece:
                    raise EOFError
                self.heard = 0.0  # now the disk is waited for, which may take its time
                digest.update(piece)
                file.write(piece)
                left -= len(piece)
                self.heard = time.monotonic()
        if digest.hexdigest() != sha:
            raise Refused("changed", entry[0], {})
        os.chmod(path, 0o755 if entry[2] else 0o644)
        return path

    def place(self, top: bytes, entry: "list[Any]", fresh: "dict[str, bytes]") -> int:
        """Put one entry where it belongs; its time stamp."""
        path, kind, executable, _, sha, target = entry[:6]
        place = os.path.join(top, raw(path))
        parents(top, place)
        if kind == "folder":
            os.makedirs(place, 0o755, exist_ok=True)
        elif kind == "link":
            os.symlink(raw(target), place)
        elif fresh.get(sha) != place:
            self.reuse(fresh.get(sha), place, sha, executable)
        return os.lstat(place).st_mtime_ns

    def reuse(self, received: "bytes | None", place: bytes, sha: str, executable: bool) -> None:
        """The same content at another place: linked to a former tree's file of the same mode, else copied."""
        old = self.had.get((sha, executable)) if received is None else None
        if old is not None:
            self.linked += 1
            try:
                os.link(old, place)
                return
            except OSError as exc:
                if exc.errno in FULL:
                    raise
        other = received or old or self.had[(sha, not executable)]
        shutil.copyfile(other, place)
        os.chmod(place, 0o755 if executable else 0o644)
        if hashed(place) != sha:
            raise Refused("changed", shown(place), {})

    def switch(self, made: bytes) -> None:
        """The moment in which the tree is there. A whole one that another launch has made meanwhile stays."""
        final = self.store.path(self.tree)
        with self.store.locked():
            if self.store.intact(self.tree):
                return
            old = b""
            if os.path.lexists(final):  # what runs in it goes on: a mount follows the folder, not its name
                old = tempfile.mkdtemp(prefix=OLD + raw(self.tree) + b"-", dir=self.store.root)
                os.rename(final, old)
            os.unlink(os.path.join(made, HELD))
            os.rename(made, final)
            if old and self.tree not in self.store.used(self.run_dir):
                shutil.rmtree(old, ignore_errors=True)

    def private(self) -> None:
        """A copy of the run's own; open to whatever user the container has, in a folder that only this login enters."""
        made = half_made(self.run_dir, b".code-")
        try:
            source, top = os.path.join(self.store.path(self.tree), b"tree"), os.path.join(made, b"tree")
            os.mkdir(top)
            for path, kind, executable, _, _, target in (entry[:6] for entry in links_last(self.entries)):
                place = os.path.join(top, raw(path))
                parents(top, place)
                if kind == "folder":
                    os.makedirs(place, exist_ok=True)
                elif kind == "link":
                    os.symlink(raw(target), place)
                else:
                    shutil.copyfile(os.path.join(source, raw(path)), place)
                    os.chmod(place, 0o777 if executable else 0o666)
            for folder, _, _ in os.walk(top):
                os.chmod(folder, 0o777)
            shutil.rmtree(self.copy, ignore_errors=True)  # of a first try whose answer was lost
            os.rename(top, self.copy)
        finally:
            shutil.rmtree(made, ignore_errors=True)


HALF = []  # type: list[bytes]
"""What is to be gone when this program ends, however it ends."""


def half_made(folder: bytes, prefix: bytes) -> bytes:
    """A new private folder in `folder`; listed before it is there, since a signal may come at any moment."""
    path = os.path.join(folder, prefix + os.urandom(6).hex().encode())
    HALF.append(path)
    os.mkdir(path, 0o700)
    return path


def touch(folders: "list[bytes]") -> None:
    """Say to others that somebody is at work there: launches and makers of trees may be known to be gone by age."""
    for folder in folders:
        try:
            os.utime(folder)
        except OSError:
            pass


def leave(number: int, frame: object) -> None:
    """End by way of everything that tidies up, which no second signal cuts short."""
    for other in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def links_last(entries: "list[Any]") -> "list[Any]":
    """The entries with links after everything that could be written through one."""
    return sorted(entries, key=lambda entry: entry[1] == "link")


def parents(top: bytes, path: bytes) -> None:
    """The folders above a place inside `top`."""
    folder = os.path.dirname(path)
    if folder != top and not os.path.isdir(folder):
        os.makedirs(folder, 0o755)


def checked(request: "Request") -> None:
    """Refuse paths that lead out of the tree: they would be ours to write."""
    for entry in request.get("entries", ()):
        if entry[0].startswith("/") or {"", ".", ".."} & set(entry[0].split("/")):
            raise Refused("path", entry[0], {})


def clean(store: Store, keep: int) -> "dict[str, Any]":
    """Remove every tree that no run names, but for the newest `keep`."""
    if not os.path.isdir(store.root):
        return {"state": "done", "trees": 0, "bytes": 0, "used": 0}
    with store.locked():
        count, freed = store.prune(keep, set())
        used = len(store.trees())
        if not used and set(os.listdir(store.root)) == {b".lock"}:
            shutil.rmtree(store.root, ignore_errors=True)
    for folder in (os.path.dirname(store.root), os.path.dirname(os.path.dirname(store.root))):
        try:
            os.rmdir(folder)
        except OSError:
            break
    return {"state": "done", "trees": count, "bytes": freed, "used": used}


def say(value: "dict[str, Any]") -> None:
    """One answer."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the request says; every failure is an answer."""
    os.umask(0o022)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    source = sys.stdin.buffer
    root = b""
    try:
        request = json.loads(source.readline().decode("ascii"))
        root = os.path.expanduser(raw(request["root"]))
        checked(request)
        store = Store(root)
        say(clean(store, request["keep"]) if request["do"] == "clean" else Make(store, request, source).serve())
    except EOFError:
        sys.exit(1)
    except Refused as exc:
        code, path, more = exc.args
        say(dict(more, state="error", code=code, path=path, words=""))
    except OSError as exc:
        name = exc.filename if exc.filename is not None else root
        path = shown(name) if isinstance(name, bytes) else str(name)
        say({"state": "error", "code": "disk_full" if exc.errno in FULL else "os", "path": path, "words": exc.strerror})
    finally:
        for half in HALF:
            shutil.rmtree(half, ignore_errors=True)
