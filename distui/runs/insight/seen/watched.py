"""What a host tells of its ranks after it has watched them for some seconds, as values. Nothing here raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from distui.facts.values import as_object, as_objects
from distui.frozen import frozen
from distui.runs.insight.seen.answers import (
    HostAnswer,
    Stack,
    host_answer,
    number_of,
    rows_of,
    stack_of,
    text_of,
    whole_of,
)

MOST_STATES, MOST_CONNECTIONS, MOST_SAMPLES, MOST_GPUS = 64, 256, 80, 64


@frozen
class Sample:
    """A process at one moment: its main thread's state (the kernel's letter), where in the kernel it waits, stacks."""

    state: str
    waits: str
    stacks: tuple[Stack, ...]


@frozen
class Figures:
    """What the kernel counted of one process."""

    seconds: float
    """How long it was watched."""
    states: Mapping[str, int]
    """`R`, `S hrtimer_nanosleep` -> in how many looks its main thread was in it."""
    delayed: float | None = None
    """Seconds in which its main thread could have run and got no core; None where nobody knows."""
    held: float | None = None
    """Seconds in which the CPU limit of its container held its threads back."""
    turns: float | None = None
    """How often its main thread was given a core; None where nobody knows."""
    samples: tuple[Sample, ...] = ()


@frozen
class Connection:
    """A TCP connection of a host: what it sent while it was watched."""

    own: str
    peer: str
    sent: int
    """Bytes."""
    segments: int
    again: int
    """Segments that were sent again, since they were lost."""
    trip_ms: float
    """Its round trip."""
    queued: int
    """Bytes that wait to be sent, or to be confirmed."""
    busy_ms: float = 0.0
    """How long it had something to send that the other end had room for; 0 where nobody knows."""
    rate: float = 0.0
    """Bytes a second, as the kernel measured last how fast they got there; 0 likewise."""


@frozen
class Watched:
    """What one host tells; `answer` is what it would tell at one look."""

    answer: HostAnswer
    seconds: float = 0.0
    figures: Mapping[int, Figures] = field(default_factory=dict)
    """By process."""
    connections: tuple[Connection, ...] = ()
    segments: int = 0
    again: int = 0
    """Segments that all connections of the host sent, and sent again."""
    gpus: tuple[Mapping[str, str], ...] = ()
    """Each GPU by nvidia-smi's names of its fields."""


def watched(host: str, value: object) -> Watched:
    """A host's answer from its JSON."""
    said = as_object(value)
    found = {
        pid: figures
        for task in as_objects(said.get("tasks"))
        for one in as_objects(task.get("processes"))
        if (pid := whole_of(one.get("pid"))) is not None and (figures := _figures(one)) is not None
    }
    connections = [one for row in rows_of(said.get("connections"), 9) if (one := _connection(row)) is not None]
    return Watched(
        answer=host_answer(host, value),
        seconds=_above_zero(said.get("seconds")),
        figures=found,
        connections=tuple(connections[:MOST_CONNECTIONS]),
        segments=int(_above_zero(said.get("segments"))),
        again=int(_above_zero(said.get("again"))),
        gpus=tuple(gpu_cells(as_object(said.get("gpus")))),
    )


def _figures(said: Mapping[str, object]) -> Figures | None:
    seconds = number_of(said.get("seconds"))
    if seconds is None or seconds <= 0:
        return None
    states = {text_of(name): count for name, value in as_object(said.get("states")).items() if (count := _count(value))}
    samples = tuple(
        Sample(text_of(state)[:1], text_of(waits), tuple(stack_of(row) for row in rows_of(stacks, 3)))
        for state, waits, stacks in rows_of(said.get("samples"), 3)[:MOST_SAMPLES]
    )
    delayed, held = number_of(said.get("delayed")), number_of(said.get("held"))
    turns = number_of(said.get("turns"))
    return Figures(seconds, dict(list(states.items())[:MOST_STATES]), delayed, held, turns, samples)


def _count(value: object) -> int:
    return max(0, whole_of(value) or 0)


def _connection(row: Sequence[object]) -> Connection | None:
    own, peer = text_of(row[0]), text_of(row[1])
    sent, segments, again, queued = (int(_above_zero(row[at])) for at in (2, 3, 4, 6))
    trip, busy, rate = (_above_zero(row[at]) for at in (5, 7, 8))
    return Connection(own, peer, sent, segments, again, trip, queued, busy, rate) if own and peer else None


def gpu_cells(said: Mapping[str, object]) -> Iterable[dict[str, str]]:
    """Each GPU by nvidia-smi's names of its fields, of what a host says of its GPUs."""
    fields, rows = said.get("fields"), said.get("rows")
    if not isinstance(fields, list) or not isinstance(rows, list):
        return
    for row in rows[:MOST_GPUS]:
        cells = [cell.strip() for cell in text_of(row).split(",")]
        if len(cells) == len(fields):
            yield {text_of(name): cell for name, cell in zip(fields, cells, strict=True)}


def _above_zero(value: object) -> float:
    return max(0.0, number_of(value) or 0.0)
