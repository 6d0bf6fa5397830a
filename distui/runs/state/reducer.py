"""The one reducer: state of a run folded from its events, for printers, the TUI and replay alike.

How a run's own state follows from its parts, first match wins:
1. an end was recorded: that outcome (`succeeded`, `failed`, `stopped`, `unknown`, `launch_failed`, `detached`)
2. an attempt failed and the next has not begun: `retrying`
3. a stop was asked for: `stopping`
4. a host of the run is lost: `degraded`
5. every rank has started: `running`
6. otherwise the phase it is in: `launching`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from distui.frozen import frozen, replace
from distui.runs.lines.batch import last_text
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    Failure,
    FailureFound,
    HostChanged,
    HostSampled,
    LogLines,
    NetworkUsed,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RankPhase,
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
)
from distui.runs.lines.explanation import STANDS
from distui.runs.state.load import readings, works
from distui.runs.state.pages import Pages
from distui.runs.state.steps import Pace, taken

LIVE: frozenset[RankPhase] = frozenset({"waiting", "starting", "running", "lost"})
"""States in which a rank may still do something."""

NOTICES = 200
"""The last ones that are kept."""
FRESH_S = 15.0
"""A host is measured about every second: an older sample says nothing of now."""

BEFORE_START: frozenset[RankPhase] = frozenset({"waiting", "starting"})


@frozen
class RankState:
    """One rank as its events left it."""

    rank: int
    host: str
    task: int
    state: RankPhase = "waiting"
    exit: int | None = None
    oom: bool = False
    words: str = ""
    lines: int = 0
    last_line: str = ""
    last_line_at: float | None = None
    since: float | None = None
    """When it came into its state: for an end when it failed or ended, if known."""
    relation: str = ""
    """To the first failure, once that is judged."""
    of: str = ""
    """The rank that it followed, or failed like."""
    moved_at: float | None = None
    """When it began its newest collective, as far as it was asked while it said nothing."""
    quiet: bool = False
    """Whether it was said to be silent too long."""
    idle: bool = False
    """Whether its GPUs were seen to do nothing then; False where it has none, or nobody knows."""
    name: str = ""
    """What it is called where it is more than a number: `worker/1`."""

    @property
    def related(self) -> str:
        """Its relation to the first failure in words; empty where its end alone says all."""
        words = {"first": "failed first", "alike": "failed with the same error", "before": "ended before the failure"}
        return f"after {self.of}" if self.relation == "followed" and self.of else words.get(self.relation, "")

    @property
    def live(self) -> bool:
        """Whether the rank may still do something."""
        return self.state in LIVE


@frozen
class HostState:
    """One host of the run: its connection and its newest sample."""

    host: str
    connection: str = "connecting"
    reason: str = ""
    sample: HostSampled | None = None
    worked: Mapping[int, float] = field(default_factory=dict)
    """GPU -> when it was last seen to work."""

    def measured(self, now: float) -> frozenset[int]:
        """The GPUs whose load is known now: a host that nobody measures any more tells nothing of them."""
        fresh = self.sample if self.sample is not None and now - self.sample.at <= FRESH_S else None
        return frozenset(g.index for g in readings(fresh) if g.utilization_pct is not None)

    def then(self, sample: HostSampled) -> HostState:
        """After another sample."""
        working = {gpu.index: sample.at for gpu in sample.gpus if works(gpu)}
        return replace(self, sample=sample, worked={**self.worked, **working} if working else self.worked)


@frozen
class RunState:
    """A run as its events left it; the empty value is a run of which nothing is known yet."""

    run: str = ""
    job: str = ""
    phase: str = ""
    detail: str = ""
    started: float | None = None
    log_dir: str = ""
    adopted: bool = False
    ranks: Pages[RankState] = field(default_factory=Pages)
    hosts: Mapping[str, HostState] = field(default_factory=dict)
    containers: Pages[str] = field(default_factory=Pages)
    failure: Failure | None = None
    stopping: StopAsked | None = None
    ended: RunEnded | None = None
    notices: tuple[Notice, ...] = ()
    progress: Progressed | None = None
    attempt: int = 1
    attempts: int = 1
    """How many attempts the run has in all, as its job says."""
    past: tuple[AttemptEnded, ...] = ()
    """Attempts that failed before this one, as far as they were seen from here."""
    said_in_past: tuple[int, ...] = ()
    """How many of `notices` had been said by the end of each of them: times do not tell where a clock was set back."""
    retrying: bool = False
    restarts: tuple[RanksRestarted, ...] = ()
    """When torchrun started ranks again by itself, in this attempt."""
    why: RanksAsked | None = None
    """Who held the others up when ranks were asked last, in this attempt; None where nothing stood still."""
    network: NetworkUsed | None = None
    """Which interface carried how much, as it was reported last in this attempt."""
    steps: Pages[Pace] = field(default_factory=Pages)
    """How far each rank is that said so in this attempt."""
    stalled: RunStalled | None = None
    """That no step comes any more, as whoever follows the run said last; None while they come."""
    beside: bool = False
    """Whether it is folded from what whoever follows the run writes down: only that one knows all that ranks say."""

    @property
    def rank_names(self) -> Mapping[int, str]:
        """The names of its ranks; none where they go by their numbers."""
        return {rank: r.name for rank, r in self.ranks.items() if r.name}

    @property
    def summary(self) -> str:
        """The run's state in one word, by the numbered list of this module."""
        if self.ended is not None:
            return self.ended.outcome
        if self.retrying:
            return "retrying"
        if self.stopping is not None:
            return "stopping"
        if any(h.connection == "lost" for h in self.hosts.values()):
            return "degraded"
        if self.ranks and all(r.state not in BEFORE_START for r in self.ranks.values()):
            return "running"
        return "launching"

    @property
    def begins(self) -> bool:
        """Whether it is being started here, for which who leaves waits: not where it was met on its hosts, or another
        distui starts it.
        """
        return self.summary == "launching" and not (self.adopted or self.beside)


def apply(state: RunState, event: Event) -> RunState:
    """The state after `event`. Pure; unknown ranks and hosts are taken in as they come."""
    match event:
        case RunOpened():
            return _opened(state, event)
        case PhaseBegun():
            return replace(state, phase=event.phase, detail=event.detail)
        case HostChanged():
            return _with_host(state, event)
        case TaskStarted():
            return replace(state, containers=state.containers.with_entry(event.task, event.id))
        case RankChanged():
            return _with_rank(state, event)
        case LogLines():
            return _with_lines(state, event)
        case HostSampled():
            host = state.hosts.get(event.host, HostState(event.host))
            return replace(state, hosts={**state.hosts, event.host: host.then(event)})
        case Progressed():
            return replace(state, progress=event)
        case RanksStepped():
            return _with_steps(state, event)
        case RunStalled():
            return replace(state, stalled=event if event.stalled else None)
        case RankSilent():
            return _with_silence(state, event)
        case RanksMoved():
            return _with_moved(state, event)
        case RanksAsked():
            return replace(state, why=event if event.found.kind in STANDS else None)
        case NetworkUsed():
            return replace(state, network=event)
        case FailureFound():
            return replace(state, failure=event.failure)
        case StopAsked():
            return replace(state, stopping=event)
        case Notice():
            kept = state.notices[-(NOTICES - 1) :]
            gone = len(state.notices) - len(kept)
            said = tuple(max(0, end - gone) for end in state.said_in_past)
            return replace(state, notices=(*kept, event), said_in_past=said)
        case RanksRestarted():
            return replace(state, restarts=(*state.restarts, event))
        case AttemptEnded():
            said = (*state.said_in_past, len(state.notices))
            return replace(state, past=(*state.past, event), said_in_past=said, retrying=True)
        case RunEnded():
            progress = event.progress or state.progress
            return replace(state, ended=event, failure=event.failure or state.failure, progress=progress)


def _opened(state: RunState, event: RunOpened) -> RunState:
    task_of = {rank: task for task, ranks in event.tasks.items() for rank in ranks}
    ranks = {
        r: RankState(r, host, task_of.get(r, r), name=event.names.get(r, ""), lines=event.lines.get(r, 0))
        for r, host in sorted(event.ranks.items())
    }
    return replace(
        state,
        run=event.run,
        job=event.job,
        started=state.started if event.attempt > 1 and state.past else event.began or event.at,
        log_dir=event.log_dir,
        adopted=event.adopted,
        ranks=Pages(ranks),
        hosts={h: HostState(h) for h in dict.fromkeys(event.ranks.values())},
        containers=Pages(),
        stopping=None,
        ended=None,
        failure=None,
        progress=None,
        attempt=event.attempt,
        attempts=event.attempts,
        retrying=False,
        restarts=(),
        why=None,
        network=None,
        steps=Pages(),
        stalled=None,
    )


def _with_host(state: RunState, event: HostChanged) -> RunState:
    connection = "lost" if event.state == "lost" else "up"
    host = replace(state.hosts.get(event.host, HostState(event.host)), connection=connection, reason=event.reason)
    return replace(state, hosts={**state.hosts, event.host: host})


def _with_rank(state: RunState, event: RankChanged) -> RunState:
    rank = state.ranks.get(event.rank, RankState(event.rank, event.host, event.rank))
    changed = replace(
        rank,
        state=event.state,
        exit=event.exit,
        oom=event.oom,
        words=event.words,
        since=event.at if event.ended_at is None else event.ended_at,
        relation=event.relation,
        of=event.of,
        quiet=False,
    )
    return replace(state, ranks=state.ranks.with_entry(event.rank, changed))


def _with_silence(state: RunState, event: RankSilent) -> RunState:
    rank = state.ranks.get(event.rank, RankState(event.rank, event.host, event.rank))
    idle = event.quiet and event.util is not None
    return replace(state, ranks=state.ranks.with_entry(event.rank, replace(rank, quiet=event.quiet, idle=idle)))


def _with_moved(state: RunState, event: RanksMoved) -> RunState:
    ranks = state.ranks
    for rank in event.ranks:
        if (known := ranks.get(rank)) is not None:
            ranks = ranks.with_entry(rank, replace(known, moved_at=max(event.last, known.moved_at or 0.0)))
    return replace(state, ranks=ranks)


def _with_steps(state: RunState, event: RanksStepped) -> RunState:
    """A step of a rank that is in what stood still, said after the answer, refutes it: the run goes on."""
    steps, why = taken(state.steps, event.steps), state.why
    if why is not None:
        meant = why.found.standing or steps.keys()
        if any(steps[rank].last.at > why.at for rank in meant if rank in steps):
            why = None
    return replace(state, steps=steps, why=why)


def _with_lines(state: RunState, event: LogLines) -> RunState:
    if event.rank is None:
        return state
    rank = state.ranks.get(event.rank, RankState(event.rank, event.host, event.task))
    if not event.lines:
        return replace(state, ranks=state.ranks.with_entry(event.rank, replace(rank, last_line_at=event.at)))
    changed = replace(
        rank,
        lines=rank.lines + len(event.lines),
        last_line=last_text(event.lines)[-500:],
        last_line_at=event.at,
    )
    return replace(state, ranks=state.ranks.with_entry(event.rank, changed))
