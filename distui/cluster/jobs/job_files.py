"""Finds job files on this machine, and reads them as a person edits them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from distui.cluster.settings import ClusterSettings
from distui.errors import Problem, SpecError, UsageError
from distui.files import exists, is_file, is_folder, open_to_read
from distui.frozen import frozen
from distui.plan.checks import check_job
from distui.regex import regex
from distui.runs.code.source import code_path
from distui.runs.images.context import build_path
from distui.spec.choose import hosts_of_job
from distui.spec.hosts.inventory import Inventory
from distui.spec.job.job import Job
from distui.spec.job.read_job import job_names, place_of, read_job
from distui.spec.yaml.files import read_text

_KEY = r"""["']?(command|launcher|ranks|gpus_per_host|rendezvous)["']?\s*:"""
_LOOKS_LIKE_A_JOB = regex(rf"^{_KEY}|\A\s*\{{(.*[{{,])?\s*{_KEY}", re.MULTILINE | re.DOTALL)
"""A *.yaml of this folder may be anything: only what has a key of jobs is shown there, as YAML or as JSON."""


@frozen
class JobFile:
    """One document of a job file on this machine."""

    path: Path
    name: str
    problems: tuple[Problem, ...] = ()
    """Why it can't be read; empty when it can."""
    job: Job | None = None
    """What it says; None when it can't be read."""
    text: str | None = None
    """The text of a job that was never saved: there is no file at `path` yet."""


@frozen
class Draft:
    """A job as it stands in the launch screen: the value, or every problem with its line."""

    job: Job | None
    problems: tuple[Problem, ...] = ()


def job_path(cwd: Path, settings: ClusterSettings, reference: str) -> str:
    """The file that `reference` names: a path, or a job in ./jobs or the user's jobs folder without `.yaml`."""
    name, mark, which = reference.partition("#")
    if name == "-" or "/" in name or exists(cwd / name):
        return reference
    for folder in (Path("jobs"), settings.paths.jobs):
        for candidate in (folder / name, folder / f"{name}.yaml"):
            if is_file(cwd / candidate):
                return f"{candidate}{mark}{which}"
    return reference


def meant_path(cwd: Path, settings: ClusterSettings, reference: str) -> str:
    """The same of what is to be a job. Raises UsageError for a name that is no file, where one here may be meant."""
    path = job_path(cwd, settings, reference)
    name = path.partition("#")[0]
    if name == "-" or "/" in name or exists(cwd / name) or (meant := _meant(cwd, settings, name)) is None:
        return path
    raise UsageError(f"{name}: there is no such file, did you mean '{meant}'?")


def _meant(cwd: Path, settings: ClusterSettings, name: str) -> Path | None:
    """The file here that is called so but for its `.yaml`, or in which a job is called so."""
    paths = tuple(job_paths(cwd, settings))
    if named := next((path for path in paths if path.stem == name), None):
        return named
    return next((p for p in paths if any(job.name == name for job in _documents(cwd / p, settings.environ))), None)


def job_files(cwd: Path, settings: ClusterSettings) -> tuple[JobFile, ...]:
    """Every job document of ./*.yaml, ./jobs/ and the config folder's jobs/, with its problems."""
    return tuple(job for path in job_paths(cwd, settings) for job in _documents(path, settings.environ))


def job_paths(cwd: Path, settings: ClusterSettings) -> Iterator[Path]:
    """Files with jobs: of this folder those that look like one, all of ./jobs and of the user's jobs folder."""
    for path in sorted(cwd.glob("*.y*ml")):
        if _is_job(path):
            yield path.relative_to(cwd)
    for folder in (Path("jobs"), settings.paths.jobs):
        for path in filter(is_file, sorted((cwd / folder).glob("*.y*ml"))):
            yield path.relative_to(cwd) if path.is_relative_to(cwd) else path


def _is_job(path: Path) -> bool:
    try:
        with open_to_read(path) as file:
            return bool(_LOOKS_LIKE_A_JOB.search(file.read(65536).decode("utf-8", "replace")))
    except OSError:
        return False


def _documents(path: Path, environ: Mapping[str, str]) -> Iterator[JobFile]:
    try:
        text = read_text(str(path))
        names = job_names(text, str(path)) or (path.stem,)
    except SpecError as error:
        yield JobFile(path, path.stem, error.problems)
        return
    for name in names:
        draft = read_draft(text, str(path), environ, name if len(names) > 1 else None)
        yield JobFile(path, name, draft.problems, draft.job)


def job_faults(job: Job, path: str, text: str, inventory: Inventory | None) -> Iterator[Problem]:
    """What `run` would refuse before it asks a host: unknown hosts, missing folders, a plan that can't be."""
    for key, folder in _folders(job):
        if not is_folder(folder):
            there = "is no folder" if exists(folder) else "there is no such folder"
            yield place_of(text, path, job.name, key, f"{folder}: {there} on this machine")
    if inventory is not None and job.hosts is not None:
        try:
            hosts_of_job(inventory, job.hosts)
        except UsageError as error:
            yield place_of(text, path, job.name, "hosts", error.message)
    for found in check_job(job, (), job.name):
        yield Problem(path, 0, 0, f"job {job.name}", str(found))


def _folders(job: Job) -> Iterator[tuple[str, Path]]:
    """The folders of this machine that a job needs, by their key."""
    if job.code is not None and job.code.path is not None:
        yield "code", code_path(job)
    if job.build is not None:
        yield "build", build_path(job)


def read_draft(text: str, path: str, environ: Mapping[str, str], name: str | None = None) -> Draft:
    """A job from the text of a file being edited: the value, or every problem with its line."""
    try:
        return Draft(read_job(text, path, environ=environ, name=name))
    except SpecError as error:
        return Draft(None, error.problems)
