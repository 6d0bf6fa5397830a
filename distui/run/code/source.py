"""From the job's `code:` to one tree: read here, once, for all hosts and attempts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distui.errors import UsageError
from distui.plan.model import CodePlan
from distui.plan.render import visible
from distui.plan.tree import Tree
from distui.run.code.git import Repository, state_of
from distui.run.code.ignore import Ignored
from distui.run.code.scan import Limits, scan
from distui.spec.job import Code, Job, destination

GIT_SECONDS = 60.0
"""How long a repository's answer holds for a plan that is made anew at each key."""


@dataclass(frozen=True, slots=True)
class CodeSource:
    """The code of a run: what the plan says of it, its tree, and the folder to read it from."""

    plan: CodePlan
    tree: Tree
    root: Path


class CodeReader:
    """Resolves the code of jobs. Blocking: reads folders, asks git. `cache` is where repositories are kept."""

    def __init__(self, cache: Path, environ: Mapping[str, str]) -> None:
        self._cache = cache
        self._environ = environ
        self._known: dict[tuple[Code, str, str | None], tuple[float, CodeSource]] = {}

    def read(self, job: Job, token: str | None = None) -> CodeSource | None:
        """The job's code; None when it has none. Raises UsageError or CheckFailed, with nothing contacted but git."""
        if job.code is None:
            return None
        to = destination(job.code, job.workdir)
        if job.code.git is None:
            return self._folder(job.code, code_path(job), to)
        key = (job.code, to, token)
        known = self._known.get(key)
        if known is None or time.monotonic() - known[0] > GIT_SECONDS:
            self._known[key] = known = (time.monotonic(), self._repository(job.code, to, token))
        return known[1]

    def _folder(self, code: Code, root: Path, to: str) -> CodeSource:
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise UsageError(f"code: {visible(str(root))} {what}", hint="paths are relative to the job file's folder")
        found = scan(root, Ignored(code.ignore), Limits(code.max_size, code.max_file))
        state = state_of(root, self._environ)
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

    def _repository(self, code: Code, to: str, token: str | None) -> CodeSource:
        assert code.git is not None
        made = Repository(code.git, self._cache, self._environ, token).checkout(code.ref, code.subdir)
        found = scan(made.folder, Ignored(code.ignore, git_files=False), Limits(code.max_size, code.max_file))
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
        return CodeSource(plan, found.tree, made.folder)


def code_path(job: Job) -> Path:
    """The folder that `code` names, made absolute: relative to the job file's, else to where distui was started."""
    assert job.code is not None
    written = Path(job.code.path or ".").expanduser()
    beside = Path(job.path).parent if job.path and job.path != "-" else Path()
    return (beside / written).absolute()
