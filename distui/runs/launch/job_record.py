"""The job a run was started with, in the run's folder: what `run again` means, whatever became of the job file.

Values of secrets are not in it: a job has only their names.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from distui.files import read_bytes
from distui.fits import check
from distui.frozen import frozen
from distui.runs.code.source import code_path
from distui.runs.images.context import build_path
from distui.runs.store.runs import StoredRun
from distui.spec.inventory import HostPick
from distui.spec.job import Build, Code, DataMount, Fabric, HostChoice, Job, RankLayout, Rendezvous, Role, Torchrun

SCHEMA = "distui/job-record/v1"
_PARTS: Mapping[str, type] = {
    "hosts": HostChoice, "ranks": RankLayout, "rendezvous": Rendezvous, "fabric": Fabric, "torchrun": Torchrun,
    "code": Code, "build": Build,
}  # fmt: skip
_NAMED: Mapping[str, type] = {"roles": Role, "data": DataMount}
"""Fields that hold several of a kind by name."""


@frozen
class JobRecord:
    """A job as it was started, on which hosts, and what is known of its file now."""

    job: Job
    picks: tuple[HostPick, ...]
    source: str
    """The job file, as it was named; empty for a job that came from elsewhere."""
    changed: bool
    """Whether that file is another now, or gone."""


def record_job(stored: StoredRun, job: Job, picks: Sequence[HostPick]) -> None:
    """Write it into the run's folder. Raises OSError."""
    kept = dataclasses.replace(job, env={k: v for k, v in job.env.items() if k not in job.secrets})
    if kept.code is not None and kept.code.path is not None:  # so that the run can be started again from anywhere
        kept = dataclasses.replace(kept, code=dataclasses.replace(kept.code, path=str(code_path(job))))
    if kept.build is not None:
        kept = dataclasses.replace(kept, build=dataclasses.replace(kept.build, context=str(build_path(job))))
    path = Path(job.path).absolute() if job.path else None
    stored.write_job(
        {
            "schema": SCHEMA,
            "job": dataclasses.asdict(kept),
            "picks": [dataclasses.asdict(pick) for pick in picks],
            "file": str(path) if path is not None else "",
            "sha256": _digest(path),
        }
    )


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
        job = check(_job(value["job"]))
        picks = tuple(check(HostPick(**{k: _frozen(v) for k, v in pick.items()})) for pick in value["picks"])
        digest, file = str(value["sha256"]), str(value["file"])
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    return JobRecord(job, picks, job.path, bool(digest) and _digest(Path(file)) != digest)


def _job(value: Mapping[str, Any]) -> Job:
    known = {f.name for f in dataclasses.fields(Job)}
    fields = {name: _frozen(part) for name, part in value.items() if name in known}
    for name, kind in _PARTS.items():
        if isinstance(fields.get(name), dict):
            fields[name] = kind(**fields[name])
    for name, kind in _NAMED.items():
        fields[name] = {key: kind(**part) for key, part in fields.get(name, {}).items()}
    return Job(**fields)


def _frozen(value: Any) -> Any:
    match value:
        case list():
            return tuple(_frozen(v) for v in value)
        case dict():
            return {k: _frozen(v) for k, v in value.items()}
        case _:
            return value
