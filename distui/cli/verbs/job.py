"""`distui job`: job files."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.app import Verbs
from distui.cli.console import Console
from distui.cli.options import Choice, add_globals, verb
from distui.cli.settings import settings_of
from distui.cli.templates import TEMPLATES, template_for
from distui.cluster.job_files import job_faults, job_path, job_paths
from distui.errors import SpecError, UsageError

if TYPE_CHECKING:
    from distui.cli.settings import Settings
    from distui.errors import Problem
    from distui.spec.inventory import Inventory
    from distui.spec.job import Job


@click.group("job", cls=Verbs)
def _group() -> None:
    """Check, list, show and make job files. Nothing is contacted."""


command = add_globals(_group)


@verb("validate", outputs=("json",))
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...]) -> int:
    """Check job files: every problem with its line and column. Exit 2 when there is one.

    With an inventory the job's hosts must be in it; folders of this machine (`code`, `build`) must be there.
    """
    settings = settings_of(ctx)
    out = consoles.of(settings)
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
    from distui.spec.files import read_text
    from distui.spec.read_job import read_job, read_jobs, split_reference

    path, name = split_reference(job_path(settings.cwd, settings.cluster, reference))
    text = read_text(path)
    if name is not None:
        return path, text, (read_job(text, path, environ=settings.environ, name=name),)
    return path, text, read_jobs(text, path, environ=settings.environ)


@verb("ls", outputs=("json", "name"))
@click.argument("folder", required=False)
@click.pass_context
def ls(ctx: click.Context, folder: str | None) -> int:
    """List the jobs in this folder's *.yaml, in ./jobs and in the user's jobs folder, or in FOLDER.

    Of this folder's files only those are looked at that have a key of jobs, such as `command:`.
    """
    settings = settings_of(ctx)
    out = consoles.of(settings)
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
            (r["job"] or "-", r.get("launcher") or "-", r["path"], r.get("image") or r.get("problem") or "-")
            for r in rows
        ]
        out.print("\n".join(consoles.table(("JOB", "LAUNCHER", "FILE", "IMAGE"), cells, width=out.width)))
    return 0


def _job_files(settings: Settings, folder: str | None) -> list[Path]:
    if folder is None:
        return list(job_paths(settings.cwd, settings.cluster))
    if not (settings.cwd / folder).is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    found = filter(Path.is_file, sorted((settings.cwd / folder).glob("*.y*ml")))
    return [Path(os.path.relpath(p, settings.cwd)) if p.is_relative_to(settings.cwd) else p for p in found]


def _row(job: Job, path: Path) -> dict[str, Any]:
    return {"job": job.name, "path": str(path), "launcher": job.launcher, "image": job.image}


@verb("show", outputs=("json",))
@click.argument("job")
@click.pass_context
def show(ctx: click.Context, job: str) -> int:
    """Show a job as distui reads it, with every default filled in."""
    from distui.spec.read_job import load_job

    settings = settings_of(ctx)
    out = consoles.of(settings)
    found = load_job(job_path(settings.cwd, settings.cluster, job), environ=settings.environ)
    values = {f.name: _plain(getattr(found, f.name)) for f in dataclasses.fields(found)}
    if settings.json:
        out.json({"schema": "distui/job/v1", "job": values})
        return 0
    from distui.runs.lines.text import safe

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
    import json
    import shlex

    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return shlex.join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@verb("new")
@click.argument("file", required=False)
@click.option("--template", type=Choice(list(TEMPLATES)), default="gloo", help="What to begin with [gloo].")
@click.pass_context
def new(ctx: click.Context, file: str | None, template: str) -> int:
    """Write a job file to begin with to FILE, or print it (`-`, or no FILE). An existing file is left alone.

    A new job is for the first hosts of the inventory, where there is one. It mounts nothing of the hosts; the folder it
    is in is sent there as its code.
    """
    settings = settings_of(ctx)
    out = consoles.of(settings)
    if file is None or file == "-":
        out.print(template_for(template, settings.cwd, _known(settings)))
        return 0
    from distui.files import new_file

    settings.refuse_readonly("job new FILE")
    try:
        with new_file(settings.cwd / file) as target:
            target.write(template_for(template, (settings.cwd / file).parent, _known(settings)).encode())
    except FileExistsError as exc:
        raise UsageError(f"{file} exists", hint="give another name") from exc
    except OSError as exc:
        raise UsageError(f"{file} can't be written: {exc.strerror}") from exc
    out.say(f"{file}: written; check it with `distui job validate {file}`, then `distui plan {file}`")
    return 0


def _known(settings: Settings) -> tuple[str, ...]:
    """The hosts there are, as -H chooses among them; none without an inventory, or with one that is wrong."""
    try:
        found = settings.selection.maybe_inventory()
        return () if found is None else tuple(pick.name for pick in settings.selection.picks(found))
    except UsageError:
        return ()


for _verb in (validate, ls, show, new):
    command.add_command(_verb)
