"""Jobs that were written in the launch form and never saved: listed and opened beside the job files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from distui.cluster.jobs.job_files import JobFile
from distui.tui.frame.backend import Backend

Drafts = Mapping[str, tuple[str, str]]
"""Path -> edits that are not saved, and the text that they were made in."""


def with_unsaved(files: Iterable[JobFile], backend: Backend, drafts: Drafts) -> tuple[JobFile, ...]:
    """The job files, and after them the jobs with edits here that none of these files has."""
    saved = tuple(files)
    return (*saved, *_unsaved({str(file.path) for file in saved}, backend, drafts))


def unsaved_job(backend: Backend, path: Path, text: str) -> JobFile:
    """A job that is only this text, as one of the jobs that can be opened."""
    draft = backend.draft(text, str(path))
    return JobFile(path, draft.job.name if draft.job else path.stem, draft.problems, draft.job, text)


def _unsaved(listed: set[str], backend: Backend, drafts: Drafts) -> Iterator[JobFile]:
    for path, (text, _) in drafts.items():
        if path not in listed:
            made = unsaved_job(backend, Path(path), text)
            # a file that is there is read when it is opened: it is only not listed, as one that looks like no job
            yield made if not os.path.lexists(path) else JobFile(made.path, made.name, made.problems, made.job)
