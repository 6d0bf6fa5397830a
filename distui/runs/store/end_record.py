"""The recorded end of a run: outcome, exit code, first failure and how each rank ended. Once written it never changes.

It is written, synced, into the run's folder here (`verdict.json`) and into its folder on every host (`verdict`) before
anything is removed there. Whoever comes later, after a clean-up that was killed or from another machine, gives the
verdict that is written, and does not judge what is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from distui.codec import Key, read, write
from distui.errors import ExitCode
from distui.facts.values import as_object, as_objects, loads
from distui.files import read_bytes, write_private
from distui.frozen import frozen
from distui.plan.labels import task_from_labels, token_of
from distui.runs.lines.event_json import event_of, to_json
from distui.runs.lines.events import (
    Event,
    Failure,
    FailureFound,
    RankChanged,
    RunEnded,
    RunOutcome,
    StopAsked,
    StopReason,
)
from distui.runs.state.reducer import RunState
from distui.runs.store.runs import StoredRun
from distui.runs.verdict.ends.explain import is_removal

FINAL: frozenset[RunOutcome] = frozenset({"succeeded", "failed", "stopped", "launch_failed"})
"""Outcomes that say how a run ended; the others say that nobody knows, or that it goes on."""

RECORDED: frozenset[RunOutcome] = FINAL | {"unknown"}
"""Outcomes that may be written: that nobody knows is final, too, once nothing is left that could tell."""

FILE = "verdict.json"

MOST_BYTES = 4 << 20
"""A longer file is none of ours."""

VERDICT_IN = rf"""
rest={MOST_BYTES}
verdict_in() {{
  [ -f "$1/verdict" ] && [ ! -L "$1/verdict" ] || return
  set -- "$1" $(stat -c '%u %s' -- "$1/verdict") "$(stat -c %u -- "$1")"
  [ "$2" = "$4" ] && [ "$3" -gt 0 ] && [ "$3" -le "$rest" ] || return
  rest=$((rest - $3))
  dd if="$1/verdict" bs="$3" count=1 | tr -d '\000'
}}
"""
"""For scripts: `verdict_in FOLDER` prints a run's end as it is written there, in a plain file of the folder's owner.

All that one script prints is bounded: hosts that share a home have a folder each.
"""


_STOPPED: Mapping[StopReason, ExitCode] = {
    "user": ExitCode.TERMINATED,
    "timeout": ExitCode.TIMEOUT,
    "max_duration": ExitCode.TIMEOUT,
    "lost": ExitCode.CONTACT_LOST,
}
"""Exit codes of runs that were stopped for such a reason."""


@frozen
class EndRecord:
    """How an attempt of a run ended. `token` is that of its launch and attempt (`token_of`)."""

    token: str
    by: str
    """Who wrote it: `user@machine`."""
    ended: RunEnded
    ranks: tuple[RankChanged, ...] = ()
    secrets: tuple[str, ...] = ()
    """Names of the run's secrets: whoever finds only this can hide the values that its writer did not know."""

    @property
    def may_go_on(self) -> bool:
        """Whether the run may have another attempt after this one, for all that is recorded."""
        return self.ended.outcome == "failed" and self.ended.attempt < self.ended.attempts

    def text(self, run: str) -> str:
        """As it is written."""
        (result,) = to_json(self.ended, run)
        ranks = tuple(value for rank in self.ranks for value in to_json(rank, run))
        record = write(_Written(1, self.token, self.by, result, ranks, self.secrets))
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


@frozen
class _Written:
    """The file."""

    v: int
    token: str
    by: str
    result: dict[str, Any]
    ranks: tuple[dict[str, Any], ...]
    secrets: Annotated[tuple[Any, ...], Key(brief=True)] = ()


def record_of(token: str, by: str, ended: RunEnded, state: RunState, secrets: Iterable[str] = ()) -> EndRecord:
    """The record of an end, with the ranks as their events left them.

    Where the logs are is left out: each machine that reads it has its own.
    """
    ranks = (
        RankChanged(
            r.since or ended.at,
            r.rank,
            r.host,
            r.state,
            r.exit,
            r.oom,
            r.words,
            r.relation,
            r.of,
            None if r.live else r.since,
        )
        for r in state.ranks.values()
    )
    return EndRecord(token, by, replace(ended, log_dir=""), tuple(ranks), tuple(secrets))


def read_record(text: str | bytes, token: str) -> EndRecord | None:
    """What was written of the launch and attempt with this token; None for another's, and for what is no record."""
    try:
        made = read(_Written, loads(text))
        ended, ranks = event_of(made.result), [event_of(rank) for rank in made.ranks]
    except ValueError:
        return None
    mine = bool(token) and made.token == token
    if not mine or not isinstance(ended, RunEnded) or ended.outcome not in RECORDED:
        return None
    changes = tuple(rank for rank in ranks if isinstance(rank, RankChanged))
    secrets = tuple(name for name in made.secrets if isinstance(name, str))
    return EndRecord(token, made.by, replace(ended, log_dir=""), changes, secrets)


def keep_here(stored: StoredRun, record: EndRecord) -> bool:
    """Write and sync it; whether that was possible."""
    try:
        write_private(stored.path / FILE, record.text(stored.run_id).encode(), sync=True)
    except OSError:
        return False
    return True


def recorded_here(stored: StoredRun, token: str) -> EndRecord | None:
    """How the attempt with this token ended, as it is recorded here; None when it has not, or nobody knows."""
    try:
        record = read_record(read_bytes(stored.path / FILE, MOST_BYTES), token)
    except OSError:
        record = None
    if record is None and token and launch_here(stored) == token:
        record = _from_events(stored.events(), token)
    if record is None or record.ended.outcome == "launch_failed":
        return record
    return replace(record, ended=replace(record.ended, log_dir=str(stored.log_dir)))


def started_here(stored: StoredRun) -> frozenset[int]:
    """The tasks of the newest attempt that were started and not stopped since, as it is recorded here.

    A stop that was begun here may have removed any of them before it was interrupted, or met a host out of reach.
    """
    return _started(stored, ("attempt", "stop"))


def cut_off_here(stored: StoredRun, tasks: Iterable[int]) -> frozenset[int]:
    """Those of the newest attempt's tasks that a launch from here did not come to start: it was killed."""
    return frozenset(tasks) - _started(stored, ("attempt",)) if begun_here(stored) else frozenset()


def _started(stored: StoredRun, since: Sequence[str]) -> frozenset[int]:
    """The tasks that were started since the last event of these types."""
    started: set[int] = set()
    for value in stored.events():
        if value.get("type") in since:
            started.clear()
        elif value.get("type") == "task" and isinstance(value.get("task"), int):
            started.add(value["task"])
    return frozenset(started)


def begun_here(stored: StoredRun) -> bool:
    """Whether a distui of this machine started the run, and did not take it up."""
    return any(value.get("type") == "run" and value.get("adopted") is False for value in stored.events())


def launch_here(stored: StoredRun | None) -> str:
    """The token of the launch and attempt that is recorded here; "" where none is."""
    plan = stored.read_plan() if stored is not None else None
    tasks = as_objects((plan or {}).get("tasks"))
    labels = as_object(tasks[0].get("labels")) if tasks else {}
    return token_of(task_from_labels({name: str(value) for name, value in labels.items()}))


def end_here(stored: StoredRun) -> EndRecord | None:
    """How the attempt that is recorded here ended; None when it has not, or nobody knows."""
    return recorded_here(stored, launch_here(stored))


def failure_here(stored: StoredRun, token: str) -> Failure | None:
    """The first failure of the attempt with this token that was seen from here, by whoever followed it before. That a
    container was removed is none: where somebody cleaned up, that was the end of a clean-up.
    """
    if not token or launch_here(stored) != token:
        return None
    failure: Failure | None = None
    for value in stored.events():
        event = _readable(value) if value.get("type") == "failure" else None
        if value.get("type") == "attempt":
            failure = None
        elif isinstance(event, FailureFound) and not is_removal(event.failure.exit, event.failure.words):
            failure = event.failure
    return failure


def cut_short(stored: StoredRun, token: str, *, failure_ends: bool) -> EndRecord | None:
    """How the attempt with this token was ended from here while a host was out of reach: by a first failure, or a stop.

    Nobody knew then how the ranks there would end, so no verdict was recorded; but what the others had on their hosts
    was read and removed, and can't be judged again. None where nothing was stopped, or that was no end of the run.
    Where a failure ends it (`failure_ends`), there may have been nothing left to stop.
    """
    if not token or launch_here(stored) != token:
        return None
    ended: RunEnded | None = None
    stop: StopAsked | None = None
    ranks: dict[int, RankChanged] = {}
    for value in stored.events():
        if value.get("type") == "attempt":
            ended, stop, ranks = None, None, {}
        elif ended is None and value.get("type") in ("rank", "stop", "result"):
            event = _readable(value)
            if isinstance(event, RankChanged):
                ranks[event.rank] = event
            elif isinstance(event, StopAsked):
                stop = stop or event
            elif isinstance(event, RunEnded) and (event.outcome, event.exit) == ("unknown", ExitCode.CONTACT_LOST):
                ended = event
    reason = stop.reason if stop is not None else "failure" if failure_ends else None
    if ended is None or reason is None or (end := _by_stop(ended, reason)) is None:
        return None
    return EndRecord(token, "", replace(end, leftovers=()), tuple(ranks.values()))


def _readable(value: Mapping[str, Any]) -> Event | None:
    """The event, None where its line is damaged."""
    try:
        return event_of(value)
    except ValueError:
        return None


def _by_stop(ended: RunEnded, reason: StopReason) -> RunEnded | None:
    if ended.failure is not None and reason in ("failure", "hang", "lost"):
        return replace(ended, outcome="failed", exit=int(ExitCode.RANK_FAILED))
    code = _STOPPED.get(reason)
    return replace(ended, outcome="stopped", exit=int(code), failure=None) if code is not None else None


def _from_events(events: Iterable[Mapping[str, Any]], token: str) -> EndRecord | None:
    """The same from the events of a run that ended before there were such files."""
    ended: RunEnded | None = None
    ranks: dict[int, RankChanged] = {}
    for value in events:
        kind = value.get("type")
        if kind in ("run", "attempt"):
            ended, ranks = (None, {}) if kind == "attempt" else (ended, {})
        elif kind in ("rank", "result"):
            event = _readable(value)
            if isinstance(event, RankChanged):
                ranks[event.rank] = event
            elif isinstance(event, RunEnded) and event.outcome in FINAL:
                ended = ended or event
    return EndRecord(token, "", replace(ended, leftovers=()), tuple(ranks.values())) if ended is not None else None
