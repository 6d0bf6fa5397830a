"""git on this machine: a ref of a repository resolved to one commit, and its files as a folder.

Hosts need neither git nor a token. git is called by argv, with the URL after `--`; only transports that run no program
are allowed, hooks and filters are not used. The token goes by a variable that only our askpass script reads.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from distui.errors import CheckFailed, UsageError
from distui.files import make_private, reason
from distui.frozen import frozen
from distui.plan.content.tree import readable
from distui.regex import regex
from distui.runs.code.git_call import call, remote_environment
from distui.runs.code.git_tree import SUBMODULE, Listed, checked, write
from distui.runs.code.local_git import local
from distui.spec.job.code_keys import local_repository

_SECONDS = 600.0
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


class Repository:
    """A remote repository, kept as a bare one below `cache`. Blocking; raises UsageError or CheckFailed."""

    def __init__(self, url: str, cache: Path, environ: Mapping[str, str], token: str | None = None) -> None:
        self._url = url
        self._from: tuple[str, ...] = ("--", url)
        self._token = token
        name = hashlib.sha256(url.encode()).hexdigest()[:24]
        self._place = cache / "git"
        self._folder = self._place / name
        self._trees = self._place / f"{name}.trees"
        self._environ = remote_environment(environ)

    def checkout(self, ref: str | None, subdir: str | None) -> Checkout:
        """The files of what `ref` names now: branch, tag, commit, or the repository's HEAD."""
        if place := local_repository(self._url):
            self._take_from(local(Path(place)).git_dir)
        with self._secret():
            commit = self._fetched(ref)
        return self._export(commit, (subdir or "").strip("/"))

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
        if not self._has(commit):
            self._fetch("--depth=1", *self._from, f"+{full}:refs/distui/tip")
        if self._has(commit):
            return commit
        moved = self._local("rev-parse", "--verify", "--end-of-options", "refs/distui/tip^{commit}")
        return moved.decode().strip()  # somebody pushed meanwhile: what was fetched is the newer one

    def _fetch_commit(self, commit: str) -> str:
        if not self._has(commit):
            with contextlib.suppress(CheckFailed):  # a server may only give what a ref points to
                self._fetch("--depth=1", *self._from, commit)
        if not self._has(commit):
            self._fetch_all()
        if not self._has(commit):
            raise UsageError(f"code: {self._url} has no commit {commit}, or gives it to nobody")
        return commit

    def _fetch_part(self, part: str) -> str:
        self._fetch_all()
        with contextlib.suppress(CheckFailed):
            return self._local("rev-parse", "--verify", "--end-of-options", f"{part}^{{commit}}").decode().strip()
        return ""

    def _fetch_all(self) -> None:
        self._begin()
        full = ("--unshallow",) if (self._folder / "shallow").exists() else ()
        self._fetch(*full, *self._from, "+refs/heads/*:refs/distui/heads/*", "+refs/tags/*:refs/distui/tags/*")

    def _has(self, commit: str) -> bool:
        self._begin()
        with contextlib.suppress(CheckFailed):
            self._local("cat-file", "-e", f"{commit}^{{commit}}")
            return True
        return False

    # the files

    def _export(self, commit: str, subdir: str) -> Checkout:
        """The commit's files, exactly as they are stored: no filter, no attribute, no hook changes them."""
        name = hashlib.sha256(f"{commit}:{subdir}".encode()).hexdigest()[:24]
        target = self._trees / name
        what = f"code: commit {commit[:12]} of {self._url}"
        listed = list(checked(self._listed(commit, subdir, what), what))
        left_out = [f"left out: submodule {readable(file.path)}" for file in listed if file.mode == SUBMODULE]
        if not target.is_dir():
            _made(self._trees)
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._trees))
            try:
                self._write(made, [file for file in listed if file.mode != SUBMODULE], what)
                with contextlib.suppress(FileExistsError):
                    made.rename(target)
            except OSError as exc:
                if not target.is_dir():
                    raise CheckFailed(f"code: can't write {made}: {exc.strerror}") from exc
            finally:
                shutil.rmtree(made, ignore_errors=True)
        if pointer := self._pointer(target):
            left_out.append(f"not fetched: what Git LFS keeps elsewhere; such files are pointers ({readable(pointer)})")
        return Checkout(target, commit, tuple(left_out))

    def _listed(self, commit: str, subdir: str, what: str) -> Iterator[Listed]:
        try:
            output = self._local("ls-tree", "-r", "-z", f"{commit}:{subdir}")
        except CheckFailed as exc:
            if not subdir:
                raise
            raise UsageError(f"{what} has no folder {subdir!r}") from exc
        for line in output.split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, _, blob = head.decode().split()[:3]
                yield Listed(mode, blob, os.fsdecode(path))

    def _write(self, folder: Path, files: list[Listed], what: str) -> None:
        argv = self._argv(f"--git-dir={self._folder}", "cat-file", "--batch")
        with subprocess.Popen(
            argv, env=self._environ, cwd=self._place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as git:
            assert git.stdin is not None and git.stdout is not None
            try:
                write(folder, files, git.stdin, git.stdout, what)
            finally:
                git.kill()  # it may have more to say, and nobody reads it

    @staticmethod
    def _pointer(folder: Path) -> str:
        """A file that only points to its content in Git LFS; empty when there is none."""
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 400:
                with path.open("rb") as file:
                    if file.read(len(_LFS)) == _LFS:
                        return str(path.relative_to(folder))
        return ""

    # calling git

    def _begin(self) -> None:
        if (self._folder / "HEAD").exists():
            return
        _made(self._place)
        self._git("init", "--quiet", "--bare", "--template=", "--", str(self._folder))

    def _fetch(self, *words: str) -> None:
        self._begin()
        self._local("fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
                  "--no-write-fetch-head", "--no-auto-maintenance", *words)  # fmt: skip

    def _local(self, *words: str) -> bytes:
        return self._git(f"--git-dir={self._folder}", *words)

    def _argv(self, *words: str) -> tuple[str, ...]:
        kept = ("-c", "credential.helper=", "-c", "http.followRedirects=false")
        more = kept if self._token is not None else ()  # nobody else may keep it, nor get it by a redirect
        return ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *more, *words)

    def _git(self, *words: str) -> bytes:
        env = {**self._environ, "GIT_CEILING_DIRECTORIES": str(self._place)}
        done = call(self._argv(*words), env, _SECONDS, self._place)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            if self._token:
                said = said.replace(self._token, "***")
            raise CheckFailed(f"code: git can't read {self._url}: {_reason(said)}", hint=_advice(said, self._token))
        return done.stdout

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
    """git's own sentence."""
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in said.splitlines() if line.strip()]
    return readable(lines[0])[:300] if lines else "it said nothing"


def _advice(said: str, token: str | None) -> str:
    lower = said.lower()
    if "could not read username" in lower or "authentication failed" in lower or "could not read password" in lower:
        return "is the token right?" if token else "a private repository needs token: NAME_OF_A_VARIABLE"
    if "redirect" in lower or "error: 30" in lower:
        return "the token is not sent where the server redirects to: write that URL, which may end in .git"
    if "permission denied" in lower or "publickey" in lower:
        return "is your ssh key in the agent, and known there?"
    return ""
