"""What one `distui run` or `distui plan` asks for: job file, flags and hosts, read before anything is contacted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from distui.amounts import counted
from distui.cli.jobs.permit import permit
from distui.cli.settings import Settings
from distui.cluster.hosts.selection import hosts_of_run
from distui.cluster.jobs.job_files import meant_path
from distui.cluster.jobs.secrets import code_token, job_secrets, known_secrets
from distui.cluster.names import run_name
from distui.cluster.start.request import RunRequest
from distui.errors import UsageError
from distui.plan.checks import check_job
from distui.spec.choose import choose_hosts
from distui.spec.hosts.inventory import HostPick, Inventory
from distui.spec.job.job import Job
from distui.spec.job.overrides import Override, parse_set
from distui.spec.job.read_job import job_from_flags, load_job
from distui.whole import whole

_FLAG_KEYS = {
    "image": "image",
    "launcher": "launcher",
    "fabric": "fabric.kind",
    "master_port": "master_port",
    "pull": "pull",
    "on_fail": "on_fail",
}
"""Flags that stand for one key of the job file."""


def read_request(
    settings: Settings, reference: str | None, words: tuple[str, ...], flags: Mapping[str, Any], *, starts: bool = True
) -> RunRequest:
    """The run that JOB, `-- WORDS` and the flags ask for. Raises UsageError or SpecError; contacts nothing.

    One that nobody `starts` needs no values of secrets.
    """
    overrides = _overrides(settings, flags, job_file=reference is not None)
    job = _job(settings, reference, words, overrides)
    permit(settings, job, {override.key for override in overrides})
    job, secrets = (job_secrets if starts else known_secrets)(job, settings.environ, settings.env_file)
    job, token = code_token(job, settings.environ, settings.env_file)
    found = settings.selection.inventory()
    picks = _picks(settings, found, job, flags.get("nnodes"))
    name = run_name(job.name) if flags.get("name") is None else flags["name"]
    request = RunRequest(job, found, picks, secrets, name, token)
    _refuse_bad_job(request)
    return request


def _job(settings: Settings, reference: str | None, words: tuple[str, ...], overrides: Sequence[Override]) -> Job:
    if reference is None:
        if not words:
            raise UsageError(
                "no job or command given: name a job file, or put a command after --",
                hint="`distui job new job.yaml` writes a job that runs as it is",
            )
        return job_from_flags(words, overrides=overrides, environ=settings.environ)
    job = load_job(meant_path(settings.cwd, settings.cluster, reference), environ=settings.environ, overrides=overrides)
    if not words:
        return job
    if isinstance(job.command, str):  # a block of text ends with a newline, and what follows would be a command
        text = job.command.rstrip()
        text = text[:-1].rstrip() if text.endswith("\\") and not text.endswith("\\\\") else text
        return replace(job, command=f"{text} {shlex.join(words)}")
    return replace(job, command=(*job.command, *words))


def _overrides(settings: Settings, flags: Mapping[str, Any], *, job_file: bool) -> list[Override]:
    found = [parse_set(text) for text in flags.get("set_", ())]
    for flag, key in _FLAG_KEYS.items():
        if flags.get(flag) is not None:
            found.append(Override(key, flags[flag], "--" + flag.replace("_", "-")))
    if flags.get("gpus_per_node") is not None:
        found.append(Override("gpus_per_host", _gpus(flags["gpus_per_node"]), "--gpus-per-node"))
    if flags.get("name") and not job_file:
        found.append(Override("name", flags["name"].lower(), "--name"))  # capitals are for names of runs only
    found += env_overrides(settings.env_file)
    for text in flags.get("env", ()):
        name, value = _variable(text, settings.environ)
        found.append(Override("env", {name: value}, f"-e {name}"))
    return found


def _gpus(text: str) -> str | int:
    number = whole(text)
    return text if number is None else number


def _variable(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """`K=V`, or `K` with the caller's own value, as `docker run -e` reads it."""
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"-e {text[:40]}: write -e NAME=VALUE")
    if equals:
        return name, value
    if name not in environ:
        raise UsageError(f"-e {name}: {name} is not set here", hint=f"write -e {name}=VALUE")
    return name, environ[name]


def env_overrides(from_file: Mapping[str, str]) -> list[Override]:
    """What --env-file puts into the job."""
    return [Override("env", dict(from_file), "--env-file")] if from_file else []


def _picks(settings: Settings, found: Inventory, job: Job, nnodes: int | None) -> tuple[HostPick, ...]:
    """The hosts of the run: -H and -l win over the job's `hosts:`, a hostfile stands for all its hosts."""
    if settings.hostfile is not None and not (settings.hosts or settings.labels):
        chosen = choose_hosts(found)
    else:
        hint = "give -H 'node[01-02]', or set hosts: in the job"
        chosen = hosts_of_run(found, job, settings.hosts, settings.labels, hint=hint)
    if nnodes is not None and nnodes > len(chosen):
        raise UsageError(f"--nnodes {nnodes}: only {counted(len(chosen), 'host')} chosen")
    return chosen[:nnodes]


def _refuse_bad_job(request: RunRequest) -> None:
    """What is wrong with the job whatever the hosts are: said before they are asked."""
    problems = check_job(request.job, request.hosts, request.run_id)
    if problems:
        raise UsageError("\n".join(str(p) for p in problems))
    ranks = request.job.ranks.by_host if request.job.ranks is not None else {}
    unknown = [name for name in {**ranks, **request.job.gpus_by_host} if request.inventory.get(name) is None]
    if unknown:
        names = ", ".join(unknown)
        raise UsageError(f"the job gives ranks or GPUs to hosts that the inventory does not have: {names}")
