"""Calling git on this machine: by argv, without a question, and by no config but the user's own."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from distui.errors import CheckFailed
from distui.runs.code.git.lock import GivenUp

MOST = 64 << 20
"""Bytes of an answer that is kept whole: the refs of a repository, a diff."""
MOST_ROWS = 500_000
"""Files of a commit that are looked at; the largest repositories there are have as many."""
_LONGEST_ROW = 64 << 10
_COMPLAINT = 64 << 10
_PIECE = 64 << 10
_TIDY_SECONDS = 2.0
"""For git to remove what it has locked, once it is asked to end: a lock that stays is in the way for ever."""
_LOOK = 0.5
"""Seconds between two looks whether somebody still waits for git."""
_AT_ONCE = 4096
"""Bytes that a pipe which is ready takes without waiting."""
_POINTERS = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
     "GIT_COMMON_DIR", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CURL_VERBOSE", "GIT_EXTERNAL_DIFF"}
)  # fmt: skip


def remote_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """For talking to a repository elsewhere: the caller's environment and their own config, since proxies and keys
    are said there. Without what would point git elsewhere, or trace it among its errors, and with no question asked.
    """
    kept = {k: v for k, v in environ.items() if k not in _POINTERS and not k.startswith("GIT_TRACE")}
    asks_nothing = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS_REQUIRE": "never"}
    ssh = {} if "GIT_SSH_COMMAND" in kept else {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
    fixed = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    ours = {"GIT_NO_LAZY_FETCH": "1", "GIT_DEFAULT_HASH": "sha1"}  # as nearly every repository has it
    return {**kept, **asks_nothing, **ssh, **fixed, **ours}


def objects_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """For reading objects in `folder`, a git folder of ours: no config, attribute, replacement or hook of anybody."""
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_")}
    nobody = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_GLOBAL": "/dev/null"}
    nothing = {"GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
    alone = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "GIT_ALLOW_PROTOCOL": "", "LC_ALL": "C"}
    return {**kept, **nobody, **nothing, **alone, "GIT_DIR": str(folder), "GIT_OPTIONAL_LOCKS": "0"}


class Call:
    """git at work in `folder`, one of ours: git also reads the config of a repository around where it is called.

    A context manager, at whose end git is gone. Raises CheckFailed without a git that starts. What it says is read
    as it comes, and no more is kept than the reader keeps: a repository of a few kilobytes can make it say terabytes.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        seconds: float,
        folder: Path,
        given: Iterable[bytes] = (),
        given_up: threading.Event | None = None,
    ) -> None:
        """`given` goes to git's stdin. Once `given_up` is set nobody waits for it any more."""
        self._given_up = given_up or threading.Event()
        self._argv, self._env, self._folder, self._given = argv, env, folder, iter(given)
        self._seconds, self._ends = seconds, time.monotonic() + seconds
        self._complaint, self._rest = b"", memoryview(b"")

    def __enter__(self) -> Call:
        pipe = subprocess.PIPE
        try:
            self._git = subprocess.Popen(
                self._argv, env=self._env, cwd=self._folder, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
            )
        except OSError as exc:
            there = not isinstance(exc, FileNotFoundError)
            what = f"can't be started: {exc.strerror}" if there else "is not installed on this machine"
            raise CheckFailed(f"code: git {what}", hint="install git, or use code: {path: ...}") from exc
        return self

    def __exit__(self, *_: object) -> None:
        self._git.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._git.wait(_TIDY_SECONDS)
        self._git.kill()
        with contextlib.suppress(OSError):
            self._git.__exit__(None, None, None)

    def pieces(self) -> Iterator[bytes]:
        """What git says until it ends. Raises CheckFailed when it takes too long, GivenUp."""
        git = self._git
        assert git.stdin is not None and git.stdout is not None and git.stderr is not None
        with selectors.DefaultSelector() as ready:
            ready.register(git.stdout, selectors.EVENT_READ)
            ready.register(git.stderr, selectors.EVENT_READ)
            ready.register(git.stdin, selectors.EVENT_WRITE)
            while len(ready.get_map()) > 0:
                left = self._ends - time.monotonic()
                if left <= 0:
                    raise CheckFailed(f"code: git did not finish within {self._seconds:g} s")
                if self._given_up.is_set():
                    raise GivenUp
                for key, _ in ready.select(min(left, _LOOK)):
                    if key.fileobj is git.stdin:
                        self._give(ready, git.stdin)
                    elif not (piece := os.read(key.fd, _PIECE)):
                        ready.unregister(key.fileobj)
                    elif key.fileobj is git.stdout:
                        yield piece
                    else:
                        self._complaint = (self._complaint + piece)[:_COMPLAINT]

    def _give(self, ready: selectors.BaseSelector, stdin: IO[bytes]) -> None:
        try:
            if not self._rest and (more := next(self._given, None)) is not None:
                self._rest = memoryview(more)
                return
            if self._rest:
                self._rest = self._rest[os.write(stdin.fileno(), self._rest[:_AT_ONCE]) :]
                return
        except BrokenPipeError:  # it has its reason, and says so
            pass
        ready.unregister(stdin)
        with contextlib.suppress(OSError):
            stdin.close()

    def ended(self) -> tuple[int, str]:
        """The exit code once all was read, and the beginning of what it complained of."""
        try:
            code = self._git.wait(max(self._ends - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired as exc:
            raise CheckFailed(f"code: git did not finish within {self._seconds:g} s") from exc
        return code, self._complaint.decode("utf-8", "replace").strip()


def call(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    seconds: float,
    folder: Path,
    given_up: threading.Event | None = None,
) -> tuple[int, bytes, str]:
    """git's exit code, what it says and what it complains of. Raises CheckFailed and GivenUp as `Call`, and CheckFailed
    beyond MOST bytes.
    """
    with Call(argv, env, seconds, folder, given_up=given_up) as git:
        said = upto(git.pieces(), MOST)
        if len(said) > MOST:
            raise CheckFailed(f"code: git said more than {MOST >> 20} MiB, which is no usual answer")
        code, complaint = git.ended()
    return code, said, complaint


def upto(pieces: Iterable[bytes], most: int) -> bytes:
    """What git says, as far as it has passed `most` bytes; the rest is not read."""
    kept = bytearray()
    for piece in pieces:
        kept += piece
        if len(kept) > most:
            break
    return bytes(kept)


def rows(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What git says with `-z`, row by row. Raises CheckFailed for more than MOST_ROWS, or one without an end."""
    held, count = b"", 0
    for piece in pieces:
        *whole, held = (held + piece).split(b"\0")
        count += len(whole)
        if count > MOST_ROWS or len(held) > _LONGEST_ROW:
            raise TooMany(f"more than {MOST_ROWS:,} files" if count > MOST_ROWS else "a path without an end")
        yield from whole


class TooMany(CheckFailed):
    """A commit holds more than anybody could mean as code. The message says what, after `holds`."""
