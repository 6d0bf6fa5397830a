"""What a job takes along from this machine, or every reason why it can't, where a plan ends with the first of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from distui.cluster.jobs.permit import refusals
from distui.cluster.jobs.secrets import NOTHING, code_token, job_secrets
from distui.cluster.settings import ClusterSettings
from distui.cluster.start.planning import Sources, code_reader
from distui.errors import CheckFailed, UsageError
from distui.frozen import frozen
from distui.spec.job.job import Job


@frozen
class Taken:
    """The job as it is planned, with the sources that could be read."""

    job: Job
    sources: Sources
    refused: tuple[UsageError | CheckFailed, ...]
    """Why the rest could not be taken: what is not allowed, is missing, or can't be sent."""


def take(
    settings: ClusterSettings, job: Job, from_file: Mapping[str, str] = NOTHING, given_up: threading.Event | None = None
) -> Taken:
    """Read all of it that may be read; nobody is asked for a permission. Blocks, as `Sources.read`.

    `from_file` are the variables of --env-file.
    """
    refused = refusals(settings, job)
    wrong: list[UsageError | CheckFailed] = [reason for reasons in refused.values() for reason in reasons]
    try:
        job, _ = job_secrets(job, settings.environ, from_file)
    except UsageError as exc:
        wrong.append(exc)
    token, has_token = None, True
    try:
        job, token = code_token(job, settings.environ, from_file)
    except UsageError as exc:
        wrong.append(exc)
        has_token = False
    reader, found = code_reader(settings), Sources()
    wanted = (
        (replace(job, build=None), not refused["code"] and has_token),
        (replace(job, code=None), not refused["build"]),
    )
    for part, allowed in wanted:
        try:
            read = Sources.read(reader, part, token, given_up=given_up) if allowed else Sources()
            found = Sources(found.code or read.code, found.build or read.build)
        except (UsageError, CheckFailed) as exc:
            wrong.append(exc)
    return Taken(job, found, tuple(wrong))
