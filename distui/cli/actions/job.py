"""`distui job`: job files."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from pathlib import Path
from typing import Any

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.jobs.job_files import job_faults, job_paths, meant_path
from distui.cluster.jobs.job_templates import TEMPLATES, blank_job
from distui.columns import table
from distui.errors import Problem, SpecError, UsageError
from distui.files import is_folder
from distui.runs.lines.text import safe
from distui.spec.hosts.inventory import Inventory
from distui.spec.job.job import Job
from distui.spec.job.read_job import load_job, read_job, read_jobs, split_reference
from distui.spec.yaml.files import read_text, write_new

NO_HOSTS = ("node01", "node02")
"""What a new job is for where no hosts are known."""


def validate(settings: Settings, out: Console, files: tuple[str, ...]) -> int:
    """See `job validate --help`."""
    inventory = _inventory(settings, out)
    problems: list[Problem] = []
    for reference in files:
        try:
            path, text, jobs = _read(settings, reference)
        except SpecError as exc:
            problems += exc.problems
        else:
            faults = [fault for job in jobs for fault in job_faults(job, path, text, inventory)]
            problems += faults
            if not faults:
                out.say(f"{reference}: ok, {', '.join(j.name for j in jobs)}")
    return wiring.tell_problems(out, settings, tuple(problems))


def _inventory(settings: Settings, out: Console) -> Inventory | None:
    """The inventory to look hosts up in; None when there is none, or it is wrong itself."""
    try:
        return settings.selection.maybe_inventory()
    except SpecError as exc:
        out.warn(f"distui: hosts are not looked up: {exc.problems[0]}", "yellow")
        return None


def _read(settings: Settings, reference: str) -> tuple[str, str, tuple[Job, ...]]:
    """A file's path, its text and every job in it, or the one that `file#name` names."""
    path, name = split_reference(meant_path(settings.cwd, settings.cluster, reference))
    text = read_text(path)
    if name is not None:
        return path, text, (read_job(text, path, environ=settings.environ, name=name),)
    return path, text, read_jobs(text, path, environ=settings.environ)


def ls(settings: Settings, out: Console, folder: str | None) -> int:
    """See `job ls --help`."""
    rows: list[dict[str, Any]] = []
    for path in _job_files(settings, folder):
        try:
            rows += [_row(job, path) for job in _read(settings, str(path))[2]]
        except SpecError as exc:
            rows.append({"job": None, "path": str(path), "problem": str(exc.problems[0])})
    if settings.json:
        out.json({"schema": "distui/jobs/v1", "jobs": rows})
    elif settings.output == "name" or settings.quiet:
        out.print("\n".join(r["job"] for r in rows if r["job"]))
    else:
        cells = [
            (
                r["job"] or "-",
                r.get("launcher") or "-",
                safe(r["path"]),
                safe(r.get("image") or r.get("problem") or "-"),
            )
            for r in rows
        ]
        out.print("\n".join(table(("JOB", "LAUNCHER", "FILE", "IMAGE"), cells, width=out.width)))
    return 0


def _job_files(settings: Settings, folder: str | None) -> list[Path]:
    if folder is None:
        return list(job_paths(settings.cwd, settings.cluster))
    if not is_folder(settings.cwd / folder):
        raise UsageError(f"{folder}: there is no such folder")
    found = filter(Path.is_file, sorted((settings.cwd / folder).glob("*.y*ml")))
    return [Path(os.path.relpath(p, settings.cwd)) if p.is_relative_to(settings.cwd) else p for p in found]


def _row(job: Job, path: Path) -> dict[str, Any]:
    return {"job": job.name, "path": str(path), "launcher": job.launcher, "image": job.image}


def show(settings: Settings, out: Console, job: str) -> int:
    """See `job show --help`."""
    found = load_job(meant_path(settings.cwd, settings.cluster, job), environ=settings.environ)
    keys = (f.name for f in dataclasses.fields(found) if f.name != "image_variables")  # no key of a job
    values = {key: _plain(getattr(found, key)) for key in keys}
    if settings.json:
        out.json({"schema": "distui/job/v1", "job": values})
        return 0
    rows = [(key, _shown(value)) for key, value in values.items() if value not in (None, (), {}, [], "")]
    width = max(len(key) for key, _ in rows)
    out.print("\n".join(safe(f"{key.ljust(width)}  {text}") for key, text in rows))
    return 0


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return shlex.join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def new(settings: Settings, out: Console, file: str | None, template: str) -> int:
    """See `job new --help`."""
    hosts = _known(settings)[:2] or NO_HOSTS
    text = blank_job(template, template, hosts, TEMPLATES[template].image)
    if file is None or file == "-":
        out.print(text)
        return 0
    settings.refuse_readonly("job new FILE")
    write_new(settings.cwd / file, file, text)
    out.say(f"{file}: written; check it with `distui job validate {file}`, then `distui plan {file}`")
    return 0


def _known(settings: Settings) -> tuple[str, ...]:
    """The hosts there are, as -H chooses among them; none without an inventory, or with one that is wrong."""
    try:
        found = settings.selection.maybe_inventory()
        return () if found is None else tuple(pick.name for pick in settings.selection.picks(found))
    except UsageError:
        return ()
