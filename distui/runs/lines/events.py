"""What happened in a run: a closed union of frozen events, and their JSON.

Everything a person sees is folded from these (`state.apply`). `at` is UTC in seconds since the epoch, from the
controller's clock; times of a host's clock are named so. Adding an event makes mypy name every place to touch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Literal

from distui.fits import Figure
from distui.frozen import frozen
from distui.plan.labels import format_ranks
from distui.runs.lines.explanation import Explanation, explanation_json

RankPhase = Literal[
    "waiting", "starting", "running", "exited", "oom", "killed", "never_started", "removed", "lost", "stopped"
]
"""`lost` means the host can't be reached and the rank may live; `stopped` means distui stopped it."""

RunOutcome = Literal["succeeded", "failed", "stopped", "unknown", "launch_failed", "detached"]

StopReason = Literal["user", "failure", "timeout", "launch_failed", "done", "max_duration", "lost"]
"""`done`: the tasks whose end is the run's have ended, and what still lives would not end by itself."""


@frozen
class RunOpened:
    """A plan is about to be started, or a live run was found and is followed again (`adopted`)."""

    at: float
    run: str
    job: str
    launcher: str
    image: str | None
    ranks: Mapping[int, str]
    """Rank -> host."""
    tasks: Mapping[int, tuple[int, ...]]
    """Task index -> its ranks."""
    attempt: int = 1
    adopted: bool = False
    log_dir: str = ""
    attempts: int = 1
    names: Mapping[int, str] = field(default_factory=dict)
    """Ranks that are more than a number: `worker/1`."""
    began: float | None = None
    """When the run began, where that was before this event."""
    lines: Mapping[int, int] = field(default_factory=dict)
    """Rank -> how many lines of its log were read before."""


@frozen
class PhaseBegun:
    """The run entered a phase; `detail` is one line in words."""

    at: float
    phase: Literal["connect", "check", "image", "data", "code", "push", "start", "follow", "stop", "drain", "cleanup"]
    detail: str = ""


@frozen
class HostChanged:
    """A host's connection changed: `up`, `lost` (its ranks may live) or `back`."""

    at: float
    host: str
    state: Literal["up", "lost", "back"]
    reason: str = ""


@frozen
class TaskStarted:
    """A container or process was started; `id` is the engine's own id."""

    at: float
    task: int
    host: str
    id: str


@frozen
class RankChanged:
    """A rank changed its state. `words` explains an end: `exit 3`, `killed by SIGSEGV (segmentation fault)`."""

    at: float
    rank: int
    host: str
    state: RankPhase
    exit: int | None = None
    oom: bool = False
    words: str = ""
    relation: str = ""
    """To the first failure, once that is judged (`verdict/outcome.py`): `first`, `alike`, `followed`, `stopped` ..."""
    of: str = ""
    """The rank that it followed, or failed like."""
    ended_at: float | None = None
    """When it failed by its own first words, else when it ended; on our clock."""


@frozen
class LogLine:
    """One line without its newline. `stamp` is the engine's own (RFC 3339, host clock), empty for processes."""

    stream: Literal["stdout", "stderr"]
    text: str
    stamp: str = ""


@frozen
class LogLines:
    """Lines of one rank, in order, already written to its log file. Rank None: torchrun's own words on that node."""

    at: float
    task: int
    rank: int | None
    host: str
    lines: Sequence[LogLine]


@frozen
class GpuReading:
    """One GPU at one moment; None is unknown, never 0."""

    index: int
    utilization_pct: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_mhz: int | None = None
    """Clock of the multiprocessors."""
    pcie_rx: float | None = None
    pcie_tx: float | None = None
    """Bytes per second that the GPU receives and sends over PCIe."""
    ecc: int | None = None
    """Memory errors since the driver was loaded that ECC could not correct."""
    throttle: int | None = None
    """Why its clocks are held down: the driver's bits (`distui.facts.throttle`)."""
    slowdown_c: float | None = None
    """The temperature at which the driver begins to slow it down."""
    xid: int | None = None
    """The newest XID the kernel's log has of it since the boot; None also where the log may not be read."""
    xid_at: float | None = None
    """When that was."""


@frozen
class HostSampled:
    """GPUs and network of a host, once a second while the run lives. Rates are bytes per second."""

    at: float
    host: str
    gpus: tuple[GpuReading, ...] = ()
    net: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Interface -> (received, sent) bytes per second."""
    disk_free: int | None = None
    cpu_pct: float | None = None
    load: float | None = None
    """Load average of the last minute."""
    memory_total_mib: int | None = None
    memory_available_mib: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    """Interface or `hca:port` -> errors counted since the boot."""


@frozen
class Progressed:
    """What the first rank said of its progress last, by the job's own pattern; once a second at most."""

    at: float
    rank: int
    host: str
    values: Mapping[str, float | Figure]
    """Named groups that are numbers: `step`, `loss`."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Named groups that are none."""
    seconds_per_step: float | None = None


@frozen
class RankSilent:
    """A rank said nothing for `stall_after` and its GPUs do nothing (`quiet`), or it speaks or works again.

    `seconds` is how long it had been silent, `util` what its GPUs do in percent, None when nobody knows.
    """

    at: float
    rank: int
    host: str
    quiet: bool
    seconds: float
    util: float | None = None


@frozen
class RanksAsked:
    """Ranks were asked where they are, and what that means is news: who holds the others up, or that they go on."""

    at: float
    found: Explanation


@frozen
class Failure:
    """The failure that explains the run: who failed first, how, why in words, and its last lines."""

    rank: int | None
    host: str
    exit: int | None
    words: str
    cause: str = ""
    hint: str = ""
    excerpt: tuple[str, ...] = ()
    at: float | None = None
    """When it ended, in our clock (the host's time minus its clock offset)."""
    name: str = ""
    """What the rank is called, where it is more than a number: `worker/1`."""
    alike: tuple[int, ...] = ()
    """Other ranks that failed in the same way at about the same time."""
    within: float | None = None
    """Seconds between the first and the last of those that failed alike."""
    unsure: str = ""
    """Why it is not sure that this one was first, in words."""

    @property
    def who(self) -> str:
        """`rank 13`, `worker/1`; `the run` where no one of its ranks is to blame; empty when it was a launcher."""
        return rank_words(self.rank, self.name) if self.rank is not None else self.name

    @property
    def together(self) -> str:
        """`ranks 0 and 1 failed alike within 0.1 s`; empty when nobody else failed like it."""
        if self.rank is None or not self.alike:
            return ""
        ranks = sorted((self.rank, *self.alike))
        named = f"{ranks[0]} and {ranks[1]}" if len(ranks) == 2 else format_ranks(ranks)
        within = f" within {max(1, math.ceil(self.within * 10)) / 10:g} s" if self.within is not None else ""
        return f"ranks {named} failed alike{within}"

    @property
    def is_of_all(self) -> bool:
        """Whether the run failed as a whole, and no rank or launcher before the others."""
        return self.rank is None and bool(self.name)

    @property
    def where(self) -> str:
        """`rank 13 on node02`, `the run`; the host when it was a launcher."""
        return " on ".join(part for part in (self.who, self.host) if part)


@frozen
class FailureFound:
    """The first failure was named. A later one may replace it while other hosts' exits come in."""

    at: float
    failure: Failure


@frozen
class StopAsked:
    """Ranks are being stopped: SIGTERM and `grace` seconds, or SIGKILL at once when `grace` is 0."""

    at: float
    reason: StopReason
    grace: float


@frozen
class Notice:
    """Something worth saying that changes no state."""

    at: float
    level: Literal["info", "warning", "error"]
    text: str
    host: str | None = None


@frozen
class RanksRestarted:
    """A rank failed, and torchrun starts the ranks again by itself, for the `count`th of `allowed` times on that node.

    With c10d all nodes start theirs again, and RANK may be another one afterwards.
    """

    at: float
    task: int
    rank: int
    host: str
    exit: int
    count: int
    allowed: int


@frozen
class AttemptEnded:
    """An attempt failed and was cleaned up; the next begins in `pause` seconds, with a RunOpened of its own.

    `log_dir` is where the attempt's logs are kept from then on.
    """

    at: float
    attempt: int
    attempts: int
    failure: Failure | None
    pause: float
    log_dir: str = ""


@frozen
class RunEnded:
    """The last event of a run. `leftovers` names what may still be on a host (normally empty)."""

    at: float
    outcome: RunOutcome
    exit: int
    failure: Failure | None = None
    log_dir: str = ""
    leftovers: tuple[str, ...] = ()
    took: float = 0.0
    progress: Progressed | None = None
    """The last progress it told."""
    attempt: int = 1
    attempts: int = 1
    warnings: tuple[str, ...] = ()
    """What belongs to the verdict but does not change it, in words."""


Event = (
    RunOpened
    | PhaseBegun
    | HostChanged
    | TaskStarted
    | RankChanged
    | LogLines
    | HostSampled
    | Progressed
    | RankSilent
    | RanksAsked
    | FailureFound
    | StopAsked
    | Notice
    | RanksRestarted
    | AttemptEnded
    | RunEnded
)


def rank_words(rank: int, name: str = "") -> str:
    """`rank 13`, or the rank's own name."""
    return name or f"rank {rank}"


def iso(at: float) -> str:
    """UTC in RFC 3339 with milliseconds, as in the NDJSON stream."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Plain = PhaseBegun | HostChanged | TaskStarted | StopAsked | Notice | RanksRestarted
"""Events that are stored as they are."""

PLAIN: Mapping[str, tuple[type[Plain], tuple[str, ...]]] = {
    "phase": (PhaseBegun, ("phase", "detail")),
    "host": (HostChanged, ("host", "state", "reason")),
    "task": (TaskStarted, ("task", "host", "id")),
    "stop": (StopAsked, ("reason", "grace")),
    "notice": (Notice, ("level", "host", "text")),
    "restart": (RanksRestarted, ("rank", "task", "host", "exit", "count", "allowed")),
}
"""Their names in JSON; their fields in the order of the keys."""
_TYPES = {cls: (name, fields) for name, (cls, fields) in PLAIN.items()}


def to_json(event: Event, run: str) -> tuple[dict[str, Any], ...]:
    """The NDJSON objects of one event (a batch of log lines gives one object a line). Additive changes only."""
    base = {"v": 1, "ts": iso(event.at), "run": run}
    match event:
        case RunOpened():
            return (base | _opened(event),)
        case PhaseBegun() | HostChanged() | TaskStarted() | StopAsked() | Notice() | RanksRestarted():
            name, fields = _TYPES[type(event)]
            return (base | {"type": name} | {field: getattr(event, field) for field in fields},)
        case RankChanged():
            return (
                base
                | {"type": "rank", "rank": event.rank, "host": event.host, "state": event.state}
                | {"exit": event.exit, "oom": event.oom, "words": event.words, "relation": event.relation}
                | {"of": event.of, "ended_at": iso(event.ended_at) if event.ended_at is not None else None},
            )
        case LogLines():
            return tuple(base | _line(event, line) for line in event.lines)
        case HostSampled():
            return (base | _sample(event),)
        case Progressed():
            return (base | {"type": "progress"} | progress_json(event),)
        case RankSilent():
            return (
                base
                | {"type": "silence", "rank": event.rank, "host": event.host, "quiet": event.quiet}
                | {"seconds": round(event.seconds, 1), "util": event.util},
            )
        case RanksAsked():
            return (base | {"type": "why"} | explanation_json(event.found.shortened()),)
        case FailureFound():
            return (base | {"type": "failure", "first_failure": failure_json(event.failure)},)
        case AttemptEnded():
            return (
                base
                | {"type": "attempt", "attempt": event.attempt, "attempts": event.attempts, "pause_s": event.pause}
                | {"first_failure": failure_json(event.failure), "log_dir": event.log_dir},
            )
        case RunEnded():
            return (base | _result(event),)


def _opened(event: RunOpened) -> dict[str, Any]:
    named = {r: {"name": name} for r, name in event.names.items()}
    lines = {r: {"lines": count} for r, count in event.lines.items() if count}
    ranks = [{"rank": r, "host": h, **named.get(r, {}), **lines.get(r, {})} for r, h in sorted(event.ranks.items())]
    return {
        "type": "run",
        "job": event.job,
        "launcher": event.launcher,
        "image": event.image,
        "attempt": event.attempt,
        "attempts": event.attempts,
        "adopted": event.adopted,
        "ranks": ranks,
        "log_dir": event.log_dir,
        **({"started": iso(event.began)} if event.began is not None else {}),
    }


def failure_json(failure: Failure | None) -> dict[str, Any] | None:
    """The `first_failure` object of the result."""
    if failure is None:
        return None
    return {
        "rank": failure.rank,
        "host": failure.host,
        "exit": failure.exit,
        "words": failure.words,
        "cause": failure.cause,
        "hint": failure.hint,
        "at": iso(failure.at) if failure.at is not None else None,
        "excerpt": list(failure.excerpt),
        "alike": list(failure.alike),
        "within_s": round(failure.within, 3) if failure.within is not None else None,
        "uncertain": failure.unsure,
        **({"name": failure.name} if failure.name else {}),
    }


def progress_json(progress: Progressed) -> dict[str, Any]:
    """Rank, figures and speed. JSON knows no NaN and no infinity: these stand as words."""
    return {
        "rank": progress.rank,
        "host": progress.host,
        "values": {k: v if math.isfinite(v) else str(v) for k, v in progress.values.items()} | dict(progress.words),
        "seconds_per_step": progress.seconds_per_step,
    }


def _line(event: LogLines, line: LogLine) -> dict[str, Any]:
    return {
        "type": "log",
        "rank": event.rank,
        "task": event.task,
        "host": event.host,
        "stream": line.stream,
        "at": line.stamp or None,
        "line": line.text,
    }


def _sample(event: HostSampled) -> dict[str, Any]:
    gpus = [[g.utilization_pct, g.memory_used_mib, g.temperature_c, g.power_w] for g in event.gpus]
    net = {name: list(rates) for name, rates in event.net.items()}
    indices = [g.index for g in event.gpus]
    return {"type": "gpu", "host": event.host, "gpus": gpus, "indices": indices, "net": net}


def _result(event: RunEnded) -> dict[str, Any]:
    return {
        "type": "result",
        "state": event.outcome,
        "exit": event.exit,
        "first_failure": failure_json(event.failure),
        "log_dir": event.log_dir or None,
        "leftovers": list(event.leftovers),
        "warnings": list(event.warnings),
        "took_s": round(event.took, 3),
        "progress": progress_json(event.progress) if event.progress is not None else None,
        "attempt": event.attempt,
        "attempts": event.attempts,
    }
