"""A run's stored events as values again: for looking at a run that has ended.

What a torn or foreign line can't give is left out; a recorded run never fails to open because of one line.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from distui.errors import UsageError
from distui.facts.values import loads
from distui.files import last_bytes, lines_of
from distui.fits import check
from distui.plan.model import RunPlan
from distui.plan.serialize import from_json
from distui.runs.lines.events import (
    PLAIN,
    AttemptEnded,
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostSampled,
    Progressed,
    RankChanged,
    RanksAsked,
    RankSilent,
    RunEnded,
    RunOpened,
)
from distui.runs.lines.explanation import explanation_of
from distui.runs.store.runs import StoredRun

UNREADABLE = (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError)
"""What reading a value raises that is not what it should be."""


@dataclass(slots=True)
class Recorded:
    """The events of a run as they were stored, all but log lines and samples, to go through once."""

    stored: StoredRun
    left_out: int = 0
    """Lines gone through so far that are no event: torn, or not written by distui."""

    def __iter__(self) -> Iterator[Event]:
        tasks = tasks_of(self.stored.read_plan())
        for value in self.stored.lines():
            try:
                event = event_of(value or {}, tasks)
            except UNREADABLE:
                self.left_out += 1
                continue
            if event is not None:
                yield event


def stored_events(stored: StoredRun) -> Iterator[Event]:
    """The events of a run as they were stored: all but log lines and samples. What is no event is left out."""
    return iter(Recorded(stored))


def stored_plan(stored: StoredRun) -> RunPlan | None:
    """The plan of a run; None when there is none, it is torn, or a later version wrote it."""
    value = stored.read_plan()
    try:
        return None if value is None else from_json(value)
    except UsageError:
        return None


def is_event(value: Mapping[str, Any]) -> bool:
    """Whether a stored object is an event that can be read, or one of a later version."""
    try:
        event_of(value)
    except UNREADABLE:
        return False
    return True


def stored_samples(stored: StoredRun, most: int = 20_000) -> tuple[HostSampled, ...]:
    """The last samples of a run's hosts, oldest first."""
    try:
        lines = deque(lines_of(stored.path / "metrics.ndjson"), most)
    except OSError:
        return ()
    found = []
    for line in lines:
        with contextlib.suppress(*UNREADABLE):
            found.append(check(_sample(loads(line))))
    return tuple(found)


def stored_progress(stored: StoredRun) -> Progressed | None:
    """What the run said of its progress last: in its result, else among the last samples of a run that goes on."""
    with contextlib.suppress(*UNREADABLE):
        result = stored.result()
        if result is not None and result.get("progress"):
            return progress_of(_at(result["ts"]), result["progress"])
    for line in reversed(_tail(stored.path / "metrics.ndjson")):
        with contextlib.suppress(*UNREADABLE):
            value = loads(line)
            if value["type"] == "progress":
                return progress_of(_at(value["ts"]), value)
    return None


def _tail(path: Path, most: int = 1 << 18) -> list[bytes]:
    """The last lines of a file, as many as are in its last quarter of a megabyte."""
    try:
        return last_bytes(path, most)[0].splitlines()
    except OSError:
        return []


def failure_of(value: Mapping[str, Any] | None) -> Failure | None:
    """The `first_failure` object of a result as a value."""
    if not value:
        return None
    return check(
        Failure(
            rank=value.get("rank"),
            host=str(value.get("host", "")),
            exit=value.get("exit"),
            words=str(value.get("words", "")),
            cause=str(value.get("cause", "")),
            hint=str(value.get("hint", "")),
            excerpt=tuple(map(str, value.get("excerpt") or ())),
            at=_at(value["at"]) if value.get("at") else None,
            name=str(value.get("name", "")),
            alike=tuple(map(int, value.get("alike") or ())),
            within=value.get("within_s"),
            unsure=str(value.get("uncertain", "")),
        )
    )


def told_failure(value: Mapping[str, Any] | None) -> Failure | None:
    """As `failure_of`; None also for what can't be read."""
    with contextlib.suppress(*UNREADABLE):
        return failure_of(value)
    return None


def progress_of(at: float, value: Mapping[str, Any] | None) -> Progressed | None:
    """The `progress` object of an event or a result as a value."""
    if not value:
        return None
    figures = {name: _figure(said) for name, said in value["values"].items()}
    numbers = {name: said for name, said in figures.items() if isinstance(said, float)}
    words = {name: said for name, said in figures.items() if isinstance(said, str)}
    return check(Progressed(at, value["rank"], value["host"], numbers, words, value.get("seconds_per_step")))


def _figure(said: Any) -> float | str:
    """A figure as it was written: NaN and infinity stand as words in JSON."""
    return float(said) if not isinstance(said, str) or said in ("nan", "inf", "-inf") else said


def _at(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def tasks_of(plan: Mapping[str, Any] | None) -> dict[int, tuple[int, ...]]:
    """Task -> its ranks, by a plan as JSON; empty when that can not be read."""
    with contextlib.suppress(*UNREADABLE):
        return {int(t["index"]): tuple(t["ranks"]) for t in (plan or {})["tasks"]}
    return {}


def event_of(value: Mapping[str, Any], tasks: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> Event | None:
    """The event of an object; None for a type that is not stored, or of a later version. Raises UNREADABLE."""
    event = _made(value, tasks)
    return None if event is None else check(event)


def _made(value: Mapping[str, Any], tasks: Mapping[int, tuple[int, ...]]) -> Event | None:
    at = _at(value["ts"])
    match value["type"]:
        case "run":
            return _opened(at, value, tasks)
        case "rank":
            return RankChanged(
                at, value["rank"], value["host"], value["state"], value["exit"], value["oom"], value["words"],
                str(value.get("relation", "")), str(value.get("of", "")),
                _at(value["ended_at"]) if value.get("ended_at") else None,
            )  # fmt: skip
        case "silence":
            return RankSilent(at, value["rank"], value["host"], value["quiet"], value["seconds"], value["util"])
        case "why":
            return RanksAsked(at, explanation_of(value))
        case "failure":
            failure = failure_of(value["first_failure"])
            return FailureFound(at, failure) if failure else None
        case "attempt":
            failed = failure_of(value["first_failure"])
            return AttemptEnded(at, value["attempt"], value["attempts"], failed, value["pause_s"], value["log_dir"])
        case "result":
            return _ended(at, value)
        case str(name) if name in PLAIN:
            cls, fields = PLAIN[name]
            return cls(at, **{field: value[field] for field in fields})
        case _:
            return None


def _opened(at: float, value: Mapping[str, Any], tasks: Mapping[int, tuple[int, ...]]) -> RunOpened:
    ranks = {int(r["rank"]): str(r["host"]) for r in value["ranks"]}
    return RunOpened(
        at, value["run"], value["job"], value["launcher"], value["image"], ranks, tasks or {r: (r,) for r in ranks},
        value["attempt"], value["adopted"], value["log_dir"], value.get("attempts", 1),
        {int(r["rank"]): str(r["name"]) for r in value["ranks"] if r.get("name")},
        _at(value["started"]) if value.get("started") else None,
        {int(r["rank"]): int(r["lines"]) for r in value["ranks"] if r.get("lines")},
    )  # fmt: skip


def _ended(at: float, value: Mapping[str, Any]) -> RunEnded:
    return RunEnded(
        at, value["state"], value["exit"], failure_of(value["first_failure"]), value["log_dir"] or "",
        tuple(value["leftovers"]), value["took_s"], progress_of(at, value.get("progress")), value.get("attempt", 1),
        value.get("attempts", 1), warnings_of(value),
    )  # fmt: skip


def warnings_of(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What belongs to the verdict of a result, in words."""
    warnings = result.get("warnings")
    return tuple(map(str, warnings)) if isinstance(warnings, list) else ()


def _sample(value: Mapping[str, Any]) -> HostSampled:
    gpus = value["gpus"]
    indices = value.get("indices") or range(len(gpus))
    readings = (
        GpuReading(i, utilization_pct=g[0], memory_used_mib=g[1], temperature_c=g[2], power_w=g[3])
        for i, g in zip(indices, gpus, strict=False)
    )
    net = {str(name): (float(rates[0]), float(rates[1])) for name, rates in value["net"].items()}
    return HostSampled(_at(value["ts"]), value["host"], tuple(readings), net)
