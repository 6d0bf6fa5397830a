"""What happened in a run: a closed union of frozen events. Their JSON: `event_json.py`.

Everything a person sees is folded from these (`state.apply`). `at` is UTC in seconds since the epoch, from the
controller's clock; times of a host's clock are named so. Adding an event makes mypy name every place to touch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Annotated, Literal

from distui.codec import Form, Key
from distui.frozen import frozen
from distui.plan.labels import format_ranks, named_ranks
from distui.runs.lines.explanation import Explanation
from distui.spec.hosts.names import fold
from distui.whole import FIRST, LAST

RankPhase = Literal[
    "waiting", "starting", "running", "exited", "oom", "killed", "never_started", "removed", "lost", "stopped"
]
"""`lost` means the host can't be reached and the rank may live; `stopped` means distui stopped it."""

RunOutcome = Literal["succeeded", "failed", "stopped", "unknown", "launch_failed", "detached"]

StopReason = Literal["user", "failure", "timeout", "launch_failed", "done", "max_duration", "lost", "hang"]
"""`done`: the tasks whose end is the run's have ended, and what still lives would not end by itself."""


Level = Literal["info", "warning", "error"]
"""How much words matter that change no state."""


def iso(at: float) -> str:
    """UTC in RFC 3339 with milliseconds, as in the NDJSON stream.

    Hosts' times are of the years 1 to 9999, but may leave them when they are corrected by a clock that is far off: the
    first or the last second that can be said stands for those.
    """
    when = datetime.fromtimestamp(min(max(FIRST, at), LAST), UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(stamp: str) -> float:
    """The reverse of `iso`. Raises ValueError or OverflowError."""
    return datetime.fromisoformat(stamp).timestamp()


Moment = Annotated[float, Form(iso, moment)]
At = Annotated[Moment, Key("ts")]
Tenths = Annotated[float, Form(lambda seconds: round(seconds, 1), float, float)]
Thousandths = Annotated[float, Form(lambda seconds: round(seconds, 3), float, float)]
Figure = Annotated[float, Form(lambda value: value if math.isfinite(value) else str(value), float, float | str)]
"""JSON knows no NaN and no infinity: these stand as words."""
Folder = Annotated[str, Form(lambda path: path or None, lambda path: path or "", str | None)]
"""None in JSON where there is none."""


@frozen
class RunOpened:
    """A plan is about to be started, or a live run was found and is followed again (`adopted`)."""

    KEYS = (
        "at", "run", "job", "launcher", "image", "attempt", "attempts", "adopted", "ranks", "log_dir", "began",
    )  # fmt: skip
    at: At
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
    began: Annotated[Moment | None, Key("started", brief=True)] = None
    """When the run began, where that was before this event."""
    lines: Mapping[int, int] = field(default_factory=dict)
    """Rank -> how many lines of its log were read before."""


@frozen
class PhaseBegun:
    """The run entered a phase; `detail` is one line in words."""

    at: At
    phase: Literal["connect", "check", "image", "data", "code", "push", "start", "follow", "stop", "drain", "cleanup"]
    detail: str = ""


@frozen
class HostChanged:
    """A host's connection changed: `up`, `lost` (its ranks may live) or `back`."""

    at: At
    host: str
    state: Literal["up", "lost", "back"]
    reason: str = ""


@frozen
class TaskStarted:
    """A container or process was started; `id` is the engine's own id."""

    at: At
    task: int
    host: str
    id: str


@frozen
class RankChanged:
    """A rank changed its state. `words` explains an end: `exit 3`, `killed by SIGSEGV (segmentation fault)`."""

    at: At
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
    ended_at: Moment | None = None
    """When it failed by its own first words, else when it ended; on our clock."""


@frozen
class LogLine:
    """One line without its newline. `stamp` is the engine's own (RFC 3339, host clock), empty for processes."""

    stream: Literal["stdout", "stderr"]
    text: str
    stamp: str = ""


@frozen
class LogLines:
    """Lines of one rank, in order, already written to its log file. Rank None: torchrun's own words on that node.

    Without lines: it has printed more of a line that has no newline yet, as progress bars do; once a second at most.
    """

    at: At
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
    """Why its clocks are held down: the driver's bits (`distui.facts.gpus.throttle`)."""
    slowdown_c: float | None = None
    """The temperature at which the driver begins to slow it down."""
    xid: int | None = None
    """The newest XID the kernel's log has of it since the boot; None also where the log may not be read."""
    xid_at: float | None = None
    """When that was."""


@frozen
class HostSampled:
    """GPUs and network of a host, once a second while the run lives. Rates are bytes per second."""

    at: At
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
    """What the rank that leads said of its progress last, by the job's own pattern; once a second at most. `at` is when
    its line was said.
    """

    at: At
    rank: int
    host: str
    values: Mapping[str, float]
    """Named groups that are numbers: `step`, `loss`, which may be NaN or infinite."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Named groups that are none."""
    seconds_per_step: float | None = None
    passed: tuple[Mapping[str, float], ...] = field(default=(), compare=False, repr=False)
    """The values of each step that it said since the event before, the oldest first; not part of its JSON."""


@frozen
class RankStep:
    """How far a rank is, by the job's own pattern."""

    rank: int
    step: float
    at: Moment
    """When it said so, on our clock."""
    epoch: Annotated[float | None, Key(brief=True)] = None
    values: Annotated[Mapping[str, Figure], Key(brief=True)] = field(default_factory=dict)
    """What else it said with it that is a number: `loss`, which may be NaN or infinite."""


@frozen
class RanksStepped:
    """Ranks that said another step than before; once a second at most."""

    at: At
    steps: tuple[RankStep, ...]


@frozen
class RunStalled:
    """No step has come for longer than it should take (`stalled`), whatever the GPUs do, or steps come again."""

    at: At
    stalled: bool
    since: Moment
    """When the last step, or where steps are not known the last sign of work, was seen."""
    step: float | None = None
    """The last step; None where that is not known."""


@frozen
class RankSilent:
    """A rank said nothing for `stall_after` and its GPUs do nothing (`quiet`), or it speaks or works again.

    `seconds` is how long it had been silent, `util` what its GPUs do in percent, None when nobody knows.
    """

    at: At
    rank: int
    host: str
    quiet: bool
    seconds: Tenths
    util: float | None = None


@frozen
class RanksMoved:
    """Ranks that have said nothing for long were asked, and go on: each has begun another collective since."""

    at: At
    ranks: tuple[int, ...]
    last: Moment
    """When the first of them to begin its newest one did so, on our clock."""


@frozen
class RanksAsked:
    """Ranks were asked where they are, and what that means is news: who holds the others up, or that they go on."""

    at: At
    found: Explanation


@frozen
class Carried:
    """What an interface of a host received and sent while the run was followed, in bytes."""

    host: str
    interface: str
    """`eth0`, `ib0`; `mlx5_3:1` for an RDMA port without an interface, `lo` for what stayed within the host."""
    received: int
    sent: int
    planned: bool = False
    """Whether the plan chose it for the traffic between ranks."""


@frozen
class NetworkUsed:
    """Which interface carried how much: once ranks have begun to talk to each other, again each time that they have
    done so for twice as long, and at the end of the run.
    """

    at: At
    moment: Literal["begun", "going", "ended"]
    words: str
    """`ib0 98 % of 41 GB, eth0 2 %`."""
    interfaces: tuple[Carried, ...]
    warnings: tuple[str, ...] = ()
    """Traffic that went another way than the plan chose, in words."""


@frozen
class Failure:
    """The failure that explains the run: who failed first, how, why in words, and its last lines."""

    KEYS = (
        "rank", "host", "exit", "words", "cause", "hint", "at", "excerpt", "alike", "within", "unsure", "name",
    )  # fmt: skip
    rank: int | None
    host: str
    exit: int | None
    words: str
    cause: str = ""
    hint: str = ""
    excerpt: tuple[str, ...] = ()
    at: Moment | None = None
    """When it ended, in our clock (the host's time minus its clock offset)."""
    name: Annotated[str, Key(brief=True)] = ""
    """What the rank is called, where it is more than a number: `worker/1`."""
    alike: tuple[int, ...] = ()
    """Other ranks that failed in the same way at about the same time."""
    within: Annotated[Thousandths | None, Key("within_s")] = None
    """Seconds between the first and the last of those that failed alike."""
    unsure: Annotated[str, Key("uncertain")] = ""
    """Why it is not sure that this one was first, in words."""

    @property
    def who(self) -> str:
        """`rank 13`, `worker/1`; `the run` where no one of its ranks is to blame; empty when it was a launcher."""
        return rank_words(self.rank, self.name) if self.rank is not None else self.name

    @property
    def together(self) -> str:
        """`ranks 0 and 1 failed with the same error within 0.1 s`; empty when nobody else failed like it."""
        return self.together_by({})

    def together_by(self, names: Mapping[int, str]) -> str:
        """The same, where ranks have these names: `node[0-1] failed with the same error within 0.1 s`."""
        if self.rank is None or not self.alike:
            return ""
        ranks = sorted((self.rank, *self.alike))
        named = f"ranks {ranks[0]} and {ranks[1]}" if len(ranks) == 2 else f"ranks {format_ranks(ranks)}"
        if names:
            named = ranks_words(ranks, names)
        within = f" within {max(1, math.ceil(self.within * 10)) / 10:g} s" if self.within is not None else ""
        return f"{named} failed with the same error{within}"

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

    at: At
    failure: Annotated[Failure, Key("first_failure")]


@frozen
class StopAsked:
    """Ranks are being stopped: SIGTERM and `grace` seconds, or SIGKILL at once when `grace` is 0."""

    at: At
    reason: StopReason
    grace: float


@frozen
class Notice:
    """Something worth saying that changes no state."""

    KEYS = ("at", "level", "host", "text")
    at: At
    level: Level
    text: str
    host: str | None = None


@frozen
class RanksRestarted:
    """A rank failed, and torchrun starts the ranks again by itself, for the `count`th of `allowed` times on that node.

    With c10d all nodes start theirs again, and RANK may be another one afterwards.
    """

    KEYS = ("at", "rank", "task", "host", "exit", "count", "allowed")
    at: At
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

    KEYS = ("at", "attempt", "attempts", "pause", "failure", "log_dir")
    at: At
    attempt: int
    attempts: int
    failure: Annotated[Failure | None, Key("first_failure")]
    pause: Annotated[float, Key("pause_s")]
    log_dir: str = ""


NOBODY_ANSWERED = "may still be running where nobody answered"
"""Warned of at the end of a run, until all hosts have answered."""


@frozen
class RunEnded:
    """The last event of a run. `leftovers` names what may still be on a host (normally empty)."""

    KEYS = (
        "at", "outcome", "exit", "failure", "log_dir", "leftovers", "warnings", "took", "progress", "attempt",
        "attempts", "network", "restarts",
    )  # fmt: skip
    at: At
    outcome: Annotated[RunOutcome, Key("state")]
    exit: int
    failure: Annotated[Failure | None, Key("first_failure")] = None
    log_dir: Folder = ""
    leftovers: tuple[str, ...] = ()
    took: Annotated[Thousandths, Key("took_s")] = 0.0
    progress: Progressed | None = None
    """The last progress it reported."""
    attempt: int = 1
    attempts: int = 1
    warnings: tuple[str, ...] = ()
    """What belongs to the verdict but does not change it, in words."""
    network: Annotated[str, Key(brief=True)] = ""
    """Which interface carried how much, in words."""
    restarts: Annotated[int, Key(brief=True)] = 0
    """How often torchrun started the ranks of the last attempt again by itself, as far as that was followed."""


Event = (
    RunOpened
    | PhaseBegun
    | HostChanged
    | TaskStarted
    | RankChanged
    | LogLines
    | HostSampled
    | Progressed
    | RanksStepped
    | RunStalled
    | RankSilent
    | RanksMoved
    | RanksAsked
    | NetworkUsed
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


def ranks_words(ranks: Iterable[int], names: Mapping[int, str]) -> str:
    """`ranks 0-2,5`; where all of them have names these: `worker/[0-1]`."""
    listed = sorted(ranks)
    return fold([names[rank] for rank in listed]) if all(rank in names for rank in listed) else named_ranks(listed)
