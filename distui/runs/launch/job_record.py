"""The job a run was started with, in the run's folder: what `run again` means, whatever became of the job file.

Values of secrets are not in it: a job has only their names, and a text with a value in it is not kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from distui.codec import read, write
from distui.files import read_bytes
from distui.frozen import frozen
from distui.runs.code.source import code_path
from distui.runs.images.context import build_path
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun
from distui.runs.store.secret_checks import SHORTEST
from distui.spec.hosts.inventory import HostPick
from distui.spec.job.job import Job

SCHEMA = "distui/job-record/v1"


@frozen
class JobRecord:
    """A job as it was started, on which hosts, and what is known of its file now."""

    job: Job
    picks: tuple[HostPick, ...]
    source: str
    """The job file, as it was named; empty for a job that came from elsewhere."""
    changed: bool
    """Whether that file is another now, or gone."""
    file: str = ""
    """That file, as an absolute path."""
    text: str = ""
    """The text that the job was read from, where it was kept."""
    unsaved: bool = False
    """Whether that file was not there when the run was started: what is in it now was written since."""


def record_job(stored: StoredRun, job: Job, picks: Sequence[HostPick]) -> None:
    """Write it into the run's folder. Raises OSError."""
    kept = dataclasses.replace(job, env={k: v for k, v in job.env.items() if k not in job.secrets})
    if kept.code is not None and kept.code.path is not None:  # so that the run can be started again from anywhere
        kept = dataclasses.replace(kept, code=dataclasses.replace(kept.code, path=str(code_path(job))))
    if kept.build is not None:
        kept = dataclasses.replace(kept, build=dataclasses.replace(kept.build, context=str(build_path(job))))
    path = Path(job.path).absolute() if job.path else None
    file = str(path) if path is not None else ""
    stored.write_job(write(_Written(SCHEMA, kept, tuple(picks), file, _digest(path))))


def record_text(stored: StoredRun, text: str, secrets: Mapping[str, str]) -> None:
    """Keep the text of the job: its file may never have been written. One that has a value of a secret in it is not
    kept. Raises OSError."""
    if text and not has_value(text, secrets):
        stored.write_job_text(text)


def has_value(text: str, secrets: Mapping[str, str]) -> bool:
    """Whether a value of these stands in a text of YAML: as it is, as URLs and programs write it, or in what YAML reads
    there, where an escape or a fold hides it from who looks at the text."""
    from distui.spec.yaml.edit_text import scalars

    parts = (text, *scalars(text))
    mask = Mask(secrets)
    return any(mask.text(part) != part or any(_stands_in(part, value) for value in secrets.values()) for part in parts)


def _stands_in(text: str, value: str) -> bool:
    """Whether a text has a value in it, or a line of it: YAML indents those."""
    lines = (line.strip() for line in value.splitlines())
    return bool(value) and (value in text or any(len(line) >= SHORTEST and line in text for line in lines))


@frozen
class _Written:
    """The file."""

    schema: str
    job: Job
    picks: tuple[HostPick, ...]
    file: str
    sha256: str


def _digest(path: Path | None) -> str:
    """Of the file's bytes; empty when it can't be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest() if path is not None else ""
    except OSError:
        return ""


def recorded_job(stored: StoredRun) -> JobRecord | None:
    """The job a run was started with; None when its folder does not have it, or a later version wrote it."""
    value = stored.read_job()
    if value is None or value.get("schema") != SCHEMA:
        return None
    try:
        made = read(_Written, value)
    except ValueError:
        return None
    changed = bool(made.sha256) and _digest(Path(made.file)) != made.sha256
    unsaved = bool(made.file) and not made.sha256
    return JobRecord(made.job, made.picks, made.job.path, changed, made.file, stored.read_job_text(), unsaved)
