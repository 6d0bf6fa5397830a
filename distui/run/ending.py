"""The end of a run that was followed, or of its newest attempt: clean up the hosts, then the outcome and exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from distui.errors import ExitCode
from distui.run.attempts import why_last
from distui.run.circumstances import when_stopped, with_network
from distui.run.cleanup import clean_up, look
from distui.run.conclude import conclude, concluded, others_done
from distui.run.events import RunEnded, RunOutcome
from distui.run.review import Review, review

if TYPE_CHECKING:
    from distui.run.controller import RunController
    from distui.run.launch_steps import LaunchRefused


async def finish(run: RunController) -> RunEnded:
    """Everything is read: record the verdict, and only then clean up the hosts."""
    if run.recorded is None:
        judged = await _judged(run)
        keep = run.keep and not _retried(run, judged)
        end = await conclude(run, judged)
    else:
        keep, end = run.keep, await concluded(run, run.recorded)
    await others_done(run)
    return replace(end, at=run.clock(), leftovers=await clean_up(run, keep=keep))


def _retried(run: RunController, end: RunEnded) -> bool:
    """Whether another attempt follows this one, which failed."""
    return end.outcome == "failed" and why_last(run, end.failure) is None


async def _judged(run: RunController) -> RunEnded:
    """How the run has ended, from all that is known of it."""
    known = run.known
    looked = Review()
    stopped_by = "" if run.requests.stop else await run.watch.hosts.stopped_elsewhere()
    await look(run)
    if _outcome(run, failed=known.failed, stopped_by=stopped_by)[0] == "succeeded":
        looked = await review(run)
    known.missed(index for host in run.hosts.values() for index in host.missing)
    await run.watch.judged_ends.explain_last()
    failure = known.failure() if known.failed else looked.failure
    around: tuple[str, ...] = ()
    if known.failed and failure is not None:
        failure, around = await with_network(run, failure)
    await run.watch.judged_ends.announce(failure)
    if known.failed and (words := known.uncertain()):
        await run.notice("warning", words)
    if missing := _unfound(run):
        text = f"{missing} of the run's tasks were not found: their hosts did not answer, or are not in the inventory"
        await run.notice("warning", text)
    outcome, code = _outcome(run, failed=failure is not None, stopped_by=stopped_by)
    if outcome == "succeeded" and looked.failure is not None:
        outcome, code = "failed", ExitCode.RANK_FAILED
    if outcome == "stopped":
        around = await when_stopped(run)
    return ended(run, outcome, code, warnings=(*looked.warnings, *around))


def ended(
    run: RunController,
    outcome: RunOutcome,
    code: int,
    *,
    leftovers: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> RunEnded:
    """The run's last event, as things stand now."""
    return RunEnded(
        at=run.clock(),
        outcome=outcome,
        exit=int(code),
        failure=run.state.failure,
        log_dir="" if outcome == "launch_failed" else str(run.stored.log_dir),
        leftovers=leftovers,
        took=max(0.0, (run.known.ended_at or run.clock()) - run.began),
        progress=run.state.progress,
        attempt=run.plan.attempt,
        attempts=run.plan.attempts,
        warnings=warnings,
    )


def refused(run: RunController, refusal: LaunchRefused) -> RunEnded:
    """The end of a launch that was refused and undone."""
    stopped = refusal.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED)
    if not stopped and run.state.past:  # the run did run, and failed
        end = ended(run, "failed", ExitCode.RANK_FAILED, leftovers=refusal.leftovers)
        return replace(end, failure=run.state.past[-1].failure)
    return ended(run, "stopped" if stopped else "launch_failed", refusal.exit_code, leftovers=refusal.leftovers)


def _unfound(run: RunController) -> int:
    """Tasks of an adopted run that no host which answered knows of, by the number its labels give."""
    told = run.plan.tasks[0].labels.get("distui.tasks", "")
    return max(0, int(told) - len(run.plan.tasks)) if told.isdigit() else 0


def _outcome(run: RunController, *, failed: bool, stopped_by: str) -> tuple[RunOutcome, int]:
    known = run.known
    if known.unknown_tasks() or _unfound(run):
        return "unknown", ExitCode.CONTACT_LOST
    if known.over_limit:
        return "stopped", ExitCode.TIMEOUT
    if (code := known.judged()) is not None:
        return ("failed", code) if code else ("succeeded", ExitCode.OK)
    if run.requests.stop in ("user", "timeout"):
        if known.all_succeeded():
            return "succeeded", ExitCode.OK
        return "stopped", run.requests.exit
    if stopped_by and not failed:
        return "stopped", ExitCode.TERMINATED
    failed = failed or run.requests.stop == "failure"
    return ("failed", ExitCode.RANK_FAILED) if failed else ("succeeded", ExitCode.OK)
