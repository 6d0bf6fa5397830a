"""The job's code in the plan: where it comes from, which tree it is, where each host has it and the task sees it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from distui.amounts import counted, size_words
from distui.plan.model import CodePlan
from distui.spec.job.job import Job, destination

STORE = ".local/state/distui/code"
"""Below the login's home on each host: one folder for each tree."""

COPY = "code"
"""The private copy, in the run's folder."""


def store(home: str) -> str:
    """The folder that holds the trees on a host."""
    return f"{home.rstrip('/')}/{STORE}"


def home_of_folder(run_dir: str) -> str:
    """The login's home, of a run's folder in it."""
    return run_dir.rpartition("/.local/state/distui/hosts/")[0]


def code_folder(code: CodePlan, home: str, run_dir: str, *, contained: bool) -> str:
    """The folder that a task uses on its host: the shared tree, or a copy of its own.

    Without a container nothing keeps a program from writing into the tree, which other runs share.
    """
    return f"{run_dir}/{COPY}" if is_copied(code, contained=contained) else f"{store(home)}/{code.tree}/tree"


def is_copied(code: CodePlan, *, contained: bool) -> bool:
    """Whether a host's tasks get a copy of their own."""
    return code.mode == "rw" or not contained


def code_workdir(job: Job, source: str) -> str | None:
    """Where a task without a container starts: in its copy, also when `workdir` means the code's place."""
    if job.code is None:
        return job.workdir
    place = destination(job.code, job.workdir)
    if job.workdir is None:
        return source
    if job.workdir == place or job.workdir.startswith(f"{place}/"):
        return posixpath.join(source, posixpath.relpath(job.workdir, place)) if job.workdir != place else source
    return job.workdir


def code_words(code: CodePlan) -> str:
    """The code in one line: `./ (42 files, 1.2 MB), tree 0123456789ab, commit 89ab012 and changes`."""
    what = f"{counted(code.files, 'file')}, {size_words(code.bytes)}"
    return f"{code.source} ({what}), tree {code.tree[:12]}{_commit(code)}"


def _commit(code: CodePlan) -> str:
    if not code.commit:
        return ""
    ref = f" ({code.ref})" if code.ref and code.ref != code.commit else ""
    return f", commit {code.commit[:12]}{ref}" + (" and uncommitted changes" if code.dirty else "")


def code_lines(code: CodePlan, *, full: bool) -> Iterator[str]:
    """What the plan says of it, a line each; with `full` the diff itself."""
    yield code_words(code)
    yield f"seen at {code.to}, " + (
        "read-only" if code.mode == "ro" else "as a copy of the run's own, thrown away with it"
    )
    yield from code.left_out
    if code.stat:
        yield "not committed:"
        yield from (f"  {line}" for line in code.stat.splitlines())
    if full and code.diff:
        yield from code.diff.splitlines()
