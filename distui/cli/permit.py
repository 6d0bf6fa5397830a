"""Asks before a job takes what is not its own from this machine: see `distui.consent`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from distui.cli.settings import Settings
from distui.consent import Ask, Consents, own_repository, refuse_secret
from distui.errors import UsageError

if TYPE_CHECKING:
    from distui.spec.job import Job


def consents(told: Settings) -> Consents:
    """What this user allowed."""
    folders = (Path(folder).expanduser() for folder in told["allow_folders"])
    return Consents(told.paths.allowed_file, told["allow_tokens"], folders)


def permit(told: Settings, job: Job, typed: Collection[str] = (), *, ask: bool = False) -> None:
    """Raise UsageError unless everything the job takes from this machine is its own or allowed.

    `typed` are keys that the command line gave: what the person wrote there needs no second word. With `ask` they are
    asked on the terminal, where there is one, and a yes is remembered; `-y` answers nothing here.
    """
    allowed = consents(told)
    for one in asks(told, job, allowed, typed):
        if allowed.has(one):
            continue
        if not ask or told["no_input"] or not sys.stdin.isatty() or not sys.stderr.isatty():
            raise UsageError(f"job {job.name}: {one.words}, which you have not allowed", hint=f"{one.command}")
        if not _yes(f"job {job.name}: {one.words}. Allow it, now and later? [y/N] "):
            raise UsageError(f"job {job.name}: {one.words}, which you did not allow")
        allowed.remember(one)


def asks(told: Settings, job: Job, allowed: Consents, typed: Collection[str] = ()) -> Iterator[Ask]:
    """What the job takes beyond its own folder. Raises UsageError for folders that are never sent."""
    from distui.run.build.context import build_path
    from distui.run.code.source import code_path
    from distui.spec.code_keys import git_host, local_repository

    code = job.code
    if code is not None and code.git is not None and code.token is not None:
        yield Ask("token", code.token, git_host(code.git))
    if code is not None and code.git is None:
        yield from _folder(told, job, allowed, "code", code_path(job), typed={"code", "code.path"} & {*typed})
    if code is not None and code.git is not None and (place := local_repository(code.git)):
        yield from _folder(told, job, allowed, "code", Path(place), typed={"code", "code.git"} & {*typed})
    if job.build is not None:
        own = {"build", "build.context"} & {*typed}
        yield from _folder(told, job, allowed, "build", build_path(job), typed=own)


def _folder(
    told: Settings, job: Job, allowed: Consents, key: str, folder: Path, typed: Collection[str]
) -> Iterator[Ask]:
    real = folder.resolve()
    if allowed.lists(real):
        return
    refuse_secret(real, told.environ, key)
    if not job.path or typed:
        return
    beside = Path(job.path).absolute().parent.resolve()
    own = own_repository(beside, told.environ)
    if job.path == "-" or (real != own and own not in real.parents):
        yield Ask("folder", str(real), "standard input" if job.path == "-" else str(beside))


def _yes(question: str) -> bool:
    from distui.run.lines import safe

    sys.stderr.write(safe(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
