"""The job of a run, to be opened in the launch form: its file, what was never saved of it, or the text kept with it."""

from __future__ import annotations

from pathlib import Path

from distui.cluster.jobs.job_files import JobFile
from distui.runs.launch.job_record import JobRecord
from distui.tui.frame.backend import Backend
from distui.tui.launch.unsaved import Drafts, unsaved_job, with_unsaved


def job_of_run(backend: Backend, drafts: Drafts, run: str, job: str) -> JobFile | None:
    """What to open for a run of this job; None where nothing of it is here but its record."""
    jobs = with_unsaved(backend.jobs(), backend, drafts)
    named = next((file for file in jobs if file.name == job), None)
    return named or _kept(backend, backend.recorded_job(run))


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
