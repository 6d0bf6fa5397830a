"""Values that a job names and does not hold: its secrets, and the token for its repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from distui.errors import UsageError
from distui.plan.command.env import line_faults
from distui.spec.job.job import Job

NOTHING: Mapping[str, str] = MappingProxyType({})


def job_secrets(
    job: Job, environ: Mapping[str, str], from_file: Mapping[str, str] = NOTHING
) -> tuple[Job, dict[str, str]]:
    """The values of the job's secrets, and the job without those that --env-file put into `env`.

    Raises UsageError for one without a value, or with one that can't be passed.
    """
    job, values = known_secrets(job, environ, from_file)
    if (missing := without_value(job, values)) is not None:
        raise missing
    return job, values


def without_value(job: Job, values: Mapping[str, str]) -> UsageError | None:
    """Why the job can't be started, where `values` lack one of its secrets."""
    missing = [name for name in job.all_secrets if name not in values]
    if not missing:
        return None
    return UsageError(
        f"secrets {', '.join(missing)} of job {job.name} have no value",
        hint=f"export {missing[0]}=..., or put it into a file for --env-file",
    )


def known_secrets(
    job: Job, environ: Mapping[str, str], from_file: Mapping[str, str] = NOTHING
) -> tuple[Job, dict[str, str]]:
    """As `job_secrets`, for a plan that is only shown: without those that have no value here."""
    given = {**environ, **from_file}
    values = {name: given[name] for name in job.all_secrets if name in given}
    for name, value in values.items():
        if faults := line_faults(name, value):
            raise UsageError(f"secret {name} can't be passed: {faults[0]}")
    return replace(job, env={k: v for k, v in job.env.items() if k not in values}), values


def code_token(job: Job, environ: Mapping[str, str], from_file: Mapping[str, str] = NOTHING) -> tuple[Job, str | None]:
    """The value of the variable that `code.token` names, and the job without it in `env` where --env-file put it.

    Raises UsageError when it has none.
    """
    name = job.code.token if job.code is not None else None
    if name is None:
        return job, None
    value = from_file.get(name) or environ.get(name)
    if not value:
        raise UsageError(
            f"code.token of job {job.name}: {name} has no value",
            hint=f"export {name}=..., or put it into a file for --env-file",
        )
    return replace(job, env={k: v for k, v in job.env.items() if k != name or name not in from_file}), value
