"""A job's `max_duration`, kept on each host by coreutils' `timeout` around the task's command.

The limit must hold when no distui is attached, and there is no daemon on the hosts: so it is part of what is started,
like everything else, and can be read in the plan. SIGTERM after the limit, SIGKILL after the grace; exit status 124.
"""

from __future__ import annotations

import dataclasses

from distui.spec.job.job import Job

SLACK = 0.5
"""Seconds by which a task may seem to have ended before its limit: engines stamp its start after the fact."""

OVER = 124
"""The exit status of `timeout` where it ended its command."""

LEFT = frozenset({OVER, 137, 143})
"""Exit statuses that a limit leaves: its own, that of what was killed after the grace, that of what was ended."""


def left(job: Job, spent: float) -> float | None:
    """What is left of the job's limit after `spent` seconds, in whole seconds and at least one; None without limit."""
    return None if job.max_duration is None else float(max(1, round(job.max_duration - spent)))


def limited(
    job: Job, command: tuple[str, ...], seconds: float | None, *, contained: bool, grouped: bool
) -> tuple[Job, tuple[str, ...]]:
    """The job and its command with the limit around them.

    Who is signalled is as on a stop: the whole process group where that is `grouped`, else only the command itself
    (`--foreground`), whose container takes the rest along. An entry point of the job's own comes inside.
    """
    if seconds is None:
        return job, command
    words = (*(() if grouped else ("--foreground",)), "-k", f"{max(1, round(job.stop_grace))}", f"{seconds:.0f}")
    if contained and job.entrypoint is not None:
        return dataclasses.replace(job, entrypoint="timeout"), (*words, *filter(None, [job.entrypoint]), *command)
    return job, ("timeout", *words, *command)


def reached(code: int | None, lasted: float | None, seconds: float | None, doubt: float = 0.0) -> bool:
    """Whether a task that ended with this status after so many seconds was ended by its limit.

    Any status but 0 counts from the limit on: other forms of `timeout` leave the program's. Just before it, where it
    may only seem so, those that a limit itself leaves: an error of the program's own is no limit. Where how long it
    lasted is in `doubt` by so many seconds, since a clock was set, only a limit's own status does.
    """
    if not code or seconds is None or lasted is None:
        return False
    if doubt:
        return code == OVER and lasted + doubt >= seconds - SLACK
    return lasted >= seconds or (code in LEFT and lasted >= seconds - SLACK)
