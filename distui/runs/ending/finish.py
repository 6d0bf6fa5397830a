"""The end of a run that was followed, or of its newest attempt: clean up the hosts, then the outcome and exit code."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from distui.errors import ExitCode
from distui.facts.troubles import shared
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.steps import LaunchRefused
from distui.runs.ending.ask_ended import with_places
from distui.runs.ending.circumstances import note_silences, with_network
from distui.runs.ending.cleanup import clean_up, look
from distui.runs.ending.conclude import CLEANED_UP, cleaned_up, conclude, concluded, concluded_rest
from distui.runs.ending.next_attempt import why_last
from distui.runs.ending.others import others_done
from distui.runs.ending.review import Review, missing_lines, review
from distui.runs.ending.visits import await_next, judging, say_unread, visit_all
from distui.runs.hosts.stop_word import StopWord, stop_by
from distui.runs.lines.events import NOBODY_ANSWERED, Failure, RunEnded, RunOutcome
from distui.runs.report.found import unfound
from distui.runs.report.run_words import restarts_of
from distui.runs.store.end_record import failure_here
from distui.runs.verdict.evidence import Stop
from distui.runs.verdict.outcome import Verdict


async def finish(attempt: Attempt) -> RunEnded:
    """Everything is read: record the verdict, and only then clean up the hosts.

    Who is asked to leave while others still read the run leaves the clean-up to them, or to whoever comes next.
    """
    end: RunEnded | None
    again = False
    if attempt.recorded is None:
        async with judging(attempt):
            judged = await _judged(attempt)
        again = _tried_again(attempt, judged)
        keep = _keeps(attempt) and not again
        await say_unread(attempt)
        await _await_next(attempt, judged)
        end = await conclude(attempt, judged)
        if end is None:
            return left(attempt)
    else:
        if missing := unfound(attempt.plan):
            text = f"{missing} of the run's tasks {'is' if missing == 1 else 'are'} on no host any more"
            await attempt.notice("warning", f"{text}: logs are where the run was followed")
        await say_unread(attempt)
        await _await_next(attempt, attempt.recorded.ended)
        conclude_it = concluded_rest if attempt.rest else concluded
        keep, end = _keeps(attempt), await conclude_it(attempt, attempt.recorded)
    spares = not (attempt.run.adopted and attempt.run.removes_all)  # else who reads on is not waited for any longer
    others = await others_done(attempt, keeps=spares and not again)
    if others is None:
        message = f"{attempt.plan.run_id} has ended; what it has on its hosts is left there: `distui stop` removes it"
        await attempt.notice("warning", message)
        return left(attempt)
    keep = keep and attempt.run.stored.stop_asked() is None  # whoever stops it meanwhile wants nothing kept
    return replace(end, at=attempt.clock(), leftovers=await clean_up(attempt, others, keep=keep))


def _keeps(attempt: Attempt) -> bool:
    """Whether ended containers stay: until `distui stop` asks for the end of the run."""
    return attempt.run.keep and not attempt.run.requests.keep_over


def _tried_again(attempt: Attempt, judged: RunEnded) -> bool:
    """Whether we begin another attempt: nothing of this one stays then. Who took the run up removes nothing for it."""
    if attempt.run.adopted or judged.outcome != "failed":
        return False
    return why_last(attempt, judged.failure) is None


async def _await_next(attempt: Attempt, end: RunEnded) -> None:
    """Where another attempt may follow that we don't begin."""
    if attempt.run.adopted and (end.outcome == "failed" or attempt.cleaned_up) and not attempt.rest:
        await await_next(attempt)


async def _judged(attempt: Attempt) -> RunEnded:
    """How the run has ended, from all that is known of it."""
    await _learn(attempt)
    verdict = attempt.tracker.verdict()
    looked = await review(attempt) if verdict.outcome == "succeeded" else Review()
    failure = verdict.failure if verdict.failure is not None and _tells(verdict) else looked.failure
    elsewhere = await cleaned_up(attempt)
    if elsewhere and failure is not None and _is_removal(attempt, failure):
        failure = None
    failure = await with_places(attempt, _with_unread(attempt, failure))
    failure, around = await with_network(attempt, failure)
    if elsewhere and failure is None and not attempt.run.views:
        failure = failure_here(attempt.run.stored, attempt.token)  # a distui that was killed had seen it
    await attempt.watch.judged_ends.tell_all(verdict)
    await attempt.watch.judged_ends.announce(failure)
    if failure is not None and failure.unsure:
        await attempt.notice("warning", f"who was first is uncertain: {failure.unsure}")
    if missing := attempt.tracker.unfound:
        await attempt.notice("warning", _not_found(attempt, missing))
        around = (*around, *not_found_words(attempt))
    outcome, code = verdict.outcome, verdict.exit
    if outcome == "succeeded" and looked.failure is not None:
        outcome, code = "failed", ExitCode.RANK_FAILED
    if elsewhere:
        outcome, code = "unknown", ExitCode.CONTACT_LOST
        around = (*around, CLEANED_UP)
    warnings = (*looked.warnings, *verdict.odd, *around, *await _network_used(attempt))
    return ended(attempt, outcome, code, failure=failure, warnings=warnings)


def _is_removal(attempt: Attempt, failure: Failure) -> bool:
    """Whether all that is known of the rank that it names is that its container is gone."""
    ends = (track.end for track in attempt.tracker.tracks.values() if failure.rank in track.task.ranks)
    return any(end is not None and end.state == "removed" for end in ends)


def _with_unread(attempt: Attempt, failure: Failure | None) -> Failure | None:
    """The failure, and that it is not certain where what a rank that failed said last is not here."""
    unread = attempt.tracker.unread_tasks() & attempt.tracker.bad()
    if failure is None or failure.unsure or not unread:
        return failure
    return replace(failure, unsure=missing_lines(attempt.plan, unread))


def _not_found(attempt: Attempt, missing: int) -> str:
    """What may be the matter with the tasks that no host reported."""
    where = "did not answer or were not asked" if attempt.run.unreachable else "were not asked"
    was = "was" if missing == 1 else "were"
    return f"{missing} of the run's tasks {was} not found: never started, removed, or on hosts that {where}"


def not_found_words(attempt: Attempt) -> tuple[str, ...]:
    """What belongs to the verdict of a run of which no host that answered has all tasks."""
    missing = attempt.tracker.unfound
    return (_not_asked(attempt, missing) or _not_found(attempt, missing),) if missing else ()


def _not_asked(attempt: Attempt, missing: int) -> str:
    """Where such tasks may still run; empty where all hosts have answered."""
    where = "; ".join(trouble.message for trouble in shared(attempt.run.unreachable))
    return f"{missing} of the run's tasks {NOBODY_ANSWERED}: {where}" if where else ""


async def _network_used(attempt: Attempt) -> tuple[str, ...]:
    """Tell which interface carried how much; what is odd in it, in words."""
    used = attempt.watch.network.ended(attempt.clock())
    if used is None:
        return ()
    await attempt.emit(used)
    return used.warnings


def _tells(verdict: Verdict) -> bool:
    """Whether the failure says something about the run: one may go on, and end well, without some of its nodes."""
    return verdict.failed or verdict.outcome == "failed"


async def _learn(attempt: Attempt) -> None:
    """What is not known yet and can be asked now: who stopped the run, what was removed or restarted."""
    known = attempt.tracker
    known.nothing_more(unfound(attempt.plan))
    word, _, _ = await asyncio.gather(_stop_word(attempt), look(attempt), visit_all(attempt))
    if word is not None:
        ends = [track.end for track in known.tracks.values() if track.end is not None]
        found = stop_by(word, ends)
        if found is None and word.cause != "failure":
            found = Stop(attempt.clock(), "elsewhere", word.who)
        if found is not None:
            known.stopped(found)
    known.missed(index for host in attempt.hosts.values() for index in host.missing)
    await attempt.watch.judged_ends.ask_boots()
    note_silences(attempt)


async def _stop_word(attempt: Attempt) -> StopWord | None:
    """Who stopped the run elsewhere, where nothing is known of a stop here."""
    asked_here = attempt.run.requests.stop is not None or attempt.tracker.stopped_by
    return None if asked_here else await attempt.watch.hosts.stopped_elsewhere()


def ended(
    attempt: Attempt,
    outcome: RunOutcome,
    code: int,
    *,
    failure: Failure | None = None,
    leftovers: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> RunEnded:
    """The run's last event, as things stand now."""
    return RunEnded(
        at=attempt.clock(),
        outcome=outcome,
        exit=int(code),
        failure=failure,
        log_dir="" if outcome == "launch_failed" or attempt.run.views else str(attempt.run.stored.log_dir),
        leftovers=leftovers,
        took=_took(attempt),
        progress=attempt.state.progress,
        attempt=attempt.plan.attempt,
        attempts=attempt.plan.attempts,
        warnings=warnings,
        network=attempt.state.network.words if attempt.state.network is not None else "",
        restarts=restarts_of(attempt.state.restarts),
    )


def _took(attempt: Attempt) -> float:
    """Seconds from its begin to the end of its last task, however our clock was set meanwhile."""
    spent, ended_at = attempt.run.spent, attempt.tracker.ended_at
    since = attempt.clock() - ended_at if ended_at is not None else 0.0
    return spent - since if 0.0 < since < spent else spent


def left(attempt: Attempt) -> RunEnded:
    """Nobody here waits for the run any longer; whoever asked for a stop before gets the exit code of that."""
    return ended(attempt, "detached", attempt.run.requests.exit if attempt.run.requests.stop == "user" else ExitCode.OK)


def refused(attempt: Attempt, refusal: LaunchRefused) -> RunEnded:
    """The end of a launch that was refused and undone."""
    stopped = refusal.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED)
    if not stopped and attempt.state.past:  # the run did run, and failed
        end = ended(attempt, "failed", ExitCode.RANK_FAILED, leftovers=refusal.leftovers)
        known = (past.failure for past in reversed(attempt.state.past) if past.failure is not None)
        return replace(end, failure=next(known, None))
    return ended(attempt, "stopped" if stopped else "launch_failed", refusal.exit_code, leftovers=refusal.leftovers)
