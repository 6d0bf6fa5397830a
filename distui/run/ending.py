"""The end of a run that was followed, or of its newest attempt: clean up the hosts, then the outcome and exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distui.errors import ExitCode
from distui.run.attempts import why_last
from distui.run.cleanup import clean_up
from distui.run.events import RunEnded, RunOutcome
from distui.run.review import Review, review

if TYPE_CHECKING:
    from distui.run.controller import RunController


async def finish(run: RunController) -> RunEnded:
    """Everything is read: clean up the hosts and give the verdict."""
    known = run.known
    looked = Review()
    stopped_by = "" if run.requests.stop else await run.watch.hosts.stopped_elsewhere()
    if _outcome(run, failed=known.failed, stopped_by=stopped_by)[0] == "succeeded":
        looked = await review(run)
    unmet = looked.failure
    lost = (known.failed and known.judged() != ExitCode.OK) or unmet is not None
    retried = lost and why_last(run, unmet or known.failure()) is None
    leftovers = await clean_up(run, keep=run.keep and not retried)
    known.missed(index for host in run.hosts.values() for index in host.missing)
    await run.watch.ends.explain_last()
    failure = known.failure() if known.failed else unmet
    await run.watch.ends.announce(failure)
    if known.failed and (words := known.uncertain()):
        await run.notice("warning", words)
    if missing := _unfound(run):
        text = f"{missing} of the run's tasks were not found: their hosts did not answer, or are not in the inventory"
        await run.notice("warning", text)
    outcome, code = _outcome(run, failed=failure is not None, stopped_by=stopped_by)
    if outcome == "succeeded" and unmet is not None:
        outcome, code = "failed", ExitCode.RANK_FAILED
    return ended(run, outcome, code, leftovers=leftovers, warnings=looked.warnings)


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
        took=run.clock() - run.began,
        progress=run.state.progress,
        attempt=run.plan.attempt,
        attempts=run.plan.attempts,
        warnings=warnings,
    )


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
