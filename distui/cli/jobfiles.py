"""Finds job files on this machine, and reads them as a person edits them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from distui.errors import SpecError
from distui.files import open_to_read

if TYPE_CHECKING:
    from distui.cli.settings import Settings
    from tui.desk import Draft, JobFile

_LOOKS_LIKE_A_JOB = re.compile(r"^(command|launcher|ranks|gpus_per_host|rendezvous)\s*:", re.MULTILINE)
"""A *.yaml of this folder may be anything: only what has a key of jobs is shown there."""


def job_files(told: Settings) -> tuple[JobFile, ...]:
    """Every job document of ./*.yaml, ./jobs/ and the config folder's jobs/, with its problems."""
    return tuple(job for path in _paths(told) for job in _documents(path, told.environ))


def _paths(told: Settings) -> Iterator[Path]:
    for path in sorted(told.cwd.glob("*.y*ml")):
        if _is_job(path):
            yield path.relative_to(told.cwd)
    for folder in (Path("jobs"), told.paths.jobs):
        for path in filter(Path.is_file, sorted((told.cwd / folder).glob("*.y*ml"))):
            yield path.relative_to(told.cwd) if path.is_relative_to(told.cwd) else path


def _is_job(path: Path) -> bool:
    try:
        with open_to_read(path) as file:
            return bool(_LOOKS_LIKE_A_JOB.search(file.read(65536).decode("utf-8", "replace")))
    except OSError:
        return False


def _documents(path: Path, environ: Mapping[str, str]) -> Iterator[JobFile]:
    from distui.spec.files import read_text
    from distui.spec.read_job import job_names
    from tui.desk import JobFile

    try:
        text = read_text(str(path))
        names = job_names(text, str(path)) or (path.stem,)
    except SpecError as error:
        yield JobFile(path, path.stem, error.problems)
        return
    for name in names:
        draft = read_draft(text, str(path), environ, name if len(names) > 1 else None)
        yield JobFile(path, name, draft.problems, draft.job)


def read_draft(text: str, path: str, environ: Mapping[str, str], name: str | None = None) -> Draft:
    """A job from the text of a file being edited: the value, or every problem with its line."""
    from distui.spec.read_job import read_job
    from tui.desk import Draft

    try:
        return Draft(read_job(text, path, environ=environ, name=name))
    except SpecError as error:
        return Draft(None, error.problems)
