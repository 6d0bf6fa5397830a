"""Runs as rows of a list: what is recorded on this machine, joined with what the hosts tell."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from distui.errors import ExitCode
from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.hosts.claims.launches import Launch, ended
from distui.runs.hosts.discover import FoundRun, FoundRuns
from distui.runs.lines.events import NOBODY_ANSWERED, Failure
from distui.runs.report.states import ENDED, GOING_ON
from distui.runs.report.summary import summary
from distui.runs.state.standstill import Standstill
from distui.runs.store.masking import Mask, stored_secrets
from distui.runs.store.recorded import recorded_failure, warnings_of
from distui.runs.store.runs import StoredRun
from distui.spec.hosts.names import fold

Launched = tuple[str, str]
"""The name of a run, and what tells its launch from others of that name; "" where that is not known."""


@frozen
class RunRow:
    """One run: recorded here, found on the hosts, or both. Times are UTC seconds, `took` is seconds."""

    run: str
    job: str
    state: str
    """One of STATES, or the `RunState.summary` of a run that this process follows."""
    hosts: tuple[str, ...]
    ranks: int
    owner: str = ""
    started: float | None = None
    took: float | None = None
    exit: int | None = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    """What belongs to its verdict, in words."""
    live: bool = False
    """Whether its tasks were just seen on a host, running or ended, or its folder, or this process follows it."""
    recorded: bool = False
    """Whether this machine has its folder."""
    log_dir: str = ""
    size: int = 0
    """Bytes of its folder here, where somebody counted them."""
    attempt: int = 1
    attempts: int = 1
    collected: bool = False
    """Whether its end is recorded here, with its logs."""
    cleaned: bool = True
    """Whether it was cleaned up after the end that is recorded here; a clean-up may have been killed."""
    launch: str = ""
    """What tells its launch, and the attempt, from others of its name."""
    left: tuple[str, ...] = ()
    """Hosts that have its folder and none of its tasks any more: it has ended, and was not cleaned up to the end."""
    begun: bool = False
    """Whether all its tasks had started, of one that is `left`: they were removed, or are where nobody was asked."""
    stalled: Standstill | None = None
    """That it stands still, as whoever follows it on this machine says; None also where nobody does."""
    followed: bool = False
    """Whether a distui of this machine reads it as it goes on. Of another run it is not known whether it goes on."""
    quiet: float | None = None
    """Since when no rank of a run that nobody follows here said a line, where that is longer than its `stall_after`."""
    unlisted: str = ""
    """The engine of its tasks, where its hosts were asked for another's: whether they live is not known."""
    elsewhere: int = 0
    """Tasks that are on hosts which are not recorded here, so that `hosts` are not all of them."""
    unmet: tuple[str, ...] = ()
    """Hosts that did not answer when it was recorded, where these tasks may be."""
    apart: str = ""
    """Where tasks that were not found may still run, in words (`on h2, which did not answer`): whether it has ended is
    not known. Empty where all its hosts answered.
    """

    @property
    def stands(self) -> bool:
        """Whether it seems to run and stands still."""
        return self.state == "running" and self.stalled is not None

    @property
    def silent(self) -> bool:
        """Whether it seems to run, nobody follows it here, and its ranks are quiet: it may stand still."""
        return self.state == "running" and not self.followed and self.quiet is not None

    @property
    def goes_on(self) -> bool:
        """Whether its tasks run, or are about to be started, as was just seen."""
        return self.live and self.state in GOING_ON

    @property
    def leftover(self) -> bool:
        """Whether only folders of it are on its hosts: it has ended, or its launch was killed."""
        return self.state == "left" or bool(self.left)

    @property
    def may_retry(self) -> bool:
        """Whether its hosts only have folders of an attempt that failed, and whoever has the run may be about to begin
        another.
        """
        return bool(self.left) and self.state == "failed" and self.attempt < self.attempts

    @property
    def over(self) -> bool:
        """Whether it has ended, and nothing of it needs to be done any more."""
        return self.state in ENDED and self.cleaned

    @property
    def may_run(self) -> bool:
        """Whether there is something to follow or to stop, for all that is known: not where its end is recorded, or all
        its hosts say that nothing of it is there.
        """
        return self.live or self.state not in (*ENDED, "gone")

    @property
    def may_live(self) -> bool:
        """Whether something of it may still be on a host, for all that is known."""
        return self.live or (self.state != "gone" and not self.over)


def stored_row(stored: StoredRun) -> RunRow:
    """A run as this machine recorded it."""
    recorded = summary(stored)
    result = recorded.result or {}
    left = result.get("state") == "detached"  # with the exit and the time of who left; those of the run are not known
    followed = stored.is_followed if recorded.paused or str(result.get("state")) not in ENDED else False
    resting = recorded.paused and followed
    return RunRow(
        run=stored.run_id,
        job=recorded.job,
        state="retrying" if resting else str(result.get("state", "unknown")),
        hosts=recorded.hosts,
        ranks=recorded.ranks,
        owner=recorded.owner,
        started=_seconds(recorded.opened) if recorded.opened else None,
        took=None if left else result.get("took_s"),
        exit=None if left else result.get("exit"),
        failure=recorded_failure(result.get("first_failure")),
        warnings=warnings_of(result),
        recorded=True,
        log_dir=str(stored.log_dir),
        attempt=recorded.attempt,
        attempts=recorded.attempts,
        cleaned=recorded.cleaned,
        launch=recorded.launch,
        stalled=recorded.stalled if followed else None,
        followed=followed,
        elsewhere=recorded.elsewhere,
        unmet=recorded.unmet,
    )


def shown_row(stored: StoredRun, environ: Mapping[str, str]) -> RunRow:
    """The same to be shown: with values hidden that were recorded by a distui which did not know them."""
    row = stored_row(stored)
    if row.failure is None and not row.warnings:
        return row
    return Mask.of(stored_secrets(stored), environ).event(row)


def _seconds(stamp: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(stamp).timestamp()
    return None


def found_row(found: FoundRun, recorded: RunRow | None, apart: str = "") -> RunRow:
    """A run as its hosts tell it, with what is recorded here: an end that is recorded is how it ended.

    `apart` is where tasks that were not found may still run (`where_apart`).
    """
    runs = found.state in ("running", "partial")
    over = recorded is not None and recorded.state in ENDED and not runs
    started = recorded.started if recorded is not None and recorded.started is not None else found.started
    ended_at = min(found.ended_at, time.time()) if found.ended_at is not None else None  # its host's clock may be ahead
    took = max(0.0, ended_at - started) if ended_at is not None and started is not None else None
    return RunRow(
        run=found.run,
        job=found.job,
        state=recorded.state if recorded is not None and over else found.state,
        hosts=_hosts(found, recorded),
        ranks=found.world_size,
        owner=found.owner,
        started=started,
        took=None if runs else recorded.took if recorded is not None and over else took,
        exit=None if runs else recorded.exit if recorded is not None and over else _exit(found),
        failure=recorded.failure if recorded else None,
        warnings=(*_warned(recorded, apart), *(() if runs or over else _unfound(found, apart))),
        live=True,
        recorded=recorded is not None,
        log_dir=recorded.log_dir if recorded else "",
        size=recorded.size if recorded else 0,
        attempt=found.attempt,
        attempts=found.attempts,
        collected=recorded is not None and recorded.over,
        cleaned=recorded is None or recorded.cleaned,
        launch=found.token,
        stalled=recorded.stalled if recorded is not None and runs else None,
        followed=recorded is not None and recorded.followed and runs,
        quiet=found.quiet,
        apart="" if runs or over else apart,
    )


def where_apart(
    found: FoundRun, recorded: RunRow | None, answered: Collection[str], silent: Collection[str], *, chosen: bool
) -> str:
    """Where tasks may still run that are on no host that `answered`, in words: on its hosts that are `silent`, or were
    not asked since others were `chosen`.
    """
    if not found.unfound:
        return ""
    known = set(recorded.hosts) if recorded is not None and not recorded.elsewhere else set[str]()
    if out_of_reach := [host for host in silent if not known or host in known]:
        return f"on {fold(out_of_reach)}, which did not answer"
    if unasked := sorted(known - set(answered)):
        return f"on {fold(unasked)}, which {'was' if len(unasked) == 1 else 'were'} not asked"
    return "on hosts that were not asked" if chosen and not known else ""


def _warned(recorded: RunRow | None, apart: str = "") -> tuple[str, ...]:
    """What its record warns of; not that some of it may run where nobody answered, once all its hosts have."""
    return tuple(text for text in (recorded.warnings if recorded else ()) if apart or NOBODY_ANSWERED not in text)


def _hosts(found: FoundRun, recorded: RunRow | None) -> tuple[str, ...]:
    """Those that are recorded, and where these are not known to be all, those that have it."""
    if recorded is None or not recorded.hosts:
        return found.hosts
    return tuple(dict.fromkeys((*(found.hosts if recorded.elsewhere else ()), *recorded.hosts)))


def _exit(found: FoundRun) -> int | None:
    """124 where only `max_duration` ended tasks badly, else 1 where one ended so; None where none is known to have."""
    if found.over_limit:
        return ExitCode.TIMEOUT
    return 1 if found.bad else None if found.unfound else 0


def _unfound(found: FoundRun, apart: str) -> tuple[str, ...]:
    """That ranks of a run of which nothing runs on the hosts that answered are on none of them, in words."""
    if not found.unfound:
        return ()
    if apart:
        return (f"{named_ranks(found.unfound)} may still run {apart}",)
    many = len(found.unfound) > 1
    return (
        f"nothing of {named_ranks(found.unfound)} is on the hosts that answered: how {'they' if many else 'it'} ended "
        "and what is unread of the log is not known",
    )


def joined(found: FoundRuns, recorded: Sequence[RunRow], *, chosen: bool = False) -> list[RunRow]:
    """All runs, those on the hosts first; one that a host which has not answered may hold is not `gone`. `chosen` is
    whether only some hosts were to be asked.
    """
    pairs = [(run, next((r for r in recorded if is_of(run, r)), None)) for run in found.runs]
    seen = {row.run for _, row in pairs if row is not None}
    rest = [settled(r, found.answered, found.unreachable) for r in recorded if r.run not in seen]
    there = (
        found_row(run, row, where_apart(run, row, found.answered, found.unreachable, chosen=chosen))
        for run, row in pairs
    )
    return [*there, *rest]


def is_of(found: FoundRun, recorded: RunRow) -> bool:
    """Whether what was found is the launch that is recorded: others of its name, forged ones too, are other runs."""
    if found.run != recorded.run:
        return False
    launch = launch_of(recorded)
    return not launch or (found.launch, found.owner) == (launch, recorded.owner)


def with_launches(
    rows: Sequence[RunRow],
    launches: Sequence[Launch],
    here: Mapping[str, bool],
    *,
    answered: Collection[str],
    owner: str = "",
) -> list[RunRow]:
    """The same, those that have ended as their verdict has it, and first the runs that only a launch tells of:
    `starting`, as its recorded end says where it has one, or `left` when it was killed.

    A launch has a row of its own unless its tasks were found: what is found or recorded of another launch of its
    name is no news of it. Of several that have only folders, and one name, that meant for `owner` is shown, by the rule
    of `launches.ended`, as everywhere. `here` says
    of the tokens that are recorded on this machine whether a distui has their run in its hands. That a run which had
    begun is over, only a host that `answered` can tell: a home that hosts share has the folders of them all. One whose
    end is recorded here, and of which all its hosts answered that they have nothing, was cleaned up by somebody else.
    """
    there, launches = launches, [one for one in launches if _tells(one, here, answered)]
    rows = [_as_written(row, launches) for row in rows]
    known = {(row.run, launch_of(row)) for row in rows if row.live}
    by_run: dict[str, list[Launch]] = {}
    for one in launches:
        if not known & {(one.run, one.attempt[0]), (one.run, "")}:
            by_run.setdefault(one.run, []).append(one)
    recorded = {run: _recorded(run, found, rows) for run, found in by_run.items()}
    more = [_launch_row(run, found, recorded[run], here, owner) for run, found in by_run.items()]
    rest = [row for row in rows if row is not recorded.get(row.run)]
    return [*more, *(replace(row, cleaned=True) if _is_nowhere(row, there, answered) else row for row in rest)]


def _is_nowhere(row: RunRow, launches: Sequence[Launch], answered: Collection[str]) -> bool:
    """Whether none of its hosts has a task or a folder of it any more: all of them said so."""
    if row.live or row.state not in ENDED or row.elsewhere or not row.hosts or not set(row.hosts) <= set(answered):
        return False
    ours = launch_of(row)
    return not any(one.run == row.run and (not ours or one.attempt[0] in ("", ours)) for one in launches)


def launch_of(row: RunRow) -> str:
    """What all attempts of a row's launch have in common; "" where that is not known."""
    return row.launch.rpartition("-")[0]


def _recorded(run: str, found: Sequence[Launch], rows: Sequence[RunRow]) -> RunRow | None:
    """What is recorded here of one of these launches; what does not say of which it is may be of any."""
    of = {"", *(one.attempt[0] for one in found)}
    return next((row for row in rows if row.run == run and not row.live and launch_of(row) in of), None)


def _as_written(row: RunRow, launches: Sequence[Launch]) -> RunRow:
    """A run whose tasks have ended, and are still there or some of them, as its verdict has it: that may not be known
    here.
    """
    if row.state not in ("ended", "failed", "succeeded", "unknown") or not row.live or row.collected:
        return row
    record = next(
        (one.record for one in launches if (one.run, one.token) == (row.run, row.launch) and one.record), None
    )
    if record is None:
        return row
    end, hosts = record.ended, tuple(dict.fromkeys(rank.host for rank in record.ranks))
    return replace(
        row,
        state=end.outcome,
        hosts=hosts if len(hosts) > len(row.hosts) else row.hosts,
        took=end.took,
        exit=end.exit,
        failure=end.failure,
        warnings=end.warnings,
        apart="",
    )


def _tells(one: Launch, here: Mapping[str, bool], answered: Collection[str]) -> bool:
    if one.record is None and not one.begun:
        return True
    return (one.record is not None or one.host in answered) and not here.get(one.token)


def _launch_row(
    run: str, found: Sequence[Launch], recorded: RunRow | None, here: Mapping[str, bool], owner: str
) -> RunRow:
    if (end := _ended_row(run, found, recorded, owner)) is not None:
        return end
    if recorded is not None and _begun_by(recorded, found):
        return replace(recorded, live=True, left=tuple(dict.fromkeys(one.host for one in found)))
    unlisted = next((one.engine for one in found if one.unlisted), "")
    dead = all(not here.get(one.token, not one.dead) for one in found)
    row = recorded or RunRow(run, "", "", (), 0, owner=found[0].owner, started=_since(found[0].since))
    hosts = row.hosts or tuple(one.host for one in found)
    state = "unknown" if unlisted else "left" if dead else "starting"
    begun = state == "left" and any(one.begun for one in found)
    return replace(row, state=state, hosts=hosts, took=None, exit=None, live=True, unlisted=unlisted, begun=begun)


def _begun_by(recorded: RunRow, found: Sequence[Launch]) -> bool:
    """Whether these folders are of the attempt whose end is recorded here: they could not be removed."""
    return recorded.state in ENDED and all(one.begun and one.token == recorded.launch for one in found)


def _ended_row(run: str, found: Sequence[Launch], recorded: RunRow | None, owner: str) -> RunRow | None:
    """A run whose end is reported by what is left of it; None where that does not tell."""
    launch = ended(found, token=recorded.launch if recorded is not None and not recorded.over else "", owner=owner)
    if launch is None or launch.record is None:
        return None
    end, ranks = launch.record.ended, launch.record.ranks
    same = recorded is not None and launch_of(recorded) == launch.attempt[0]
    row = recorded if recorded is not None and same else RunRow(run, "", "", (), 0, owner=launch.owner)
    return replace(
        row,
        state=end.outcome,
        hosts=row.hosts or tuple(dict.fromkeys(rank.host for rank in ranks)),
        ranks=row.ranks or len(ranks),
        started=row.started or _since(launch.since),
        took=end.took,
        exit=end.exit,
        failure=end.failure,
        warnings=end.warnings,
        live=True,
        attempt=end.attempt,
        attempts=end.attempts,
        launch=launch.token,
        left=tuple(dict.fromkeys(one.host for one in found if one.attempt[0] == launch.attempt[0])),
    )


def _since(message: str) -> float | None:
    """A claim's time in UTC seconds; None for words that are none."""
    return _seconds(message.removesuffix(" UTC") + "+00:00")


def settled(row: RunRow, answered: Collection[str], silent: Collection[str] = ()) -> RunRow:
    """A run without a result of which no host has a task is gone if all its hosts `answered`; else it may live, on one
    that was not asked, is out of reach or is not recorded, and its state is what is recorded: `unknown`, or `detached`.

    What is not recorded is on hosts that did not answer then. It is gone where these do now, and of all that were asked
    none is `silent`.
    """
    open_ended = row.state not in ENDED and row.state != "retrying"
    known = not row.elsewhere or (row.unmet and not silent)
    nowhere = row.hosts and known and {*row.hosts, *row.unmet} <= set(answered)
    return replace(row, state="gone", warnings=_warned(row)) if open_ended and nowhere else row
