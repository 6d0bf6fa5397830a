"""What a folder's files differ in from the commit of its repository.

The commit's objects are read by a git folder of ours that only borrows the repository's objects, and the files' hashes
are made here: no filter, hook, external diff or monitor that the folder's config or attributes name is ever run.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from distui.amounts import counted
from distui.errors import CheckFailed
from distui.frozen import frozen
from distui.plan.content.tree import Entry, Tree, raw, readable
from distui.runs.code.git.call import MOST, Call, objects_environment, upto
from distui.runs.code.git.folder import GitFolder, find
from distui.runs.code.git.tree import listed
from distui.runs.code.hashes import Hashes, hashes_of, key_of
from distui.runs.code.scan import pieces

SHOWN_DIFF = 200_000
"""Characters of a diff that are kept in a plan."""
_SECONDS = 30.0
_MOST_NEW = 20
_TEXT_BYTES = 8 << 20
"""Larger files are not compared line by line, nor by their lines' ends."""
_DIFF_BYTES = 64 << 20
"""Of all files that are compared line by line."""

_hashes: dict[tuple[Path | None, Path, str], Hashes] = {}
"""git's hashes of files by cache, folder and algorithm: plans are made again at each key."""


@frozen
class State:
    """A folder in a repository."""

    commit: str
    stat: str = ""
    """What differs from the commit, a line for each file; empty when nothing does."""
    diff: str = ""


@frozen
class _Committed:
    """A file as it is in the commit."""

    mode: str
    blob: str
    size: int


def state_of(folder: Path, tree: Tree, environ: Mapping[str, str], cache: Path | None = None) -> State | None:
    """How `tree`, which was read from `folder`, differs from HEAD; None without git, repository or commit.

    With `cache` files that did not change are not read again by the next run.

    Never raises. Ends of lines and Git LFS make no difference; other filters are not known here, so files that they
    change are said to differ. Submodules are named and not compared.
    """
    try:
        found = find(folder)
        if found is None:
            return None
        with tempfile.TemporaryDirectory(prefix="distui-") as place:
            return _Compared(Path(place), found, folder, tree, environ, cache).state()
    except (CheckFailed, OSError, ValueError):
        return None


class _Compared:
    """One comparison, in a git folder of ours at `place`."""

    def __init__(
        self,
        place: Path,
        found: GitFolder,
        folder: Path,
        tree: Tree,
        environ: Mapping[str, str],
        cache: Path | None,
    ) -> None:
        self._place, self._found, self._folder, self._tree = place, found, folder, tree
        self._env = objects_environment(environ, place)
        self._algorithm = "sha256" if len(found.commit) == 64 else "sha1"
        key = (cache, folder, self._algorithm)
        if key not in _hashes:
            kept = cache is not None and hashes_of(cache, folder, f"-{self._algorithm}", len(found.commit) // 2)
            _hashes[key] = kept or Hashes()
        self._hashes = _hashes[key]

    def state(self) -> State:
        """Everything that is to be said. Raises CheckFailed, OSError and ValueError."""
        self._make()
        top = self._top()
        committed = dict(self._listed(top))
        modules = sorted(path for path, file in committed.items() if file.mode == "160000")
        here = {e.path: e for e in self._tree.entries if e.kind != "folder" and not _below(e.path, modules)}
        changed = [e for path, e in here.items() if path in committed and not self._same(e, committed[path])]
        self._hashes.save()
        gone = [path for path in committed if path not in here and path not in modules and self._missing(path)]
        news = [path for path in here if path not in committed]
        large = self._large(changed, committed)
        left = frozenset(large)
        compared = [entry for entry in changed if entry.path not in left]
        words, diff = self._diff(top, compared, gone) if compared or gone else ("", "")
        lines = [
            *([words] if words else []),
            *_named(large, "changed, not compared line by line"),
            *_more(news, modules if self._has_files(modules) else []),
        ]
        return State(self._found.commit, "\n".join(lines), _shortened(diff))

    def _top(self) -> str:
        """The commit's tree of the folder, whose name may look like more than one commit to git (`...`)."""
        commit, prefix = self._found.commit, self._found.prefix
        if not prefix:
            return self._git("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
        row = self._git("ls-tree", "-d", "-z", commit, "--", prefix)
        if not row:
            raise CheckFailed("the commit has no such folder")
        return row.split(None, 3)[2].decode()

    def _has_files(self, modules: Sequence[str]) -> bool:
        return any(_below(e.path, modules) for e in self._tree.entries if e.kind != "folder")

    def _make(self) -> None:
        """A bare repository whose config is ours, and which finds the other's objects."""
        objects = str(self._found.objects)
        if "\n" in objects:
            raise ValueError("a line break in a path can't be written down for git")
        for name in ("objects/info", "refs"):
            (self._place / name).mkdir(parents=True)
        (self._place / "HEAD").write_text(f"{self._found.commit}\n")
        (self._place / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        version = "1\n[extensions]\n\tobjectFormat = sha256" if self._algorithm == "sha256" else "0"
        core = "[core]\n\tbare = true\n\tbigFileThreshold = 4m\n\tquotePath = false\n\trepositoryFormatVersion = "
        (self._place / "config").write_text(f"{core}{version}\n")

    def _git(self, *words: str, given: Iterable[bytes] = (), most: int = MOST) -> bytes:
        """What git says, cut where it has passed `most` bytes."""
        with Call(("git", *words), self._env, _SECONDS, self._place, given) as git:
            said = upto(git.pieces(), most)
            if len(said) <= most:
                code, complaint = git.ended()
                if code:
                    raise CheckFailed(complaint)
        return said

    def _listed(self, top: str) -> Iterator[tuple[str, _Committed]]:
        with Call(("git", "ls-tree", "-r", "-l", "-z", top), self._env, _SECONDS, self._place) as git:
            for file in listed(git.pieces(), "the commit"):
                yield file.path, _Committed(file.mode, file.blob, file.size)
            code, complaint = git.ended()
            if code:
                raise CheckFailed(complaint)

    # file by file

    def _same(self, entry: Entry, was: _Committed) -> bool:
        if _mode(entry) != was.mode:
            return False
        if entry.kind == "link":
            return self._hash(raw(entry.target)) == was.blob
        if entry.size == was.size:
            return self._hash_file(entry) == was.blob
        return self._hash(_lfs(entry)) == was.blob or self._same_lines(entry, was)

    def _same_lines(self, entry: Entry, was: _Committed) -> bool:
        """Whether only the ends of lines differ, which `text` in .gitattributes makes no difference."""
        if not was.size < entry.size <= _TEXT_BYTES:
            return False
        text = b"".join(pieces(self._folder / entry.path)).replace(b"\r\n", b"\n")
        return len(text) == was.size and self._hash(text) == was.blob

    def _hash(self, content: bytes) -> str:
        return hashlib.new(self._algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

    def _hash_file(self, entry: Entry) -> str:
        place = f"{self._folder}/{entry.path}"
        key = key_of(os.lstat(place))
        known = self._hashes.get(key)
        if known is None:
            digest = hashlib.new(self._algorithm, b"blob %d\0" % entry.size, usedforsecurity=False)
            for piece in pieces(place):
                digest.update(piece)
            known = digest.hexdigest()
            self._hashes.add(key, known)
        return known

    def _missing(self, path: str) -> bool:
        """Whether a file of the commit is gone; what is only left out of the code is not."""
        place = self._folder / path
        return not os.path.lexists(place) or (place.is_dir() and not place.is_symlink())

    # as git shows it

    def _large(self, changed: Sequence[Entry], committed: Mapping[str, _Committed]) -> list[str]:
        """What is only named: a file that is large, here or in the commit, and all once they are too much together."""
        left, large = _DIFF_BYTES, []
        for entry in changed:
            size = max(entry.size, committed[entry.path].size)
            left -= size
            if size > _TEXT_BYTES or left < 0:
                large.append(entry.path)
        return large

    def _diff(self, top: str, changed: Sequence[Entry], gone: Sequence[str]) -> tuple[str, str]:
        """Statistics and text of a diff between the commit's files and these."""
        self._git("fast-import", "--quiet", "--force", given=self._import(top, changed, gone))
        shown = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        two = (top, "refs/heads/here^{tree}")
        words = self._git(*shown, "--stat=100", *two)
        return _shown(words).rstrip(), _shown(self._git(*shown, "-p", *two, most=4 * SHOWN_DIFF))

    def _import(self, top: str, changed: Sequence[Entry], gone: Sequence[str]) -> Iterator[bytes]:
        yield b"commit refs/heads/here\ncommitter distui <distui> 0 +0000\ndata 0\n"
        yield b"M 040000 %s \n" % top.encode()
        for path in gone:
            yield b"D %s\n" % _quoted(path)
        for entry in changed:
            content = raw(entry.target) if entry.kind == "link" else b"".join(pieces(self._folder / entry.path))
            yield b"M %s inline %s\ndata %d\n" % (_mode(entry).encode(), _quoted(entry.path), len(content))
            yield content + b"\n"


def _mode(entry: Entry) -> str:
    if entry.kind == "link":
        return "120000"
    return "100755" if entry.executable else "100644"


def _lfs(entry: Entry) -> bytes:
    """What git has in place of a file that Git LFS keeps (its specification, version 1)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{entry.sha256}\nsize {entry.size}\n".encode()


def _quoted(path: str) -> bytes:
    """A path for fast-import, which takes C's quoting."""
    return b'"%s"' % b"".join(b"\\%03o" % c if c < 32 or c in b'"\\' else bytes((c,)) for c in raw(path))


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _more(news: Sequence[str], modules: Sequence[str]) -> Iterator[str]:
    """A line for each file that the commit lacks, and for each submodule."""
    ordered = sorted(news)
    yield from (f" {readable(name)} | new" for name in ordered[:_MOST_NEW])
    if len(ordered) > _MOST_NEW:
        yield f" {counted(len(ordered) - _MOST_NEW, 'more file')} | new"
    yield from (f" {readable(name)} | a submodule, not compared" for name in modules)


def _named(names: Sequence[str], what: str) -> Iterator[str]:
    """A line for each of the first ones, and one for the rest."""
    yield from (f" {readable(name)} | {what}" for name in names[:_MOST_NEW])
    if len(names) > _MOST_NEW:
        yield f" {counted(len(names) - _MOST_NEW, 'more file')} | {what}"


def _shown(said: bytes) -> str:
    return said.decode("utf-8", "replace")


def _shortened(diff: str) -> str:
    if len(diff) <= SHOWN_DIFF:
        return diff
    return f"{diff[:SHOWN_DIFF]}\n... and more"
