# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH111, PTH112, PTH118, PTH120, PTH123
# ruff: noqa: PTH208, PTH211, SIM105
# Python 3.6 runs this, and every import costs a start on the host.
"""Puts one tree of code on a host: asks for what is missing, makes it beside, checks it, and switches by rename.

The request is one JSON line on stdin. A host that lacks the tree asks for its entries, another line. Then it says which
contents it lacks; `go` and those follow, in order, and an answer. A host that has the tree gets its id only.
"""

import errno
import hashlib
import json
import os
import signal
import sys
import time

from distui.agent.code_store import HELD, NEW, OLD, USE, Store, hold, raw, read_manifest, remove, same, shown

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
FEW = 8
"""So many contents are looked for in a manifest's text before it is read, which takes a hundred times as long."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Refused(Exception):
    """What is answered instead of done: a code, and words."""


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
        self.entries = []  # type: list[Any]
        self.run_dir = raw(request["run_dir"])
        self.copy = raw(request["copy"])
        self.keep = request["keep"]
        self.claim = self.claimed()
        self.heard = 0.0
        self.old = {}  # type: dict[Key, tuple[bytes, int]]
        self.folders = set()  # type: set[bytes]
        self.linked = 0

    def serve(self) -> None:
        """All of it; nobody waits for older trees to go. Raises Refused, OSError, EOFError."""
        store = self.store
        signal.signal(signal.SIGALRM, self.look)
        signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
        store.open()
        with store.locked(), open(os.path.join(self.run_dir, USE), "w") as file:
            store.open()  # somebody may have removed an empty one since
            file.write(self.tree)
        whole = store.intact(self.tree)
        if whole:
            os.utime(store.path(self.tree))
            self.entries = list((store.manifest(self.tree) or {}).values()) if self.copy else []
        else:
            self.entries = self.listed()
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
        say({"state": "done", "sent": len(want), "bytes": sum(e[3] for e in want), "linked": self.linked})
        try:
            with store.locked():
                store.prune(self.keep, {self.tree}, measured=False)
        except OSError:  # somebody removes the store; what stays goes at the next launch
            pass

    def listed(self) -> "list[Any]":
        """What is in the tree, which only a host that lacks it gets."""
        say({"state": "list"})
        line = self.source.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        entries = json.loads(line.decode("ascii"))
        checked(entries)
        return entries  # type: ignore[no-any-return]

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
        left = {}  # type: dict[str, Any]
        for entry in self.entries:
            if entry[1] == "file":
                left.setdefault(entry[4], entry)
        for tree in self.store.trees():
            written = self.store.written(tree)
            if len(left) > FEW or any(sha.encode("ascii") in written for sha in left):
                self.find(left, self.store.top(tree), read_manifest(written) or {})
        return list(left.values()), sum(e[3] + BLOCK for e in left.values()) + BLOCK * len(self.entries)

    def find(self, left: "dict[str, Any]", top: bytes, manifest: "dict[str, Any]") -> None:
        """Take out of what is `left` the contents that a former tree has."""
        had = {}  # type: dict[Key, list[Any]]
        edited = set()
        for old in manifest.values():
            if old[1] == "file" and old[4] in left:
                had.setdefault((old[4], old[2]), old)
        for sha, entry in list(left.items()):
            for executable in (entry[2], not entry[2]):
                if self.usable(top, had.get((sha, executable))):
                    del left[sha]
                    break
                if (sha, executable) in had:
                    edited.add(sha)
        if edited:  # seldom: then there may be other copies of it
            for old in manifest.values():
                if old[1] == "file" and old[4] in edited and old[4] in left and self.usable(top, old):
                    del left[old[4]]

    def usable(self, top: bytes, entry: "list[Any] | None") -> bool:
        """Whether a file of a former tree has the content that its manifest says, by what `stat` tells."""
        if entry is None:
            return False
        place = top + b"/" + raw(entry[0])
        try:
            if same(entry, place, os.lstat(place)):
                self.old[entry[4], entry[2]] = place, entry[6]
                return True
        except OSError:
            pass
        return False

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
                file.write(json.dumps(done))  # json.dump would do it in Python
            self.switch(made)
        finally:
            remove(made)

    def receive(self, top: bytes, entry: "list[Any]") -> bytes:
        """One content from the stream, at its first place."""
        path, left, sha = top + b"/" + raw(entry[0]), entry[3], entry[4]
        self.parents(path)
        digest = hashlib.sha256()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755 if entry[2] else 0o644)
        try:
            while left:
                piece = self.source.read1(min(left, PIECE))
                if not piece:
                    raise EOFError
                self.heard = 0.0  # now the disk is waited for, which may take its time
                digest.update(piece)
                write(file, piece, path)
                left -= len(piece)
                self.heard = time.monotonic()
        finally:
            os.close(file)
        if digest.hexdigest() != sha:
            raise Refused("changed", entry[0], {})
        return path

    def place(self, top: bytes, entry: "list[Any]", fresh: "dict[str, bytes]") -> int:
        """Put one entry where it belongs; its time stamp."""
        path, kind, executable, _, sha, target = entry[:6]
        place = top + b"/" + raw(path)
        self.parents(place)
        if kind == "folder":
            os.makedirs(place, 0o755, exist_ok=True)
        elif kind == "link":
            os.symlink(raw(target), place)
        elif fresh.get(sha) != place:
            return self.reuse(fresh.get(sha), place, sha, executable)
        return os.lstat(place).st_mtime_ns

    def reuse(self, received: "bytes | None", place: bytes, sha: str, executable: bool) -> int:
        """The same content at another place: a link to a former tree's file of the same mode, or a copy; its stamp."""
        old, stamp = self.old.get((sha, executable), (b"", 0))
        if old and received is None:
            self.linked += 1
            try:
                os.link(old, place)
                return stamp
            except OSError as exc:
                if exc.errno in FULL:
                    raise
        other = received or old or self.old[(sha, not executable)][0]
        try:
            copy(other, place)
        except FileNotFoundError:  # since this was asked for, another launch removed the tree it was in
            raise Refused("gone", shown(place), {}) from None
        os.chmod(place, 0o755 if executable else 0o644)
        if hashed(place) != sha:
            raise Refused("changed", shown(place), {})
        return os.lstat(place).st_mtime_ns

    def parents(self, path: bytes) -> None:
        """The folders above a place in a tree, each looked for once."""
        folder = path[: path.rindex(b"/")]
        if folder not in self.folders:
            os.makedirs(folder, 0o755, exist_ok=True)
            self.folders.add(folder)

    def switch(self, made: bytes) -> None:
        """The moment in which the tree is there. A whole one that another launch has made meanwhile stays."""
        final = self.store.path(self.tree)
        with self.store.locked():
            if self.store.intact(self.tree):
                return
            old = b""
            if os.path.lexists(final):  # what runs in it goes on: a mount follows the folder, not its name
                old = os.path.join(self.store.root, OLD + raw(self.tree) + b"-" + os.urandom(6).hex().encode())
                os.rename(final, old)
            os.unlink(os.path.join(made, HELD))
            try:
                os.rename(made, final)
            except OSError as exc:  # a host of a shared home whose locks are each host's own was quicker
                if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not self.store.intact(self.tree):
                    raise
            if old and self.tree not in self.store.used(self.run_dir):
                remove(old)

    def private(self) -> None:
        """A copy of the run's own; open to whatever user the container has, in a folder that only this login enters."""
        made = half_made(self.run_dir, b".code-")
        try:
            source, top = os.path.join(self.store.path(self.tree), b"tree"), os.path.join(made, b"tree")
            os.mkdir(top)
            for path, kind, executable, _, _, target in (entry[:6] for entry in links_last(self.entries)):
                place = top + b"/" + raw(path)
                self.parents(place)
                if kind == "folder":
                    os.makedirs(place, exist_ok=True)
                elif kind == "link":
                    os.symlink(raw(target), place)
                else:
                    copy(source + b"/" + raw(path), place)
                    os.chmod(place, 0o777 if executable else 0o666)
            for folder, _, _ in os.walk(top):
                os.chmod(folder, 0o777)
            remove(self.copy)  # of a first try whose answer was lost
            os.rename(top, self.copy)
        finally:
            remove(made)


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


def copy(source: bytes, place: bytes) -> None:
    """A file's content."""
    import shutil  # see `remove`

    shutil.copyfile(source, place)


def write(file: int, piece: bytes, path: bytes) -> None:
    """All of it. Raises OSError, which names the file."""
    try:
        done = os.write(file, piece)
        while done < len(piece):
            done += os.write(file, piece[done:])
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, path) from exc


def checked(entries: "list[Any]") -> None:
    """Refuse paths that lead out of the tree: they would be ours to write."""
    for entry in entries:
        framed = "/" + entry[0] + "/"
        if "//" in framed or "/./" in framed or "/../" in framed:
            raise Refused("path", entry[0], {})


def clean(store: Store, keep: int) -> "dict[str, Any]":
    """Remove every tree that no run names, but for the newest `keep`."""
    if not os.path.isdir(store.root):
        return {"state": "done", "trees": 0, "bytes": 0, "used": 0}
    with store.locked():
        count, freed = store.prune(keep, set())
        used = len(store.trees())
        # a tree that a launch has named may be on its way
        if not used and not store.used() and set(os.listdir(store.root)) == {b".lock"}:
            remove(store.root)
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
        store = Store(root)
        if request["do"] == "clean":
            say(clean(store, request["keep"]))
        else:
            Make(store, request, source).serve()
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
            remove(half)
