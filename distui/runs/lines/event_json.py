"""Events as JSON, one object a line, and back: in the NDJSON stream, in a run's folder, in the record of its end.

Nearly all of it is what `events.py` says of their fields (`distui/codec.py`). Additive changes only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Annotated, Any

from distui.codec import Form, Key, read, write
from distui.frozen import frozen
from distui.runs.lines.events import (
    At,
    AttemptEnded,
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostChanged,
    HostSampled,
    LogLine,
    LogLines,
    NetworkUsed,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RanksAsked,
    RankSilent,
    RanksMoved,
    RanksRestarted,
    RanksStepped,
    RunEnded,
    RunOpened,
    RunStalled,
    StopAsked,
    TaskStarted,
    iso,
)
from distui.runs.lines.explanation import Explanation, explanation_json

STORED: Mapping[str, type[Event]] = {
    "run": RunOpened, "phase": PhaseBegun, "host": HostChanged, "task": TaskStarted, "rank": RankChanged,
    "silence": RankSilent, "moved": RanksMoved, "stall": RunStalled, "why": RanksAsked, "failure": FailureFound,
    "stop": StopAsked, "notice": Notice, "network": NetworkUsed, "restart": RanksRestarted, "attempt": AttemptEnded,
    "result": RunEnded,
}  # fmt: skip
"""What events are called that `events.ndjson` has."""

TYPES: Mapping[type[Event], str] = {
    **{kind: name for name, kind in STORED.items()}, LogLines: "log", HostSampled: "gpu", Progressed: "progress",
    RanksStepped: "steps",
}  # fmt: skip

Json = dict[str, Any]


def to_json(event: Event, run: str) -> tuple[Json, ...]:
    """The NDJSON objects of one event: a batch of log lines gives one object a line."""
    base = {"v": 1, "ts": iso(event.at), "run": run, "type": TYPES[type(event)]}
    match event:
        case LogLines():
            return tuple(base | _line(event, line) for line in event.lines)
        case RunOpened():
            return (base | write(event) | _ranks(event),)
        case HostSampled():
            return (base | _sample(event),)
        case RanksAsked():
            return (base | explanation_json(event.found.shortened()),)
        case Progressed():
            return (base | (progress_json(event) or {}),)
        case RunEnded():
            return (base | write(event) | {"progress": progress_json(event.progress)},)
        case _:
            return (base | write(event),)


def event_of(value: Any, tasks: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> Event | None:
    """The event of an object; None for a log line and for a type of a later version. Raises ValueError.

    `tasks` are those of the run's plan with their ranks: events do not say which task a rank is of.
    """
    head = read(_Head, value)
    match head.type:
        case "run":
            return _opened(value, tasks)
        case "gpu":
            return _sampled(head.at, read(_Sample, value))
        case "progress":
            return progress_of(head.at, value)
        case "why":
            return RanksAsked(head.at, read(Explanation, value))
        case "result":
            return read(RunEnded, value, progress=progress_of(head.at, value.get("progress")))
        case name if name in STORED:
            return read(STORED[name], value)
        case _:
            return None


def is_event(value: Any) -> bool:
    """Whether an object is an event that can be read, or one of a later version."""
    try:
        event_of(value)
    except ValueError:
        return False
    return True


def failure_json(failure: Failure | None) -> Json | None:
    """The `first_failure` object of the result."""
    return None if failure is None else write(failure)


@frozen
class _Head:
    """What every event has."""

    type: str
    at: At


# Those that stand otherwise in JSON than as values.


@frozen
class _Rank:
    """A rank in the `run` event."""

    rank: int
    host: str
    name: Annotated[str, Key(brief=True)] = ""
    lines: Annotated[int, Key(brief=True)] = 0


@frozen
class _Ranks:
    ranks: tuple[_Rank, ...]


def _ranks(event: RunOpened) -> Json:
    names, lines = event.names, event.lines
    ranks = (_Rank(rank, host, names.get(rank, ""), lines.get(rank, 0)) for rank, host in sorted(event.ranks.items()))
    return write(_Ranks(tuple(ranks)))


def _opened(value: Json, tasks: Mapping[int, tuple[int, ...]]) -> RunOpened:
    ranks = read(_Ranks, value).ranks
    return read(
        RunOpened,
        value,
        ranks={r.rank: r.host for r in ranks},
        tasks=tasks or {r.rank: (r.rank,) for r in ranks},
        names={r.rank: r.name for r in ranks if r.name},
        lines={r.rank: r.lines for r in ranks if r.lines},
    )


def _figure(value: float | str) -> float | str:
    """JSON knows no NaN and no infinity: these stand as words."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


def _said(value: float | str) -> float | str:
    return float(value) if not isinstance(value, str) or value in ("nan", "inf", "-inf") else value


@frozen
class _Progress:
    """Rank, figures and words together, speed."""

    rank: int
    host: str
    values: Mapping[str, Annotated[float | str, Form(_figure, _said, float | str)]]
    seconds_per_step: float | None = None


def progress_json(progress: Progressed | None) -> Json | None:
    """The `progress` object of a result."""
    if progress is None:
        return None
    said: dict[str, float | str] = {**progress.values, **progress.words}
    return write(_Progress(progress.rank, progress.host, said, progress.seconds_per_step))


def progress_of(at: float, value: object) -> Progressed | None:
    """The `progress` object of an event or a result as a value; None for none. Raises ValueError."""
    if not value:
        return None
    made = read(_Progress, value)
    numbers = {name: said for name, said in made.values.items() if isinstance(said, float)}
    words = {name: said for name, said in made.values.items() if isinstance(said, str)}
    return Progressed(at, made.rank, made.host, numbers, words, made.seconds_per_step)


@frozen
class _Sample:
    """The usual figures of a host; those of a GPU are use, memory, temperature and power."""

    host: str
    gpus: tuple[tuple[float | None, int | None, float | None, float | None], ...]
    indices: tuple[int, ...] = ()
    net: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ecc: tuple[int | None, ...] = ()
    """Memory errors that ECC could not correct; left out where no GPU counts them."""
    memory_mib: Annotated[tuple[int | None, ...], Key(brief=True)] = ()
    """How much memory the GPUs have."""
    cpu_pct: Annotated[float | None, Key(brief=True)] = None
    memory_total_mib: Annotated[int | None, Key(brief=True)] = None
    memory_available_mib: Annotated[int | None, Key(brief=True)] = None


def _sample(event: HostSampled) -> Json:
    gpus = ((g.utilization_pct, g.memory_used_mib, g.temperature_c, g.power_w) for g in event.gpus)
    ecc = tuple(g.ecc for g in event.gpus)
    totals = tuple(g.memory_total_mib for g in event.gpus)
    cpu = None if event.cpu_pct is None else round(event.cpu_pct, 1)
    row = write(
        _Sample(
            event.host,
            tuple(gpus),
            tuple(g.index for g in event.gpus),
            event.net,
            ecc,
            totals if any(totals) else (),
            cpu,
            event.memory_total_mib,
            event.memory_available_mib,
        )
    )
    return row if any(count is not None for count in ecc) else {k: v for k, v in row.items() if k != "ecc"}


def _sampled(at: float, made: _Sample) -> HostSampled:
    indices = made.indices or range(len(made.gpus))
    unknown = (None,) * len(made.gpus)
    of_each = zip(indices, made.gpus, made.ecc or unknown, made.memory_mib or unknown, strict=False)
    readings = (
        GpuReading(
            index,
            utilization_pct=use,
            memory_used_mib=used,
            memory_total_mib=total,
            temperature_c=temperature,
            power_w=power,
            ecc=ecc,
        )
        for index, (use, used, temperature, power), ecc, total in of_each
    )
    return HostSampled(
        at,
        made.host,
        tuple(readings),
        made.net,
        cpu_pct=made.cpu_pct,
        memory_total_mib=made.memory_total_mib,
        memory_available_mib=made.memory_available_mib,
    )


def _line(event: LogLines, line: LogLine) -> Json:
    where = {"rank": event.rank, "task": event.task, "host": event.host}
    return {**where, "stream": line.stream, "at": line.stamp or None, "line": line.text}
