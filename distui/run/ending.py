"""The end of a run that was followed, or of its newest attempt: clean up the hosts, then the outcome and exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from distui.errors import ExitCode
from distui.run.attempts import why_last
from distui.run.circumstances import note_silences, with_network
from distui.run.cleanup import clean_up, look
from distui.run.conclude import conclude, concluded, others_done, say_unread
from distui.run.events import Failure, RunEnded, RunOutcome
from distui.run.review import Review, review
from distui.run.stop_word import stop_by
from distui.run.verdict.evidence import Stop
from distui.run.verdict.outcome import Verdict
from distui.whole import whole

if TYPE_CHECKING:
    from distui.run.controller import RunController
    from distui.run.launch_steps import LaunchRefused


async def finish(run: RunController) -> RunEnded:
    """Everything is read: record the verdict, and only then clean up the hosts.

    Who is asked to leave while others still read the run leaves the clean-up to them, or to whoever comes next.
    """
    end: RunEnded | None
    if run.recorded is None:
        judged = await _judged(run)
        keep = run.keep and not _retried(run, judged)
        await say_unread(run)
        end = await conclude(run, judged)
        if end is None:
            return left(run)
    else:
        await say_unread(run)
        keep, end = run.keep, await concluded(run, run.recorded)
    others = await others_done(run)
    if others is None:
        words = f"{run.plan.run_id} has ended; what it has on its hosts is left there: `distui stop` removes it"
        await run.notice("warning", words)
        return left(run)
    keep = keep and run.stored.stop_asked() is None  # whoever stops it meanwhile wants nothing kept
    return replace(end, at=run.clock(), leftovers=await clean_up(run, others, keep=keep))


def _retried(run: RunController, end: RunEnded) -> bool:
    """Whether another attempt follows this one, which failed."""
    return end.outcome == "failed" and why_last(run, end.failure) is None


async def _judged(run: RunController) -> RunEnded:
    """How the run has ended, from all that is known of it."""
    await _learn(run)
    verdict = run.known.verdict()
    looked = await review(run) if verdict.outcome == "succeeded" else Review()
    failure = verdict.failure if verdict.failure is not None and _tells(verdict) else looked.failure
    failure, around = await with_network(run, failure)
    await run.watch.judged_ends.tell_all(verdict)
    await run.watch.judged_ends.announce(failure)
    if failure is not None and failure.unsure:
        await run.notice("warning", f"who was first is uncertain: {failure.unsure}")
    if missing := run.known.unfound:
        why = "never started, removed, or on hosts that did not answer or are not known here"
        text = f"{missing} of the run's tasks were not found: {why}"
        await run.notice("warning", text)
    outcome, code = verdict.outcome, verdict.exit
    if outcome == "succeeded" and looked.failure is not None:
        outcome, code = "failed", ExitCode.RANK_FAILED
    return ended(run, outcome, code, failure=failure, warnings=(*looked.warnings, *verdict.odd, *around))


def _tells(verdict: Verdict) -> bool:
    """Whether the failure says something about the run: one may go on, and end well, without some of its nodes."""
    return verdict.failed or verdict.outcome == "failed"


async def _learn(run: RunController) -> None:
    """What is not known yet and can be asked now: who stopped the run, what was removed or restarted."""
    known = run.known
    known.all_in, known.unfound = True, _unfound(run)
    if run.requests.stop is None and not known.stopped_by and (word := await run.watch.hosts.stopped_elsewhere()):
        ends = [track.end for track in known.tracks.values() if track.end is not None]
        known.stopped(stop_by(word, ends) or Stop(run.clock(), "elsewhere", word.who))
    await look(run)
    known.missed(index for host in run.hosts.values() for index in host.missing)
    await run.watch.judged_ends.ask_boots()
    note_silences(run)


def ended(
    run: RunController,
    outcome: RunOutcome,
    code: int,
    *,
    failure: Failure | None = None,
    leftovers: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> RunEnded:
    """The run's last event, as things stand now."""
    return RunEnded(
        at=run.clock(),
        outcome=outcome,
        exit=int(code),
        failure=failure,
        log_dir="" if outcome == "launch_failed" else str(run.stored.log_dir),
        leftovers=leftovers,
        took=max(0.0, (run.known.ended_at or run.clock()) - run.began),
        progress=run.state.progress,
        attempt=run.plan.attempt,
        attempts=run.plan.attempts,
        warnings=warnings,
    )


def left(run: RunController) -> RunEnded:
    """Nobody here waits for the run any longer; whoever asked for a stop before gets the exit code of that."""
    return ended(run, "detached", run.requests.exit if run.requests.stop == "user" else ExitCode.OK)


def refused(run: RunController, refusal: LaunchRefused) -> RunEnded:
    """The end of a launch that was refused and undone."""
    stopped = refusal.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED)
    if not stopped and run.state.past:  # the run did run, and failed
        end = ended(run, "failed", ExitCode.RANK_FAILED, leftovers=refusal.leftovers)
        return replace(end, failure=run.state.past[-1].failure)
    return ended(run, "stopped" if stopped else "launch_failed", refusal.exit_code, leftovers=refusal.leftovers)


def _unfound(run: RunController) -> int:
    """Tasks of an adopted run that no host which answered knows of, by the number its labels give."""
    told = whole(run.plan.tasks[0].labels.get("distui.tasks", ""))
    return max(0, (told or 0) - len(run.plan.tasks))
