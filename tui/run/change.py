"""Stop, kill and run again: what touches a run, always after a question that names the targets."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence

from distui.amounts import counted, plural, size_words
from distui.cluster.backend.values import LiveRun
from distui.errors import UsageError
from distui.files import read_text, reason
from distui.plan.content.code import code_words
from distui.plan.model import NoPlan, RunPlan
from distui.runs.hosts.remains import Remain
from distui.runs.launch.gpu_users import GpuUser
from distui.runs.report.rank_rows import numbers
from distui.spec.hosts.inventory import HostPick
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job
from distui.tui.dialogs.confirm import Confirm
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of, work
from distui.tui.paint.paint import cut

SLOW = 0.5
"""Seconds after which it is said what is waited for."""


def targets(live: LiveRun) -> list[str]:
    """What would be stopped: each host with the ranks that live there."""
    alive: dict[str, list[int]] = {}
    for rank in live.state.ranks.values():
        if rank.live:
            alive.setdefault(rank.host, []).append(rank.rank)
    if not alive:
        alive = {host: [r for t in live.plan.tasks_on(host) for r in t.ranks] for host in live.plan.hosts}
    return [f"{host}   {_ranks(ranks)}" for host, ranks in alive.items()]


def _ranks(ranks: Sequence[int]) -> str:
    return f"{plural(len(ranks), 'rank')} {numbers(sorted(ranks))}"


def whose(view: View, owner: str) -> list[str]:
    """That a run is somebody else's; nothing of one's own, and where nobody knows."""
    return [f"It belongs to {owner}, not to you."] if owner not in ("", view.backend.owner) else []


async def stop(view: View, live: LiveRun) -> None:
    """SIGTERM, then the grace, then SIGKILL; asks first."""
    grace = f"SIGTERM to every rank, SIGKILL to what still lives after {live.plan.stop_grace:.0f} s"
    if await _sure(view, live, "Stop", grace):
        live.request_stop("user")


async def kill(view: View, live: LiveRun) -> None:
    """SIGKILL at once; asks first."""
    message = "SIGKILL to every rank at once: nothing is saved"
    if await _sure(view, live, "Kill", message):
        live.request_stop("user", grace=0)


async def _sure(view: View, live: LiveRun, verb: str, message: str) -> bool:
    """Whether somebody who was shown its targets says yes, and it goes on by then."""
    if _ended(view, live):
        return False
    asked = app_of(view).confirm(
        f"{verb} {live.plan.run_id}?", [*targets(live), "", *whose(view, live.plan.owner), message], verb
    )
    return await asked and not _ended(view, live)


def _ended(view: View, live: LiveRun) -> bool:
    ended, run = live.state.ended, live.plan.run_id
    if ended is None:
        return False
    if ended.outcome in ("detached", "unknown"):
        app_of(view).tell(f"{run} is not followed here any more; S in Runs stops it", level="warning")
    else:
        app_of(view).tell(f"{run} has ended; R runs it again")
    return True


async def rerun(view: View, live: LiveRun) -> None:
    """The job as it was started, on the same hosts, under a new name; asks first. Raises DistuiError in words."""
    if live.state.ended is None:
        app_of(view).tell(f"{live.plan.run_id} still runs; S stops it")
        return
    typed = view.typed
    job, picks, words, text = _as_started(view, live.plan)
    name = view.backend.run_name(live.plan.job)
    plan = await asyncio.to_thread(view.backend.preview, job, picks, run_id=name)  # the job's code is read again
    if isinstance(plan, NoPlan):
        raise UsageError("it can't run again now", hint="; ".join(str(problem) for problem in plan.problems))
    users = await gpu_users(view, plan)
    if not view.may_ask(f"{live.plan.run_id} is not run again: R asks again", typed):
        return
    asked = f"Run {plan.job} again" + (" on GPUs that are in use?" if users else "?")
    answer = await view.app.push_screen_wait(Confirm(asked, tuple(_words(plan, job, words)), "Run", users))
    if answer:
        live = await view.backend.launch(job, plan, rerun_of=live.plan.run_id, force=answer == "share", text=text)
        app_of(view).open_run(live)


async def gpu_users(view: View, plan: RunPlan) -> tuple[GpuUser, ...]:
    """Who has the plan's GPUs at this moment."""
    hosts = [host for host in plan.hosts if plan.gpus_on(host)]
    if not hosts:
        return ()
    asking = view.set_timer(SLOW, lambda: app_of(view).tell(f"asking {fold(hosts)} who uses the GPUs"))
    try:
        return await view.backend.gpu_users(plan)
    finally:
        asking.stop()


def _as_started(view: View, plan: RunPlan) -> tuple[Job, Sequence[HostPick], str, str]:
    """What the run recorded, in words how that compares to the job file now, and the text that was kept; else the file
    as it is."""
    recorded = view.backend.recorded_job(plan.run_id)
    if recorded is None:
        job, where = _from_file(view, plan)
        message = f"from {where} as it is now: the job of {plan.run_id} is not recorded here"
        return job, view.backend.pick(job, plan.hosts), message, ""
    message = f"the job as {plan.run_id} was started"
    if recorded.changed:
        message += f"; {recorded.source} has changed since and is not read"
    return recorded.job, recorded.picks, message, recorded.text


def _from_file(view: View, plan: RunPlan) -> tuple[Job, str]:
    named = [file for file in view.backend.jobs() if file.name == plan.job]
    found = next(iter(named), None)
    if found is None:
        raise UsageError(
            f"the job of {plan.run_id} is not recorded here, and there is no job file for {plan.job} here",
            hint="start distui where it is, or run it from Jobs",
        )
    try:
        text = read_text(found.path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{found.path} {reason(error)}") from error
    draft = view.backend.draft(text, str(found.path), found.name)
    if draft.job is None:
        raise UsageError(f"{found.path} has problems", hint=str(draft.problems[0]) if draft.problems else "")
    several = f" (one of {counted(len(named), 'file')} that have a job {plan.job})" if len(named) > 1 else ""
    return draft.job, f"{found.path}{several}"


def _words(plan: RunPlan, job: Job, what: str) -> Iterator[str]:
    yield f"as {plan.run_id}"
    yield what
    yield ""
    yield job.command if isinstance(job.command, str) else shlex.join(job.command)
    if plan.code is not None:
        yield f"code {code_words(plan.code)}"
    yield ""
    for host in plan.hosts:
        ranks = [r for t in plan.tasks_on(host) for r in t.ranks]
        gpus = plan.gpus_on(host)
        yield f"{host}   {_ranks(ranks)}" + (f"   GPUs {numbers(gpus, 1)}" if gpus else "")
    if plan.tasks and plan.tasks[0].engine != "process":  # there it is a script of ours, not a command to read
        yield ""
        yield cut(shlex.join(plan.tasks[0].start), 400)


async def prune(
    view: View, run: str, owner: str, hosts: Sequence[str], gone: Callable[[], None] = lambda: None
) -> None:
    """Remove what an ended run left on its hosts and here, after a question that lists it; then it is `gone`."""
    app, name, typed = app_of(view), f"prune {run}", view.typed
    if any(worker.name == name and not worker.is_finished for worker in view.app.workers):
        app.tell(f"{run} is being removed")
        return
    app.tell(f"asking {fold(hosts) or 'the hosts'} what is left of {run}")
    left = await view.backend.remains(run)
    if not view.may_ask(f"{run} is not removed: X asks again", typed):
        return
    lines = [f"{host} can't be asked, so nothing will be deleted here: {t.message}"
             for host, t in left.unreachable.items()]  # fmt: skip
    lines += [_remains_words(item) for item in left.items] or ["nothing is left of it anywhere"]
    if left.ranks:
        lines += ["", f"The log of {_ranks(left.ranks)} was not read to its end here.", "To attach reads it."]
    total = sum(item.size or 0 for item in left.items)
    lines += ["", *whose(view, owner), f"{size_words(total)} in all. This can't be undone."]
    if await app.confirm(f"Remove {run}?", lines, "Remove"):
        # Also when the view is left, or another run is next.
        work(view.app, _removed(view, run, gone), name=name, ask=f"removing {run}")


async def _removed(view: View, run: str, gone: Callable[[], None]) -> None:
    await view.backend.prune(run)
    app_of(view).tell(f"{run} is removed")
    app_of(view).ask_runs()
    gone()


def _remains_words(item: Remain) -> str:
    return f"{item.host}   {item.what}" + (f"   {size_words(item.size)}" if item.size is not None else "")
