"""Reads a job file into a Job, or says everything that is wrong with it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, SupportsIndex

from distui.errors import Problem, UsageError
from distui.files import exists
from distui.spec.job import job_forms
from distui.spec.job.job import Job
from distui.spec.job.job_keys import JOB
from distui.spec.job.overrides import Override, Plain, apply, node_of
from distui.spec.job.variables import expand_node, refuse_for_peers, refuse_secrets, values_in
from distui.spec.yaml.files import read_text
from distui.spec.yaml.nodes import Node, Scalar, Source, Table, node_at
from distui.spec.yaml.problems import Problems, did_you_mean, printable, shown
from distui.spec.yaml.shapes import MISSING


def load_job(
    reference: str | PathLike[str], *, environ: Mapping[str, str] | None = None, overrides: Sequence[Override] = ()
) -> Job:
    """The job that `reference` names: `job.yaml`, `job.yaml#name`, or `-` for standard input.

    `environ` is what `${VAR}` in it is filled in from; this process's, when None. Raises SpecError with everything that
    is wrong in the file.
    """
    path, name = split_reference(fspath(reference))
    variables = os.environ if environ is None else environ
    return read_job(read_text(path), path, environ=variables, name=name, overrides=overrides)


def split_reference(reference: str) -> tuple[str, str | None]:
    """`job.yaml#name` -> ("job.yaml", "name"). A file that really has `#` in its name is found."""
    path, hash_mark, name = reference.rpartition("#")
    if not hash_mark or not path or exists(reference):
        return reference, None
    return path, name


def read_job(
    text: str,
    path: str,
    *,
    environ: Mapping[str, str],
    name: str | None = None,
    overrides: Sequence[Override] = (),
) -> Job:
    """The job called `name` in `text`, or the only one. Raises SpecError with every problem.

    `environ` gives the values of `${VAR}`. `path` is for messages.
    `overrides` replace what the file says; variables in them have been the shell's business.
    """
    problems = Problems()
    documents = _documents(text, path, problems)
    chosen = _pick(documents, name, problems) if documents else None
    if chosen is None:
        raise problems.error()
    return _sound(_read(chosen, path, environ, overrides, problems), problems)


def read_jobs(text: str, path: str, *, environ: Mapping[str, str]) -> tuple[Job, ...]:
    """Every job in `text`, in order. Raises SpecError with the problems of all of them."""
    problems = Problems()
    documents = _documents(text, path, problems)
    _same_names(documents, problems)
    jobs = [_read(d, path, environ, (), problems) for d in documents]
    problems.raise_any()
    return tuple(j for j in jobs if j is not None)


def job_names(text: str, path: str) -> tuple[str, ...]:
    """The names of the jobs in `text`, for completion and listing. Raises SpecError for a syntax error."""
    problems = Problems()
    documents = _documents(text, path, problems)
    if not documents:
        raise problems.error()
    return tuple(n for n in map(_name, documents) if n)


def place_of(text: str, path: str, name: str, key: str, message: str) -> Problem:
    """A problem of the job `name` in `text` at the value of `key`, or at the file when that is written nowhere."""
    problems = Problems()
    source = Source(path, text)
    for document in _parse(source, problems):
        node = node_at(document, key) if _name(document) == name else None
        if node is not None:
            return Problem(path, node.line, node.column, key, message, source.line(node.line))
    return Problem(path, 0, 0, f"job {name}: {key}", message)


def job_from_flags(
    command: Sequence[str], *, overrides: Sequence[Override] = (), environ: Mapping[str, str] | None = None
) -> Job:
    """A job without a file: `distui run --headless -H node[01-02] --image IMG -- CMD ...`.

    The name comes from the command where `overrides` give none. Raises SpecError.
    """
    source = Source("command line", is_flag=True)
    document: dict[str, Plain] = {"version": 1, "name": name_of_command(command)}
    if command:
        document["command"] = list(command)
    problems = Problems()
    return _sound(_read(node_of(document, source), "", environ or {}, overrides, problems, expand=False), problems)


AnyJob = Job | Mapping[str, Any] | str | PathLike[str]
"""A job as a program gives it: one that was read, its keys, or its file."""


def any_job(job: AnyJob, *, environ: Mapping[str, str] | None = None) -> Job:
    """The job itself, or what `load_job` reads, or the one with these keys: those of a job file, `version` aside.

    Raises SpecError with everything that is wrong, UsageError for values that no file could hold.
    """
    if isinstance(job, Job):
        return job
    if isinstance(job, str | PathLike):
        return load_job(job, environ=environ)
    if not isinstance(job, Mapping):
        raise UsageError(f"{shown(repr(job))} is no job", hint="give a job file, a job, or its keys as a dict")
    try:
        values = json.loads(json.dumps({"version": 1, **job}, default=_plain))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"the job's keys hold what no job file could: {exc}") from None
    problems, root = Problems(), node_of(values, Source("job", is_flag=True))
    return _sound(_read(root, "", environ or {}, (), problems, expand=False), problems)


def _plain(value: object) -> str | int:
    """A path, or a whole number of numpy's and the like, as a file has it."""
    if isinstance(value, SupportsIndex):
        return value.__index__()
    if isinstance(value, PathLike) and isinstance(path := fspath(value), str):
        return path
    raise TypeError(f"{shown(repr(value))} is neither text, number nor path")


def name_of_command(command: Sequence[str]) -> str:
    """A job name for a command: `python train.py --lr 1` -> `train`; `run` when nothing fits."""
    programs = [w for w in command if not w.startswith("-")]
    script = next((w for w in programs if w.endswith((".py", ".sh"))), programs[0] if programs else "")
    stem = re.sub(r"\.(py|sh)$", "", script.rpartition("/")[2].lower())
    name = re.sub(r"[^a-z0-9_.-]+", "-", stem)[:63].strip("-_.")
    return name if re.fullmatch(job_forms.JOB_NAME, name) else "run"


def _parse(source: Source, problems: Problems) -> list[Node]:
    from distui.spec.yaml.document import parse  # the one place here that needs yaml

    return parse(source, problems)


def _documents(text: str, path: str, problems: Problems) -> list[Node]:
    source = Source(path, text)
    documents = _parse(source, problems)
    if not documents and not problems:
        problems.add_at(source, 0, 0, "", "the file is empty; a job needs `version: 1`, `name:` and `command:`")
    return documents


def _pick(documents: list[Node], name: str | None, problems: Problems) -> Node | None:
    """The document called `name`, or the only one."""
    path = documents[0].source.path
    names = [n for n in map(_name, documents) if n]
    if name is None:
        if len(documents) == 1:
            return documents[0]
        listed = printable(", ".join(names)[:200])
        example = printable(f"{path}#{names[0]}" if names else f"{path}#NAME")
        message = f"this file holds {len(documents)} jobs ({listed}); pick one: {example}"
        problems.add_at(documents[1].source, 0, 0, "", message)
        return None
    _same_names(documents, problems)
    found = next((d for d in documents if _name(d) == name), None)
    if found is None:
        near = did_you_mean(name, names) or f"; it has {printable(', '.join(names)[:200])}"
        problems.add_at(documents[0].source, 0, 0, "", f"no job is called {shown(name)} here{near}")
    return found


def _same_names(documents: list[Node], problems: Problems) -> None:
    seen: dict[str, int] = {}
    for document in documents:
        name, node = _name(document), node_at(document, "name")
        if name and node and name in seen:
            problems.add(node, "name", f"the job on line {seen[name]} is called {shown(name)} too")
        elif name and node:
            seen[name] = node.line


def _name(document: Node) -> str | None:
    node = node_at(document, "name")
    return node.text if isinstance(node, Scalar) else None


def _sound(job: Job | None, problems: Problems) -> Job:
    """A job in which nothing is wrong. Raises SpecError."""
    if problems or job is None:
        raise problems.error()
    return job


def _read(
    root: Node,
    path: str,
    environ: Mapping[str, str],
    overrides: Sequence[Override],
    problems: Problems,
    *,
    expand: bool = True,
) -> Job | None:
    """One job; None, with problems noted, when it can't be made."""
    image, sent = node_at(root, "image"), _sent(root, environ) if expand else ()
    if expand:
        refuse_for_peers(root, problems)
        refuse_secrets(root, environ, problems)
        expand_node(root, environ, problems)
    if not isinstance(root, Table):
        JOB.read(root, "", problems)
        return None
    if _holds_hosts(root):
        problems.add(root, "", "this file lists hosts, and is no job; `distui hosts validate` checks it, -i takes it")
        return None
    for override in overrides:
        root = apply(root, override, problems)
    values = JOB.read(root, "", problems)
    if values is MISSING or problems:
        return None
    return _made(values, path, sent if node_at(root, "image") is image else ())


def _holds_hosts(root: Table) -> bool:
    """Whether a file is a hosts.yaml: nothing of a job in it, and hosts with their own keys."""
    hosts = root.get("hosts")
    if not isinstance(hosts, Table) or any(root.get(key) for key in ("name", "command", "image", "build", "launcher")):
        return False
    return not any(hosts.get(key) for key in ("names", "group", "label", "count"))


def _sent(root: Node, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables whose values the image's registry would see, with that registry."""
    image = node_at(root, "image")
    marked, names = values_in(image.text, environ) if isinstance(image, Scalar) else ("", ())
    registry = job_forms.registry(marked, [environ[name] for name in names])
    return tuple((name, registry) for name in names)


def _made(values: dict[str, Any], path: str, sent: tuple[tuple[str, str], ...]) -> Job:
    fields = {k: v for k, v in values.items() if k != "version"}
    per_host = fields.get("gpus_per_host")
    if isinstance(per_host, Mapping):
        fields["gpus_by_host"] = fields.pop("gpus_per_host")
    return Job(**fields, path=path, image_variables=sent)
