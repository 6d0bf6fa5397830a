"""What a job takes from this machine beyond its own folder, and whether that is allowed: see `distui.consent`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from distui.cluster.settings import ClusterSettings
from distui.consent import Ask, Consents, own_repository, refuse_secret
from distui.errors import UsageError
from distui.files import real
from distui.homes import expanded
from distui.runs.code.git.local import local
from distui.runs.code.source import code_path
from distui.runs.images.context import build_path
from distui.spec.job.code_keys import git_host, local_repository
from distui.spec.job.job import Job

Part = Literal["image", "code", "build"]
"""What a job takes something for."""


def consents(settings: ClusterSettings) -> Consents:
    """What this user allowed."""
    folders = (expanded(folder) for folder in settings.allow_folders)
    return Consents(settings.paths.allowed_file, settings.allow_tokens, folders)


def permit(settings: ClusterSettings, job: Job) -> None:
    """Raise UsageError unless everything the job takes from this machine is its own or allowed."""
    for reasons in refusals(settings, job).values():
        for reason in reasons:
            raise reason


def refusals(settings: ClusterSettings, job: Job) -> dict[Part, list[UsageError]]:
    """Everything that the job takes and that is not its own or allowed, by what it is for; nobody is asked."""
    allowed = consents(settings)
    return {part: list(_refused(job, wanted, allowed)) for part, wanted in _parts(settings, job, allowed, ()).items()}


def _refused(job: Job, wanted: Iterator[Ask], allowed: Consents) -> Iterator[UsageError]:
    try:
        for one in wanted:
            if not allowed.has(one):
                yield not_allowed(job, one)
    except UsageError as exc:
        yield exc


def not_allowed(job: Job, one: Ask) -> UsageError:
    """The error for something that nobody allowed."""
    return UsageError(f"job {job.name}: {one.words}, which you have not allowed", hint=one.command)


def asks(settings: ClusterSettings, job: Job, allowed: Consents, typed: Collection[str] = ()) -> Iterator[Ask]:
    """What the job takes beyond its own folder. Raises UsageError for folders that are never sent.

    `typed` are keys that the person gave beside the file: what they wrote there needs no second word.
    """
    return chain.from_iterable(_parts(settings, job, allowed, typed).values())


def _parts(settings: ClusterSettings, job: Job, allowed: Consents, typed: Collection[str]) -> dict[Part, Iterator[Ask]]:
    return {
        "image": _for_image(job),
        "code": _for_code(settings, job, allowed, typed),
        "build": _for_build(settings, job, allowed, typed),
    }


def _for_image(job: Job) -> Iterator[Ask]:
    if job.build is None and job.pull != "never":  # what is built, or there, is asked of no registry
        yield from (Ask("token", name, registry) for name, registry in job.image_variables)


def _for_code(settings: ClusterSettings, job: Job, allowed: Consents, typed: Collection[str]) -> Iterator[Ask]:
    code = job.code
    if code is None:
        return
    if code.git is None:
        yield from _folder(settings, job, allowed, "code", code_path(job), typed={"code", "code.path"} & {*typed})
        return
    if code.token is not None:
        yield Ask("token", code.token, git_host(code.git))
    if place := local_repository(code.git):
        named, *others = local(Path(place)).places
        yield from _folder(settings, job, allowed, "code", named, typed={"code", "code.git"} & {*typed})
        for other in others:  # where the repository itself leads: whoever typed its name may not know
            yield from _folder(settings, job, allowed, "code", other, typed=())


def _for_build(settings: ClusterSettings, job: Job, allowed: Consents, typed: Collection[str]) -> Iterator[Ask]:
    if job.build is not None:
        own = {"build", "build.context"} & {*typed}
        yield from _folder(settings, job, allowed, "build", build_path(job), typed=own)


def _folder(
    settings: ClusterSettings, job: Job, allowed: Consents, key: str, folder: Path, typed: Collection[str]
) -> Iterator[Ask]:
    meant = real(folder)
    if allowed.lists(meant):
        return
    refuse_secret(meant, settings.environ, key)
    if not job.path or typed:
        return
    beside = Path(job.path).absolute().parent.resolve()
    own = own_repository(beside, settings.environ)
    if job.path == "-" or (meant != own and own not in meant.parents):
        yield Ask("folder", str(meant), "standard input" if job.path == "-" else str(beside))
