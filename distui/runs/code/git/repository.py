"""git on this machine: a ref of a repository resolved to one commit, and its files as a folder.

Hosts need neither git nor a token. git is called by argv, with the URL after `--`; only transports that run no program
are allowed, hooks and filters are not used. The token goes by a variable that only our askpass script reads.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import posixpath
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path

from distui.amounts import size_words
from distui.errors import CheckFailed, UsageError
from distui.files import make_private, reason
from distui.frozen import frozen
from distui.plan.content.tree import readable
from distui.regex import regex
from distui.runs.code.git.call import Call, call, remote_environment
from distui.runs.code.git.kept import HeldTree, hold, remove, tidy
from distui.runs.code.git.local import local
from distui.runs.code.git.lock import fetching_alone, go_on
from distui.runs.code.git.tree import LINK, SUBMODULE, Listed, checked, listed, wanted, write
from distui.runs.code.ignore import MAX_BYTES, Ignored, lines_in, pattern_errors
from distui.runs.code.limits import LIMITS, Limits, Sized, refuse_too_much
from distui.spec.job.code_keys import local_repository

_SECONDS = 600.0
_LIST_SECONDS = 60.0
_PACK = 8 << 30
"""Bytes that are fetched at most of a repository, packed, unless the job's max_size is large."""
_ROOM = 1 << 30
"""Bytes of the disk that stay free."""
_WITHIN = 'trap "" XFSZ; ulimit -f "$0" 2>/dev/null || :; exec "$@"'
"""For sh: no file beyond $0 blocks of 512 bytes, which git says in words, as the signal is ignored. Where it can't be
set a lower limit holds already."""
_LIMIT_HIT = "File too large"
_MOST_IGNORE_FILES = 1000
_COMMIT = regex(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PART = regex(r"[0-9a-f]{7,63}")
_LFS = b"version https://git-lfs.github.com/spec/"

_HAND_OUT = "GIT_ALLOW_PROTOCOL= GIT_NO_LAZY_FETCH=1 git upload-pack --strict"
"""What reads a repository of this machine: the folder that is named and no other, and nothing from elsewhere, since
that repository's own config says how."""
_ASKPASS = """#!/bin/sh
case "$1" in
  Username*) echo oauth2;;
  *) printf '%s\\n' "$DISTUI_GIT_TOKEN";;
esac
"""
"""Any name will do beside a token, for GitHub, GitLab and Gitea; one in the URL is asked for no more."""


@frozen
class Checkout:
    """A commit's files in a folder of ours."""

    folder: Path
    commit: str
    left_out: tuple[str, ...] = ()
    held: HeldTree | None = field(default=None, compare=False)
    """Keeps the folder from being removed."""


class Repository:
    """A remote repository, kept as a bare one below `cache`. Blocking; raises UsageError or CheckFailed, and GivenUp
    soon after that is set.
    """

    def __init__(
        self,
        url: str,
        cache: Path,
        environ: Mapping[str, str],
        token: str | None = None,
        given_up: threading.Event | None = None,
    ) -> None:
        self._url = url
        self._given_up = given_up or threading.Event()
        self._from: tuple[str, ...] = ("--", url)
        self._most = _PACK
        self._token = token
        name = hashlib.sha256(url.encode()).hexdigest()[:24]
        self._place = cache / "git"
        self._folder = self._place / name
        self._trees = self._place / f"{name}.trees"
        self._environ = remote_environment(environ)

    def checkout(
        self, ref: str | None, subdir: str | None, ignore: Sequence[str] = (), limits: Limits = LIMITS
    ) -> Checkout:
        """The files of what `ref` names now: branch, tag, commit, or the repository's HEAD.

        What is more than `limits` is never written, `ignore` aside.
        """
        self._most = max(_PACK, 2 * limits.total)
        if place := local_repository(self._url):
            self._take_from(local(Path(place), self._given_up).git_dir)
        if not self._place.is_dir():
            _made(self._place)
        with contextlib.suppress(OSError):
            os.utime(self._folder)  # it is used: nobody tidies it away
        with self._secret():
            commit = self._fetched(ref)
        folder = posixpath.normpath((subdir or "").strip("/"))  # to git `./src` is relative to a folder of its own
        made = self._export(commit, "" if folder == "." else folder, ignore, limits)
        with contextlib.suppress(OSError):
            tidy(self._place)
        return made

    # finding the commit

    def _take_from(self, folder: Path) -> None:
        """Read the very folder that was asked about, by whatever way it was named."""
        if not folder.exists():
            raise CheckFailed(f"code: git can't read {self._url}: {readable(str(folder))} does not exist")
        self._from = (f"--upload-pack={_HAND_OUT}", "--", str(folder))

    def _fetched(self, ref: str | None) -> str:
        if ref is not None and _COMMIT.fullmatch(ref):
            return self._fetch_commit(ref)
        refs = self._refs()
        if ref is None:
            if "HEAD" not in refs:
                raise UsageError(f"code: {self._url} has no commit yet")
            return self._fetch_tip("HEAD", refs["HEAD"])
        for full in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref if ref.startswith("refs/") else ""):
            if full in refs:
                return self._fetch_tip(full, refs.get(f"{full}^{{}}", refs[full]))
        if _PART.fullmatch(ref) and (commit := self._fetch_part(ref)):
            return commit
        raise UsageError(f"code: {self._url} has no branch, tag or commit {ref!r}{_near(ref, refs)}")

    def _refs(self) -> dict[str, str]:
        """Every ref the repository offers, and tags peeled as `refs/tags/x^{}`."""
        self._begin()  # git also asks the config of the repository it is called in: that is ours
        output = self._local("ls-remote", *self._from)
        pairs = (line.split("\t", 1) for line in output.decode("utf-8", "replace").splitlines() if "\t" in line)
        return {name: commit for commit, name in pairs}

    def _fetch_tip(self, full: str, commit: str) -> str:
        if self._has(commit):
            return commit
        with self._alone():
            if not self._has(commit):
                self._fetch("--depth=1", *self._from, f"+{full}:refs/distui/tip")
            if self._has(commit):
                return commit
            moved = self._local("rev-parse", "--verify", "--end-of-options", "refs/distui/tip^{commit}")
            return moved.decode().strip()  # somebody pushed meanwhile: what was fetched is the newer one

    def _fetch_commit(self, commit: str) -> str:
        self._begin()
        if self._has(commit):
            return commit
        with self._alone():
            if not self._has(commit):
                with contextlib.suppress(CheckFailed):  # a server may only give what a ref points to
                    self._fetch("--depth=1", *self._from, commit)
            if not self._has(commit):
                self._fetch_all()
        if not self._has(commit):
            raise UsageError(f"code: {self._url} has no commit {commit}, or gives it to nobody")
        return commit

    def _fetch_part(self, part: str) -> str:
        with self._alone():
            self._fetch_all()
        with contextlib.suppress(CheckFailed):
            return self._local("rev-parse", "--verify", "--end-of-options", f"{part}^{{commit}}").decode().strip()
        return ""

    def _fetch_all(self) -> None:
        full = ("--unshallow",) if (self._folder / "shallow").exists() else ()
        self._fetch(*full, *self._from, "+refs/heads/*:refs/distui/heads/*", "+refs/tags/*:refs/distui/tags/*")

    def _has(self, commit: str) -> bool:
        with contextlib.suppress(CheckFailed):
            self._local("cat-file", "-e", f"{commit}^{{commit}}")
            return True
        return False

    # the files

    def _export(self, commit: str, subdir: str, ignore: Sequence[str], limits: Limits) -> Checkout:
        """The commit's files, exactly as they are stored: no filter, no attribute, no hook changes them."""
        what = f"code: commit {commit[:12]} of {self._url}"
        found = list(checked(self._listed(commit, subdir, what), what))
        files = [file for file in found if file.mode != SUBMODULE]
        name = f"{commit}:{subdir}"
        if not _fits(files, limits):  # only then what is ignored is not even written
            files = self._wanted(files, ignore, what)
            name += json.dumps(list(ignore))
            refuse_too_much(readable(self._url), _sizes(files), limits)
        target = self._trees / hashlib.sha256(name.encode()).hexdigest()[:24]
        held = self._held(target, files, what)
        left_out = [f"left out: submodule {readable(file.path)}" for file in found if file.mode == SUBMODULE]
        if pointer := self._pointer(target):
            left_out.append(f"not fetched: what Git LFS keeps elsewhere; such files are pointers ({readable(pointer)})")
        return Checkout(target, commit, tuple(left_out), held)

    def _listed(self, commit: str, subdir: str, what: str) -> Iterator[Listed]:
        argv = self._argv(f"--git-dir={self._folder}", "ls-tree", "-r", "-l", "-z", f"{commit}:{subdir}")
        with Call(argv, self._environ, _LIST_SECONDS, self._place, given_up=self._given_up) as git:
            yield from listed(git.pieces(), what)
            code, said = git.ended()
            if code and subdir:
                raise UsageError(f"{what} has no folder {subdir!r}")
            if code:
                raise CheckFailed(f"{what} can't be read: {_reason(said)}")

    def _wanted(self, files: Sequence[Listed], ignore: Sequence[str], what: str) -> list[Listed]:
        count = 0

        def lines_of(file: Listed) -> list[str]:
            nonlocal count
            count += 1
            if file.mode == LINK or file.size > MAX_BYTES or count > _MOST_IGNORE_FILES:
                raise UsageError(
                    f"{what} has an ignore file that is a link, too large, or one of too many: {readable(file.path)}",
                    hint="an ignore file is a small file of its own",
                )
            return lines_in(self._local("cat-file", "blob", file.blob))

        with pattern_errors("code"):
            return list(wanted(files, Ignored(ignore, git_files=False), lines_of))

    def _held(self, target: Path, files: Sequence[Listed], what: str) -> HeldTree | None:
        """Have these files in a folder, written unless they are there, that another start does not remove."""
        for _ in range(3):
            with contextlib.suppress(OSError):
                if target.is_dir() and not _is_whole(target, files):
                    remove(target)
            if not target.is_dir():
                self._written(target, files, what)
            with contextlib.suppress(OSError):
                if (held := hold(target)) is not None:
                    return held
        return None

    def _written(self, target: Path, files: Sequence[Listed], what: str) -> None:
        _made(self._trees)
        size, free = sum(file.size for file in files), shutil.disk_usage(self._trees).free
        if size > free:
            raise CheckFailed(f"{what} is {size_words(size)}, and {size_words(free)} are free in {self._trees}")
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._trees))
        try:
            self._write(made, files, what)
            with contextlib.suppress(FileExistsError):
                made.rename(target)
        except OSError as exc:
            if not target.is_dir():
                raise CheckFailed(f"code: can't write {made}: {exc.strerror}") from exc
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _write(self, folder: Path, files: Sequence[Listed], what: str) -> None:
        argv = self._argv(f"--git-dir={self._folder}", "cat-file", "--batch")
        with subprocess.Popen(
            argv,
            env=self._environ,
            cwd=self._place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the app may be on the terminal
        ) as git:
            assert git.stdin is not None and git.stdout is not None
            try:
                write(folder, files, git.stdin, git.stdout, what, self._given_up)
            finally:
                git.kill()  # it may have more to say, and nobody reads it

    def _pointer(self, folder: Path) -> str:
        """A file that only points to its content in Git LFS; empty when there is none."""
        for path in folder.rglob("*"):
            go_on(self._given_up)
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 400:
                with path.open("rb") as file:
                    if file.read(len(_LFS)) == _LFS:
                        return str(path.relative_to(folder))
        return ""

    # calling git

    def _alone(self) -> AbstractContextManager[None]:
        """For what changes the repository; what only asks waits for nobody."""
        return fetching_alone(self._folder, self._url, self._given_up)

    def _begin(self) -> None:
        head = self._folder / "HEAD"
        if head.exists():
            return
        with self._alone():
            if not head.exists():
                self._git("init", "--quiet", "--bare", "--template=", "--", str(self._folder))

    def _fetch(self, *words: str) -> None:
        room = shutil.disk_usage(self._place).free
        most = min(self._most, room - min(_ROOM, room // 2))
        words = ("-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
                  "--no-write-fetch-head", "--no-auto-maintenance", *words)  # fmt: skip
        argv = self._argv(f"--git-dir={self._folder}", *words)
        try:
            self._asked(("sh", "-c", _WITHIN, str(most // 512), *argv), most)
        except CheckFailed:
            for part in (self._folder / "objects" / "pack").glob("tmp_*"):
                with contextlib.suppress(OSError):
                    _remove_part(part, most)
            raise

    def _local(self, *words: str) -> bytes:
        return self._git(f"--git-dir={self._folder}", *words)

    def _argv(self, *words: str) -> tuple[str, ...]:
        kept = ("-c", "credential.helper=", "-c", "http.followRedirects=false")
        more = kept if self._token is not None else ()  # nobody else may keep it, nor get it by a redirect
        return ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *more, *words)

    def _git(self, *words: str) -> bytes:
        return self._asked(self._argv(*words))

    def _asked(self, argv: tuple[str, ...], most: int = 0) -> bytes:
        env = {**self._environ, "GIT_CEILING_DIRECTORIES": str(self._place)}
        code, output, said = call(argv, env, _SECONDS, self._place, self._given_up)
        if code and _LIMIT_HIT in said:
            raise CheckFailed(
                f"code: {self._url} is larger than {size_words(most)}, too much to fetch into {self._place}",
                hint="name a branch or tag and not a part of a commit's name, free the disk, or raise max_size",
            )
        if code:
            if self._token:
                said = said.replace(self._token, "***")
            raise CheckFailed(f"code: git can't read {self._url}: {_reason(said)}", hint=_advice(said, self._token))
        return output

    @contextlib.contextmanager
    def _secret(self) -> Iterator[None]:
        """The token within reach of git, for as long as it is needed."""
        if self._token is None:
            yield
            return
        before = self._environ
        with tempfile.TemporaryDirectory(prefix="distui-") as folder:
            script = Path(folder) / "askpass"
            script.write_text(_ASKPASS)
            script.chmod(0o700)
            self._environ = {**before, "GIT_ASKPASS": str(script), "DISTUI_GIT_TOKEN": self._token}
            try:
                yield
            finally:
                self._environ = before


def _is_whole(folder: Path, files: Sequence[Listed]) -> bool:
    """Whether all are there: what was written just before this machine lost its power may be empty, or gone."""
    try:
        return all((folder / file.path).lstat().st_size == file.size for file in files)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _sizes(files: Sequence[Listed]) -> list[Sized]:
    return [(file.path, file.size) for file in files]


def _fits(files: Sequence[Listed], limits: Limits) -> bool:
    try:
        refuse_too_much("", _sizes(files), limits)
    except UsageError:
        return False
    return True


def _remove_part(part: Path, most: int) -> None:
    """Remove what a fetch left that was ended at its limit, or long ago: another one may be writing its own."""
    found = part.stat()
    if found.st_size >= most - 512 or time.time() - found.st_mtime > _SECONDS:
        part.unlink()


def _made(folder: Path) -> None:
    try:
        make_private(folder)
    except OSError as error:
        raise CheckFailed(f"code: {error.filename or folder} {reason(error)}") from None


def _near(ref: str, refs: Mapping[str, str]) -> str:
    names = [name.removeprefix("refs/heads/").removeprefix("refs/tags/") for name in refs if name.startswith("refs/")]
    names = [n for n in dict.fromkeys(names) if not n.endswith("^{}") and not n.startswith("refs/")]
    near = difflib.get_close_matches(ref, names, 3, 0.5)
    if near:
        return f", did you mean {' or '.join(repr(n) for n in near)}?"
    return f"; it has {', '.join(map(readable, names[:8]))}" if names else "; it has none"


def _reason(said: str) -> str:
    """git's own sentence, or ssh's, which may warn first."""
    aside = ("warning: ", "** ", "@")
    lines = [line for line in said.splitlines() if line.strip() and not line.lower().startswith(aside)]
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in lines]
    changed = [line for line in lines if line.startswith("Host key for ")]  # ssh explains that at length before
    return readable((changed or lines)[0])[:300] if lines else "it said nothing"


def _advice(said: str, token: str | None) -> str:
    lower = said.lower()
    if "could not read username" in lower or "authentication failed" in lower or "could not read password" in lower:
        return "is the token right?" if token else "a private repository needs token: NAME_OF_A_VARIABLE"
    if "redirect" in lower or "error: 30" in lower:
        return "the token is not sent where the server redirects to: write that URL, which may end in .git"
    if "permission denied" in lower or "publickey" in lower:
        return "is your ssh key in the agent, and known there?"
    return ""
