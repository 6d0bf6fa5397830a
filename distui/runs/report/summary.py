"""What lists show of a recorded run, kept beside it: the plan of a big run takes longer to read than all the rest.

`<run>/summary.json` names the size and time of the plan and the events it was made from, and counts only while they
are the same. It is written by whoever first lists the run after its end; without it everything works, but slower.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from distui.codec import read, write
from distui.facts.values import as_objects, integer, loads
from distui.files import read_bytes, write_private
from distui.frozen import frozen
from distui.runs.lines.event_json import event_of, is_event, to_json
from distui.runs.lines.events import RunStalled
from distui.runs.state.standstill import Standstill
from distui.runs.store import end_record
from distui.runs.store.runs import StoredRun
from distui.runs.store.saved_hosts import saved_hosts
from distui.whole import whole

FILE = "summary.json"


@frozen
class Summary:
    """A run as lists show it."""

    of: Any
    """Size and time of the files it was made from, in nanoseconds."""
    job: str
    owner: str
    hosts: tuple[str, ...]
    ranks: int
    attempt: int
    attempts: int
    opened: str | None
    """When, in RFC 3339."""
    paused: bool
    """Whether it rests between two attempts."""
    launch: str
    result: dict[str, Any] | None
    """The last event of that type, or the recorded end where that is not the same."""
    cleaned: bool
    """Whether the run is known here to have been cleaned up after its end."""
    stalled: Standstill | None = None
    """That it stood still when whoever followed it said so last."""
    elsewhere: int = 0
    """Tasks of it that are on hosts which are not recorded: only a part of the hosts was asked for it."""
    unmet: tuple[str, ...] = ()
    """The hosts among those asked that did not answer then, where such tasks may be."""


def summary(stored: StoredRun) -> Summary:
    """What is kept of the run, or made now."""
    of = [_state(stored, name) for name in ("plan.json", "events.ndjson", end_record.FILE)]
    with contextlib.suppress(OSError, ValueError):
        kept = read(Summary, loads(read_bytes(stored.path / FILE)))
        if kept.of == of and (kept.result is None or is_event(kept.result)):
            return kept
    made = _made(stored, of)
    if made.result is not None:
        with contextlib.suppress(OSError):
            _keep(stored, made)
    return made


def _state(stored: StoredRun, name: str) -> list[int]:
    try:
        stat = (stored.path / name).stat()
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns]


def _made(stored: StoredRun, of: list[list[int]]) -> Summary:
    plan = stored.read_plan() or {}
    tasks = as_objects(plan.get("tasks"))
    events = [value for value in stored.events() if is_event(value)]
    opened = next((e for e in events if e.get("type") == "run"), {})
    result, cleaned = _result(stored, events)
    hosts, elsewhere = tuple(dict.fromkeys(str(t.get("host", "")) for t in tasks)), _elsewhere(tasks)
    newest = next((e.get("type") for e in reversed(events) if e.get("type") in ("run", "attempt", "result")), "")
    return Summary(
        of,
        job=str(plan.get("job") or opened.get("job") or ""),
        owner=str(plan.get("owner") or ""),
        hosts=hosts,
        ranks=integer(plan.get("world_size")) or len(as_objects(opened.get("ranks"))),
        attempt=integer(plan.get("attempt")) or 1,
        attempts=integer(plan.get("attempts")) or 1,
        opened=opened.get("started") or opened.get("ts"),
        paused=newest == "attempt",
        launch=end_record.launch_here(stored),
        result=result,
        cleaned=cleaned,
        stalled=_stalled(events),
        elsewhere=elsewhere,
        unmet=tuple(host.name for host in saved_hosts(stored) if host.name not in hosts) if elsewhere else (),
    )


def _elsewhere(tasks: Sequence[Mapping[str, Any]]) -> int:
    """Tasks that a plan lacks which was made from labels, by the number of all that these have."""
    labels = tasks[0].get("labels") if tasks else None
    number = whole(str(labels.get("distui.tasks", ""))) if isinstance(labels, dict) else None
    return max(0, (number or 0) - len(tasks))


def _stalled(events: Sequence[Mapping[str, Any]]) -> Standstill | None:
    """What was said last of whether its newest attempt stands still."""
    last: Mapping[str, Any] = next((e for e in reversed(events) if e.get("type") in ("run", "stall", "result")), {})
    stall = event_of(last) if last.get("type") == "stall" else None
    return Standstill(stall.since, stall.step) if isinstance(stall, RunStalled) and stall.stalled else None


def _result(stored: StoredRun, events: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any] | None, bool]:
    """The run's result, and whether it was cleaned up afterwards."""
    last = next((dict(e) for e in reversed(events) if e.get("type") == "result"), None)
    cleaned = last is not None and last.get("state") in end_record.FINAL
    record = end_record.end_here(stored)
    if record is None:
        return last, cleaned
    (result,) = to_json(record.ended, stored.run_id)
    return {**result, "leftovers": last.get("leftovers") if last is not None and cleaned else []}, cleaned


def _keep(stored: StoredRun, made: Summary) -> None:
    """Write it; the folder keeps its time, by which runs are ordered."""
    before = stored.path.stat()
    write_private(stored.path / FILE, json.dumps(write(made), ensure_ascii=False).encode("utf-8", "replace"))
    os.utime(stored.path, ns=(before.st_atime_ns, before.st_mtime_ns))
