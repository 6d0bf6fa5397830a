"""What a host answers about the processes of a run's tasks, as values.

It comes from programs that may say whatever they like: what is no such answer is left out, and nothing here raises.
Moments are nanoseconds of the host's own clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distui.facts.values import as_object, as_objects
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.lines.text import safe

MOST_TEXT = 300
"""Characters of any text of an answer."""

MOST_RANKS = 1 << 12
"""Of a program, as torch counts; more than that is no answer."""

MOST_NETWORKS, MOST_ADDRESSES, MOST_SAMPLES = 16, 64, 2
"""Networks of a host, and RAS threads that answer in one; its addresses; answers of one."""
MOST_SOCKETS = 128

PAUSED = "F"
"""The state of a process that is frozen with its container; no letter of the kernel's (`agent/ranks/processes.py`)."""
NO_STACKS = "stacks: "
"""What a reason begins with for which a process did not tell its stacks."""

_RANKS = regex(r"\d{1,7}")


@dataclass(frozen=True, slots=True, order=True)
class Collective:
    """One collective that a process began in one of its groups; or a send or a receive, or a batch of those."""

    number: int
    name: str
    """Such as `gloo:all_reduce`, `nccl:recv 0<-1`, `nccl:send 0->1, recv 0<-1`."""
    sizes: str
    kinds: str
    began_ns: int
    over: bool

    @property
    def what(self) -> str:
        """Its operation without the backend."""
        return self.name.rpartition(":")[2]


@frozen
class Group:
    """How far a process is in one process group."""

    name: str
    about: str
    recent: tuple[Collective, ...]
    """The newest, oldest first."""
    enqueued: int
    """The number of the newest collective that was begun."""
    ranks: tuple[int, ...] = ()
    """Its members, where torch tells."""
    direct: tuple[Collective, ...] = ()
    """Its newest sends and receives, oldest first: each rank counts its own, apart from its collectives."""
    mixed: bool = False
    """Whether batches of those took numbers of its collectives, which are no other rank's then; or its process uses
    several groups of this name at a time."""
    ended_ns: int = 0
    """When torch last noticed that one of its collectives was over; 0 where it does not tell, as for gloo."""
    times: int = 0
    """How many groups of its name its process is known to have had before, which it has destroyed."""
    before_ns: int = 0
    """When it last began something in those; 0 where there was none."""
    lost: bool = False
    """Whether there may have been more of them: torch's recorder keeps its newest entries only."""

    @property
    def pending(self) -> Collective | None:
        """The oldest collective that has begun and is not over."""
        return next((one for one in self.recent if not one.over), None)


@frozen
class Frame:
    """One call of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@frozen
class Stack:
    """A Python thread's calls, innermost first. `asked`: it got the signal, as the main one mostly does."""

    thread: str
    asked: bool
    frames: tuple[Frame, ...]


@frozen
class Thread:
    """A thread as the kernel sees it. `waits`: where in the kernel, empty where not known; `cpu`: cores used."""

    name: str
    state: str
    waits: str
    cpu: float


@frozen
class Process:
    """One process of a task. What is None is not known."""

    pid: int
    parent: int
    name: str
    state: str
    """The kernel's letter: R running, S waiting, D waiting for a disk, T stopped by a signal, Z ended; or PAUSED."""
    cpu: float
    """Cores used just now."""
    read: int | None = None
    """Bytes read while it was looked at."""
    written: int | None = None
    busy_with: tuple[str, str] | None = None
    """What its main thread does with which file: `("reading", "/data/x")`."""
    threads: tuple[Thread, ...] = ()
    rank: int | None = None
    """What its environment says its rank is."""
    local_rank: int | None = None
    """What that says its place among the ranks of its host is."""
    torch_rank: int | None = None
    """Its rank in the default group, as torch counts; None before that group is made, or where the hook can't tell."""
    world: int | None = None
    """How many ranks the default group has; None likewise."""
    torch: str = ""
    """The version it runs; empty where it does not use torch.distributed, or nothing could be asked."""
    uses: str = ""
    """What it uses that tells no collectives: `JAX`; empty where it uses torch.distributed."""
    groups: Mapping[str, Group] | None = None
    """Where it is in its collectives; None where that can't be asked."""
    left: Mapping[str, Group] = field(default_factory=dict)
    """Where it was in groups that others have made again since: it has begun nothing in the new ones. See `one_group`.
    """
    unclear: Mapping[str, Group] = field(default_factory=dict)
    """Where that may be so, and nobody knows."""
    stacks: tuple[Stack, ...] = ()
    unasked: tuple[str, ...] = ()
    """What it did not answer, in words."""
    late: bool = False
    """Whether its stacks did not come, or not all of them, for want of time: asked again it may tell them."""
    inner: int = 0
    """The number that it has itself, in its container."""


@frozen
class Network:
    """A network that tasks of a run are in: a host's, or a container's."""

    tasks: tuple[int, ...]
    addresses: tuple[str, ...]
    ras: tuple[tuple[tuple[float, str], ...], ...]
    """What each of NCCL's RAS threads answered that was asked in it: when, by the host's clock, and what."""


@frozen
class Socket:
    """A TCP connection of a rank's process, looked at twice."""

    pid: int
    """Whose it is; 0 where that can't be seen."""
    own: str
    peer: str
    """Addresses with their ports."""
    before: int
    queued: int
    """Bytes that waited to be sent or to be confirmed, at both looks."""
    unread: int
    """Bytes that came and were not read."""
    tries: int
    """How often what waits was sent again, or room was asked for, without any answer yet."""
    full: bool
    """Whether the other end has no room for more: nobody reads there."""
    segments: int | None = None
    again: int | None = None
    """Segments sent since it was opened, and sent again; None where nobody counts."""


@frozen
class HostAnswer:
    """What one host says of a run's tasks on it."""

    host: str
    tasks: Mapping[int, tuple[Process, ...]] = field(default_factory=dict)
    pressure: Mapping[str, float] = field(default_factory=dict)
    """`cpu`, `io`, `memory` -> share of the last 10 s in percent in which something waited for it."""
    networks: tuple[Network, ...] = ()
    at: float = 0.0
    """The host's clock when it was asked, in seconds."""
    ahead: float = 0.0
    """How far its clock is ahead of ours, in seconds."""
    doubt: float = 0.0
    """By how much `ahead` may be wrong, in seconds."""
    why_not: str = ""
    """Why there is no answer, in words."""
    late: bool = False
    """Whether it, or its engine, did not answer: asked again it may."""
    engine: str = ""
    """Why its engine answered nothing, as "did not answer in time"."""
    gpus: Mapping[str, object] = field(default_factory=dict)
    """What its driver and the kernel's log say of its GPUs, as it came: see `sick`."""
    connections: tuple[Socket, ...] = ()
    """Those of the ranks' processes; asked for only where something stands still."""


def host_answer(host: str, value: object) -> HostAnswer:
    """A host's answer from its JSON."""
    said = as_object(value)
    tasks = {
        number: tuple(_process(one) for one in as_objects(task.get("processes")))
        for task in as_objects(said.get("tasks"))
        if (number := whole_of(task.get("task"))) is not None
    }
    shares = as_object(said.get("pressure"))
    pressure = {name: share for name in ("cpu", "io", "memory") if (share := number_of(shares.get(name))) is not None}
    networks = tuple(_network(one) for one in as_objects(said.get("networks"))[:MOST_NETWORKS])
    at, gpus = number_of(said.get("at")) or 0.0, as_object(said.get("gpus"))
    sockets = tuple(_socket(row) for row in rows_of(said.get("connections"), 10)[:MOST_SOCKETS])
    late = said.get("late") is True
    engine = text_of(said.get("engine"))
    return HostAnswer(host, tasks, pressure, networks, at, late=late, engine=engine, gpus=gpus, connections=sockets)


def _socket(row: Sequence[Any]) -> Socket:
    pid, before, queued, unread, tries = (max(0, whole_of(row[at]) or 0) for at in (0, 3, 4, 5, 6))
    own, peer = text_of(row[1]), text_of(row[2])
    return Socket(pid, own, peer, before, queued, unread, tries, row[7] is True, whole_of(row[8]), whole_of(row[9]))


def _network(said: Mapping[str, object]) -> Network:
    tasks, answers = said.get("tasks"), said.get("ras")
    return Network(
        tuple(one for one in tasks if whole_of(one) is not None) if isinstance(tasks, list) else (),
        tuple(_texts(said.get("addresses")))[:MOST_ADDRESSES],
        tuple(_sampled(one) for one in answers[:MOST_NETWORKS]) if isinstance(answers, list) else (),
    )


def _sampled(said: object) -> tuple[tuple[float, str], ...]:
    """What one of NCCL's RAS threads answered, each time that it was asked."""
    rows = [(number_of(at), text) for at, text in rows_of(said, 2)[:MOST_SAMPLES]]
    return tuple((at, text) for at, text in rows if at is not None and isinstance(text, str))


def _process(said: Mapping[str, object]) -> Process:
    hook, recorder, stacks = (as_object(said.get(name)) for name in ("hook", "recorder", "stacks"))
    groups = {text_of(name): _group(name, one) for name, one in as_object(recorder.get("groups")).items()}
    busy = _texts(said.get("busy_with"))
    return Process(
        pid=whole_of(said.get("pid")) or 0,
        parent=whole_of(said.get("parent")) or 0,
        name=text_of(said.get("name")),
        state=text_of(said.get("state"))[:1],
        cpu=max(0.0, number_of(said.get("cpu")) or 0.0),
        read=whole_of(said.get("read")),
        written=whole_of(said.get("written")),
        busy_with=(busy[0], busy[1]) if len(busy) == 2 else None,
        threads=tuple(_thread(row) for row in rows_of(said.get("threads"), 5)),
        rank=_rank(hook.get("rank")),
        local_rank=_rank(hook.get("local_rank")),
        torch_rank=_count(hook.get("torch_rank")),
        world=_count(hook.get("torch_world")) or _world(groups),
        torch=text_of(hook.get("torch")),
        uses=text_of(hook.get("uses")),
        groups=groups if "groups" in recorder else None,
        stacks=tuple(stack_of(row) for row in rows_of(stacks.get("threads"), 3)),
        unasked=tuple(
            f"{what}{text_of(one['why'])}"
            for what, one in (("collectives: ", recorder), (NO_STACKS, stacks))
            if one.get("why")
        ),
        late=stacks.get("late") is True,
        inner=whole_of(said.get("inner")) or 0,
    )


def _group(name: str, value: object) -> Group:
    said = as_object(value)
    recent = tuple(sorted(_collectives(said.get("recent"))))
    direct = tuple(sorted(_collectives(said.get("direct")), key=lambda one: one.began_ns))
    enqueued = whole_of(said.get("enqueued"))
    if enqueued is None:
        enqueued = max((one.number for one in recent), default=0)
    ranks = tuple(sorted({int(word) for word in _RANKS.findall(text_of(said.get("ranks"), 4096))}))
    mixed, ended = said.get("mixed") is True, _whole_ns(said.get("ended")) or 0
    return Group(
        text_of(name), text_of(said.get("about")), recent, enqueued, ranks, direct, mixed, ended,
        times=max(0, whole_of(said.get("times")) or 0), before_ns=_whole_ns(said.get("before")) or 0,
        lost=said.get("lost") is True,
    )  # fmt: skip


def _collectives(value: object) -> Iterator[Collective]:
    return (one for row in rows_of(value, 6) if (one := _collective(row)) is not None)


def _collective(row: Sequence[Any]) -> Collective | None:
    number, began = whole_of(row[0]), _whole_ns(row[4])
    if number is None or began is None:
        return None
    return Collective(number, text_of(row[1]), text_of(row[2]), text_of(row[3]), began, row[5] is True)


def _thread(row: Sequence[Any]) -> Thread:
    return Thread(text_of(row[1]), text_of(row[2])[:1], text_of(row[3]), max(0.0, number_of(row[4]) or 0.0))


def stack_of(row: Sequence[Any]) -> Stack:
    """A thread's row of faulthandler's text."""
    frames = [Frame(text_of(f), whole_of(line) or 0, text_of(function)) for f, line, function in rows_of(row[2], 3)]
    return Stack(text_of(row[0]), row[1] is True, tuple(frames))


def rows_of(value: object, width: int) -> list[list[Any]]:
    """The lists of a list that have so many members."""
    return [row for row in value if isinstance(row, list) and len(row) == width] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [text_of(one) for one in value] if isinstance(value, list) else []


def text_of(value: object, most: int = MOST_TEXT) -> str:
    """Text that is short and safe to show; empty for anything else."""
    return safe(value)[:most] if isinstance(value, str) else ""


def number_of(value: object) -> float | None:
    """A number that one can count with; None for anything else."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if fits else None  # type: ignore[arg-type]


def whole_of(value: object) -> int | None:
    """A whole number likewise."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else None


def _whole_ns(value: object) -> int | None:
    """Nanoseconds since 1970 have more digits than JSON's readers elsewhere keep; ours keeps them."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _count(value: object) -> int | None:
    number = whole_of(value)
    return number if number is not None and 0 <= number <= MOST_RANKS else None


def _world(groups: Mapping[str, Group]) -> int | None:
    """How many ranks the default group has, by the recorder: what there is of a torch whose hook can't tell."""
    return next((len(group.ranks) or None for group in groups.values() if group.about == "default_pg"), None)


def _rank(value: object) -> int | None:
    return int(value) if isinstance(value, str) and _RANKS.fullmatch(value) else None
