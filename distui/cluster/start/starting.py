"""Starting a planned run: recorded here first, then owned by a controller."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from distui.cluster.start.planning import PlannedRun
from distui.errors import CheckFailed
from distui.plan.serialize import to_json
from distui.runs.attempt.limits import NO_LIMITS, Limits
from distui.runs.attempt.run_context import run_context
from distui.runs.attempt.steps import LaunchOptions
from distui.runs.control.controller import RunController
from distui.runs.launch.job_record import record_job, record_text
from distui.runs.lines.events import RunEnded
from distui.runs.store.open_files import refuse_too_few
from distui.runs.store.runs import RunStore, StoredRun, cannot_write
from distui.runs.store.saved_hosts import save_hosts
from distui.runs.store.secret_checks import keep_checks
from distui.session import Connector


def record(store: RunStore, planned: PlannedRun) -> StoredRun:
    """The run's folder here, with plan, job, hosts, and what tells the values of its secrets from others.

    Raises UsageError for a taken name, CheckFailed when that can't be written here, or when this process may not open
    as many files as the run needs; the name is free then.
    """
    plan, request = planned.plan, planned.request
    refuse_too_few(len(plan.hosts))
    try:
        stored = store.create(plan.run_id)
        try:
            stored.write_plan(to_json(plan))
            record_job(stored, request.job, request.picks)
            record_text(stored, request.text, {**request.secrets, "": request.token or ""})
            save_hosts(stored, request.hosts)
            keep_checks(stored, request.secrets)
        except BaseException:  # also a signal that comes meanwhile
            forget(stored)
            raise
    except OSError as exc:
        raise cannot_write(store.root / plan.run_id, exc, "; nothing was started") from exc
    return stored


def forget(stored: StoredRun) -> None:
    """A run that never began leaves its name free."""
    shutil.rmtree(stored.path, ignore_errors=True)


def unrecordable(store: RunStore, hosts: int) -> tuple[CheckFailed, ...]:
    """Why `record` would refuse a run on so many hosts, by trying; the store is left as it was."""
    found: list[CheckFailed] = []
    tries: tuple[Callable[[], None], ...] = (lambda: refuse_too_few(hosts), store.try_recording)
    for tried in tries:
        try:
            tried()
        except CheckFailed as exc:
            found.append(exc)
    return tuple(found)


def controller_of(
    connector: Connector,
    stored: StoredRun,
    planned: PlannedRun,
    *,
    detach: bool = False,
    preflight: bool = True,
    force: bool = False,
    limits: Limits = NO_LIMITS,
) -> RunController:
    """The owner of a run that was recorded in `stored`; entering it starts the run. See LaunchOptions."""
    context = run_context(
        planned.plan,
        connector=connector,
        stored=stored,
        secrets=planned.request.secrets,
        planner=planned.planner,
        limits=limits,
    )
    options = LaunchOptions(detach, preflight, force, planned.sources.code, planned.sources.build)
    return RunController(planned.plan, context, facts=planned.facts, options=options)


def forget_if_never_started(stored: StoredRun, ended: RunEnded, *, undone: bool = False) -> bool:
    """A run that never was leaves its name free for the next try; so does a start that was `undone` as it was left.

    Whether it is forgotten.
    """
    never_was = ended.outcome == "launch_failed" or (undone and ended.outcome == "stopped")
    forgotten = never_was and not ended.leftovers
    if forgotten:
        forget(stored)
    return forgotten
