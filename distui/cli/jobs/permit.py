"""Asks on the terminal before a job takes what is not its own from this machine: see `distui.consent`."""

from __future__ import annotations

import sys
from collections.abc import Collection

from distui.cli.settings import Settings
from distui.cluster.jobs.permit import asks, consents, not_allowed
from distui.errors import UsageError
from distui.runs.lines.text import safe
from distui.spec.job.job import Job


def permit(settings: Settings, job: Job, typed: Collection[str] = ()) -> None:
    """Raise UsageError unless everything the job takes from this machine is its own or allowed.

    `typed` are keys that the command line gave: what the person wrote there needs no second word. Where there is a
    terminal they are asked, and a yes is remembered; `-y` answers nothing here.
    """
    allowed = consents(settings.cluster)
    for one in asks(settings.cluster, job, allowed, typed):
        if allowed.has(one):
            continue
        if settings["no_input"] or not sys.stdin.isatty() or not sys.stderr.isatty():
            raise not_allowed(job, one)
        if not _yes(f"job {job.name}: {one.words}. Allow it, now and later? [y/N] "):
            raise UsageError(f"job {job.name}: {one.words}, which you did not allow")
        allowed.remember(one)


def _yes(question: str) -> bool:
    sys.stderr.write(safe(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
