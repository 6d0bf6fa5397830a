"""The job of a run, to be opened in the launch form: its file, what was never saved of it, or the text kept with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from distui.amounts import counted
from distui.cluster.jobs.job_files import JobFile
from distui.errors import DistuiError
from distui.files import is_file
from distui.runs.launch.job_record import JobRecord
from distui.spec.yaml.edit_text import set_value
from distui.tui.frame import files
from distui.tui.frame.backend import Backend
from distui.tui.launch.unsaved import Drafts, unsaved_job, with_unsaved


def job_of_run(backend: Backend, drafts: Drafts, run: str, job: str) -> tuple[JobFile | None, str]:
    """What to open for a run of this job, None where there is nothing; and what to say where that may be another job.

    It is the file that the run was started from, else the text that was kept, else a file with a job of that name. A
    file that was written since, by the name that a job without a file would have had, is not what it was started from.
    """
    jobs = with_unsaved(backend.jobs(), backend, drafts)
    record = backend.recorded_job(run)
    own, kept = _own(record, job, jobs), _kept(backend, record)
    if own is not None and record is not None:
        edited = own.text is not None or str(own.path) in drafts
        if kept is None or edited or not record.unsaved or _alike(_text(own, drafts), record.text):
            return own, _otherwise(own, record, run, _text(own, drafts))
        return kept, f"{own.path} was written after {run} was started: this is the text that it was started from"
    if kept is not None:
        return kept, ""
    named = [file for file in jobs if file.name == job]
    return next(iter(named), None), _guessed(record, run, named)


def _own(record: JobRecord | None, job: str, jobs: Sequence[JobFile]) -> JobFile | None:
    """The file that the run was started from, also one that is not listed here; of several jobs in it the run's."""
    if record is None or not record.file:
        return None
    place = os.path.realpath(record.file)
    there = [file for file in jobs if os.path.realpath(file.path) == place]
    if not there:
        return JobFile(Path(record.file), job) if is_file(place) else None
    named = next((file for file in there if file.name == job), None)
    return named or (there[0] if len(there) == 1 else None)


def _text(own: JobFile, drafts: Drafts) -> str:
    """What is opened of it: with the edits that it has here; empty where it can't be read."""
    if own.text is not None:
        return own.text
    if str(own.path) in drafts:
        return drafts[str(own.path)][0]
    try:
        return files.read(own.path)
    except DistuiError:
        return ""


def _alike(one: str, other: str) -> bool:
    """Whether two texts of a job are the same but for its hosts, which may have been chosen for a run only."""
    if one == other:
        return True
    without = set_value(one, "hosts", None)
    return without is not None and without == set_value(other, "hosts", None)


def _otherwise(own: JobFile, record: JobRecord, run: str, text: str) -> str:
    """That the file, with this text, is not what the run was started from."""
    if own.name != record.job.name:
        return f"{own.path} has the job {own.name} now: {run} was started as {record.job.name}"
    changed = not _alike(text, record.text) if record.text else record.changed
    if changed and own.text is None and not record.changed and not record.unsaved:
        return f"{run} was started from a text that was not saved in {own.path}; R starts it as it was"
    return f"{own.path} has changed since {run} was started; R starts it as it was" if changed else ""


def _guessed(record: JobRecord | None, run: str, named: Sequence[JobFile]) -> str:
    """That only the name of a job speaks for the first of these files."""
    if not named:
        return ""
    if record is None:
        why = f"no job file of {run} is recorded here"
    else:
        why = f"{record.file} has no such job any more" if record.file else f"{run} was started without a job file"
    several = f", one of {counted(len(named), 'file')} that have such a job" if len(named) > 1 else ""
    return f"{why}: this is {named[0].path}, whose job has the same name{several}"


def _kept(backend: Backend, record: JobRecord | None) -> JobFile | None:
    """The text that the run was started from, under the name that its file would have had."""
    if record is None or not record.text:
        return None
    return unsaved_job(backend, _near(Path(record.file or f"{record.job.name}.yaml")), record.text)


def _near(path: Path) -> Path:
    """The path as one here would name it; where its folder is gone, the same name in this folder."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return path.relative_to(here)
    return path if path.parent.is_dir() else Path(path.name)
