"""From the job's `code:` to one tree: read here, once, for all hosts and attempts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from distui.errors import CheckFailed, DistuiError, UsageError
from distui.files import why_no_folder
from distui.frozen import frozen
from distui.homes import expanded
from distui.plan.content.tree import Tree, readable
from distui.plan.model import CodePlan
from distui.runs.code.changes import state_of
from distui.runs.code.git.kept import HeldTree
from distui.runs.code.git.repository import Repository
from distui.runs.code.hashes import Hashes, hashes_of
from distui.runs.code.ignore import Ignored
from distui.runs.code.limits import Limits
from distui.runs.code.scan import scan
from distui.spec.job.job import Code, Job, destination

GIT_SECONDS = 60.0
"""How long a repository's answer holds for a plan that is made again at each key."""


STILL_SECONDS = 1.0

_Key = tuple[Code, str, str | None]
"""A job's code, where it is seen, and the token."""


@frozen
class CodeSource:
    """The code of a run: what the plan says of it, its tree, and the folder to read it from."""

    plan: CodePlan
    tree: Tree
    root: Path
    held: HeldTree | None = field(default=None, compare=False)
    """Keeps the files of a commit from being removed while somebody may send them."""


class CodeReader:
    """Resolves the code of jobs. Blocking: reads folders, asks git. `cache`: for repositories and hashes."""

    def __init__(self, cache: Path, environ: Mapping[str, str]) -> None:
        self._cache = cache
        self._environ = environ
        self._known: dict[_Key, tuple[float, CodeSource | DistuiError]] = {}
        self._hashes: dict[Path, Hashes] = {}
        self._asking = threading.Lock()
        self._newest: _Key | None = None

    def read(
        self, job: Job, token: str | None = None, *, typing: bool = False, given_up: threading.Event | None = None
    ) -> CodeSource | None:
        """The job's code; None when it has none. Raises UsageError or CheckFailed, with nothing contacted but git.

        `typing`: the job is being written, so a repository is only asked once its URL has stood still for a moment.
        Once `given_up` is set nobody waits for it: git is ended, and GivenUp raised.
        """
        if job.code is None:
            return None
        to = destination(job.code, job.workdir)
        if job.code.git is None:
            return self._folder(job.code, code_path(job), to, given_up)
        return self._asked((job.code, to, token), given_up or threading.Event(), typing=typing)

    def _asked(self, key: _Key, given_up: threading.Event, *, typing: bool) -> CodeSource:
        """What is known of a repository, or what it answers now: one question at a time."""
        self._newest = key
        if typing and not self._fresh(key):
            time.sleep(STILL_SECONDS)
        with self._asking:
            if typing and self._newest != key:
                raise CheckFailed("another repository is asked for by now")
            if not self._fresh(key):
                self._known[key] = (time.monotonic(), self._answer(key, given_up))
            found = self._known[key][1]
        if isinstance(found, DistuiError):
            raise found
        return found

    def _fresh(self, key: _Key) -> bool:
        known = self._known.get(key)
        return known is not None and time.monotonic() - known[0] < GIT_SECONDS

    def _answer(self, key: _Key, given_up: threading.Event) -> CodeSource | DistuiError:
        try:
            return self._repository(*key, given_up)
        except DistuiError as error:
            return error

    def _folder(self, code: Code, root: Path, to: str, given_up: threading.Event | None) -> CodeSource:
        if what := why_no_folder(root):
            raise UsageError(f"code: {readable(str(root))} {what}", hint="paths are relative to the job file's folder")
        if root not in self._hashes:
            self._hashes[root] = hashes_of(self._cache, root)
        limits = Limits(code.max_size, code.max_file)
        found = scan(root, Ignored(code.ignore), limits, self._hashes[root], given_up)
        state = state_of(root, found.tree, self._environ, self._cache)
        plan = CodePlan(
            source=code.path or "",
            tree=found.tree.id,
            files=len(found.tree.files),
            bytes=found.tree.size,
            to=to,
            mode=code.mode,
            commit=state.commit if state else "",
            dirty=bool(state and state.stat),
            stat=state.stat if state else "",
            diff=state.diff if state else "",
            left_out=found.left_out,
        )
        return CodeSource(plan, found.tree, root)

    def _repository(self, code: Code, to: str, token: str | None, given_up: threading.Event) -> CodeSource:
        assert code.git is not None
        limits = Limits(code.max_size, code.max_file)
        there = Repository(code.git, self._cache, self._environ, token, given_up)
        made = there.checkout(code.ref, code.subdir, code.ignore, limits)
        found = scan(made.folder, Ignored(code.ignore, git_files=False), limits, given_up=given_up)
        plan = CodePlan(
            source=code.git + (f" {code.subdir}" if code.subdir else ""),
            tree=found.tree.id,
            files=len(found.tree.files),
            bytes=found.tree.size,
            to=to,
            mode=code.mode,
            commit=made.commit,
            ref=code.ref or "HEAD",
            left_out=(*made.left_out, *found.left_out),
        )
        return CodeSource(plan, found.tree, made.folder, made.held)


def code_path(job: Job) -> Path:
    """The folder that `code` names, made absolute: relative to the job file's, else to where distui was started."""
    assert job.code is not None
    written = expanded(job.code.path or ".")
    beside = Path(job.path).parent if job.path and job.path != "-" else Path()
    return (beside / written).absolute()
