"""A run's stored events as values again: for looking at a run that has ended.

What a torn or foreign line can't give is left out; a recorded run never fails to open because of one line.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distui.codec import read
from distui.errors import UsageError
from distui.facts.values import loads
from distui.files import first_lines, lines_of, tail_lines
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.plan.serialize import from_json
from distui.runs.lines.event_json import event_of
from distui.runs.lines.events import Event, Failure, HostSampled, NetworkUsed, Progressed, RunEnded, RunOpened
from distui.runs.store.runs import StoredRun

FIRST_BYTES = 1 << 20
"""Of a run's samples, in which those are that came first of each host."""
TAIL_BYTES = 1 << 18
"""Of them, in which the newest progress is."""


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
                event = event_of(value, tasks)
            except ValueError:
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


def stored_samples(stored: StoredRun, most: int = 20_000) -> tuple[HostSampled, ...]:
    """The last samples of a run's hosts, oldest first."""
    return tuple(event for event in stored_figures(stored, most) if isinstance(event, HostSampled))


def stored_figures(stored: StoredRun, most: int = 100_000) -> tuple[HostSampled | Progressed, ...]:
    """The last samples of a run's hosts and what it said of its progress, oldest first."""
    try:
        lines = deque(lines_of(stored.path / "metrics.ndjson"), most)
    except OSError:
        return ()
    return tuple(event for event in _figures(lines) if isinstance(event, HostSampled | Progressed))


def first_errors(stored: StoredRun) -> dict[tuple[str, int], int]:
    """(host, GPU) -> the uncorrected errors that it had counted when the run's first sample of its host was taken."""
    found: dict[str, HostSampled] = {}
    try:
        head = first_lines(stored.path / "metrics.ndjson", FIRST_BYTES)
    except OSError:
        return {}
    for event in _figures(head):
        if isinstance(event, HostSampled) and event.gpus:
            found.setdefault(event.host, event)
    return {(host, gpu.index): gpu.ecc for host, sample in found.items() for gpu in sample.gpus if gpu.ecc is not None}


def stored_progress(stored: StoredRun) -> Progressed | None:
    """What the run said of its progress last: in its result, else among the last samples of a run that goes on, also
    where a result tells that somebody left it running, and another follows it since.
    """
    said = None
    with contextlib.suppress(ValueError):
        ended = event_of(stored.result())
        said = ended.progress if isinstance(ended, RunEnded) else None
    newest = _figures(reversed(tail_lines(stored.path / "metrics.ndjson", TAIL_BYTES)))
    sampled = next((event for event in newest if isinstance(event, Progressed)), None)
    later = sampled is not None and (said is None or sampled.at > said.at)
    return sampled if later else said


def stored_network(stored: StoredRun) -> NetworkUsed | None:
    """Which interfaces carried how much, as it was reported last of the newest attempt."""
    found: NetworkUsed | None = None
    for event in stored_events(stored):
        if isinstance(event, NetworkUsed | RunOpened):
            found = event if isinstance(event, NetworkUsed) else None
    return found


def _figures(lines: Iterable[bytes]) -> Iterator[Event | None]:
    for line in lines:
        with contextlib.suppress(ValueError):
            yield event_of(loads(line))


def recorded_failure(value: object) -> Failure | None:
    """The `first_failure` object of a result as a value; None also for what can't be read."""
    with contextlib.suppress(ValueError):
        return read(Failure, value)
    return None


@frozen
class _Task:
    index: int
    ranks: tuple[int, ...]


@frozen
class _Tasks:
    tasks: tuple[_Task, ...]


def tasks_of(plan: Mapping[str, Any] | None) -> dict[int, tuple[int, ...]]:
    """Task -> its ranks, by a plan as JSON; empty when that can not be read."""
    with contextlib.suppress(ValueError):
        return {task.index: task.ranks for task in read(_Tasks, plan).tasks}
    return {}


def warnings_of(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What belongs to the verdict of a result, in words."""
    warnings = result.get("warnings")
    return tuple(map(str, warnings)) if isinstance(warnings, list) else ()
