"""Events of a run in words, and the report at its end. Pure: events in, styled lines out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from distui.amounts import clock, counted, duration
from distui.plan.labels import named_ranks
from distui.runs.lines.events import (
    NOBODY_ANSWERED,
    AttemptEnded,
    Event,
    Failure,
    FailureFound,
    HostChanged,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RankPhase,
    RankSilent,
    RanksRestarted,
    RunEnded,
    RunOpened,
    RunStalled,
    StopAsked,
    rank_words,
    ranks_words,
)
from distui.runs.lines.text import safe
from distui.runs.report.run_words import restart_words
from distui.runs.state.progress import TOTALS, total_of
from distui.runs.state.reducer import RunState
from distui.runs.verdict.exit_words import exit_words
from distui.spec.hosts.names import fold

Line = tuple[str, str]
"""A line of text and its style (see `console.Console.paint`)."""

_PHASES = {
    "connect": "connecting",
    "check": "checking",
    "image": "image",
    "data": "fetching data",
    "code": "sending the code",
    "push": "sending env files",
    "start": "starting",
    "follow": "following",
    "stop": "stopping",
    "drain": "reading the logs to their end",
    "cleanup": "cleaning up",
}

_SHOWN: dict[RankPhase, str] = {
    "running": "",
    "exited": "",
    "oom": "red",
    "killed": "red",
    "never_started": "red",
    "removed": "red",
    "lost": "yellow",
    "stopped": "",
}
"""Changes worth a line, and their style; `waiting` and `starting` are reported by the phases."""


Names = Mapping[int, str]
"""What ranks are called that are more than a number."""


def of_batch(batch: Iterable[Event], *, verbose: int = 0, names: Names | None = None) -> Iterator[Line]:
    """What a batch says to people; equal changes of many ranks become one line."""
    names = names or {}
    ranks: list[RankChanged] = []
    silent: list[RankSilent] = []
    for event in batch:
        if isinstance(event, RankChanged):
            ranks.append(event)
            continue
        if isinstance(event, RankSilent):
            silent.append(event)
            continue
        yield from _ranks(ranks, names)
        ranks = []
        yield from _one(event, verbose)
    yield from _ranks(ranks, names)
    yield from _silences(silent, names)


def _one(event: Event, verbose: int) -> Iterator[Line]:
    match event:
        case RunOpened():
            yield from _opened(event)
        case PhaseBegun():
            detail = f": {event.detail}" if event.detail and event.detail not in _PHASES[event.phase] else ""
            yield safe(f"distui: {_PHASES[event.phase]}{detail}"), "dim"
        case HostChanged(state="up") if not verbose:
            return
        case HostChanged():
            yield _host(event)
        case RunStalled():
            yield _stalled(event)
        case RanksRestarted():
            yield _restarted(event), "yellow"
        case AttemptEnded():
            yield _retried(event), "yellow"
        case FailureFound():
            yield f"distui: {failed_first(event.failure)}", "red bold"
        case StopAsked():
            yield _stopping(event)
        case Notice():
            yield _notice(event)
        case _:
            return


def _host(event: HostChanged) -> Line:
    """That a host is connected, out of reach, or back."""
    if event.state == "up":
        return f"distui: {event.host} is connected", "dim"
    if event.state == "lost":
        reason = event.reason or "no answer"
        return f"distui: {event.host} lost: {reason}; its ranks may still run, trying again", "yellow"
    return f"distui: {event.host} is back" + (f": {event.reason}" if event.reason else ""), ""


def _restarted(event: RanksRestarted) -> str:
    which = f"restart {event.count} of {event.allowed} on that node"
    code = exit_words(event.exit, oom=False)
    return f"distui: rank {event.rank} on {event.host}: {code}; torchrun starts the ranks again ({which})"


def _stopping(event: StopAsked) -> Line:
    grace = duration(event.grace)
    if event.reason == "done":
        return f"distui: the run is done; stopping what does not end by itself ({grace} to SIGKILL)", ""
    if event.grace == 0:
        return f"distui: killing all ranks ({_because(event)})", "yellow"
    return f"distui: stopping all ranks ({_because(event)}), killing what is left after {grace}", "yellow"


def _notice(event: Notice) -> Line:
    where = f"{event.host}: " if event.host and event.host not in event.text else ""
    style = {"info": "", "warning": "yellow", "error": "red"}[event.level]
    level = "" if event.level == "info" else event.level + ": "
    return safe(f"distui: {level}{where}{event.text}"), style


def _opened(event: RunOpened) -> Iterator[Line]:
    hosts = fold(dict.fromkeys(event.ranks.values()))
    verb = "following" if event.adopted else "starting"
    which = f", {of_attempts(event.attempt, event.attempts)}" if event.attempts > 1 else ""
    yield f"distui: {verb} {event.run}{which}: {counted(len(event.ranks), _unit(event.names))} on {hosts}", "bold"
    if event.log_dir:
        yield f"distui: logs in {event.log_dir}", "dim"


def _unit(names: Names) -> str:
    """What a run counts: tasks where these have names, since a launcher may start several ranks in each."""
    return "task" if names else "rank"


def of_attempts(attempt: int, attempts: int) -> str:
    """`attempt 2 of 3`."""
    return f"attempt {attempt} of {attempts}"


def _retried(event: AttemptEnded) -> str:
    why = f": {failed_first(event.failure, '')}" if event.failure is not None else ""
    which = of_attempts(event.attempt, event.attempts)
    return f"distui: {which} failed{why}; attempt {event.attempt + 1} begins in {duration(event.pause)}"


def _because(event: StopAsked) -> str:
    match event.reason:
        case "user":
            return "asked to"
        case "failure":
            return "a rank failed"
        case "hang":
            return "its ranks stand still"
        case "timeout":
            return "--timeout reached"
        case "max_duration":
            return "max_duration reached"
        case "launch_failed":
            return "the launch failed"
        case "done":
            return "the run is done"
        case "lost":
            return "a host is out of reach for too long"


def _ranks(changes: Sequence[RankChanged], names: Names) -> Iterator[Line]:
    """One line for each kind of change, in the order they came."""
    groups: dict[tuple[RankPhase, str, int | None], list[RankChanged]] = {}
    for change in changes:
        if change.state in _SHOWN:
            groups.setdefault((change.state, change.words, change.exit), []).append(change)
    for (state, text, code), members in groups.items():
        style = "red" if state == "exited" and code else _SHOWN[state]
        yield safe(f"distui: {_subject(members, names)} {_predicate(state, text)}"), style


def _stalled(event: RunStalled) -> Line:
    """That no step comes any more, or that they come again."""
    if not event.stalled:
        return "distui: the run makes progress again", ""
    last = f", last step {event.step:,.0f}" if event.step is not None else ""
    return f"distui: the run stands still for {duration(max(0.0, event.at - event.since))}{last}", "yellow"


def _silences(silences: Sequence[RankSilent], names: Names) -> Iterator[Line]:
    """Ranks that fell quiet, and those that are back, each as one line."""
    quiet, back = [e for e in silences if e.quiet], [e for e in silences if not e.quiet]
    if quiet:
        idle = ", GPUs idle" if any(e.util is not None for e in quiet) else ""
        yield (
            f"distui: {_subject(quiet, names)} quiet: no line for {duration(max(e.seconds for e in quiet))}{idle}",
            "yellow",
        )
    if back:
        yield f"distui: {_subject(back, names)} at work again", ""


def progress_words(progress: Progressed) -> str:
    """The last figures in one line: `step 18,974 of 20,000  loss 2.061  2.31 s/it`."""
    values, total = dict(progress.values), total_of(progress)
    said = []
    if total is not None and "step" in values:
        said.append(f"step {_figure(values.pop('step'))} of {_figure(total)}")
        values = {name: value for name, value in values.items() if name not in TOTALS}
    said += [f"{name} {_figure(value)}" for name, value in values.items()]
    said += [f"{name} {text}" for name, text in progress.words.items()]
    speed = progress.seconds_per_step
    if speed is not None and speed > 0:
        said.append(f"{speed:.2f} s/it" if speed >= 0.5 else f"{1 / speed:.1f} it/s")
    return safe("  ".join(said))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == value // 1 and abs(value) < 1e15 else f"{value:.5g}"


def _subject(members: Sequence[RankChanged | RankSilent], names: Names) -> str:
    if len(members) == 1:
        return f"{rank_words(members[0].rank, names.get(members[0].rank, ''))} on {members[0].host}"
    if names:
        return ", ".join(rank_words(m.rank, names.get(m.rank, "")) for m in members)
    return named_ranks({m.rank for m in members})


def _predicate(state: RankPhase, text: str) -> str:
    match state:
        case "running":
            return "running"
        case "lost":
            return "out of reach" + (f": {text}" if text else "")
        case "never_started":
            return "never started" + (f": {text}" if text else "")
        case "stopped":
            return text or "stopped"
        case "exited":
            return f"ended: {text}" if text else "ended"
        case "oom" | "killed" | "removed" | "waiting" | "starting":
            return f"ended: {text}" if text.startswith("its ") else text or state


def failed_first(failure: Failure, word: str = " failed first") -> str:
    """The headline: `rank 13 on node02 failed first: exit 1 at 12:03:04`."""
    word = "" if failure.is_of_all else word
    when = f" at {clock(failure.at)}" if failure.at is not None else ""
    return safe(f"{failure.where}{word}: {failure.words}{when}")


_OUTCOMES = {
    "succeeded": ("SUCCEEDED", "green bold"),
    "failed": ("FAILED", "red bold"),
    "stopped": ("STOPPED", "yellow bold"),
    "unknown": ("UNKNOWN", "red bold"),
    "launch_failed": ("NOT STARTED", "red bold"),
    "detached": ("DETACHED", "bold"),
}


def report(ended: RunEnded, state: RunState) -> Iterator[Line]:
    """The end of a run for people: result, first failure with cause and last lines, logs, what is left."""
    word, style = _OUTCOMES[ended.outcome]
    failure = ended.failure or state.failure
    yield "", ""
    ranks = counted(len(state.ranks), _unit(state.rank_names)) if state.ranks else ""
    goes_on = ended.outcome == "detached"
    took = "" if goes_on else f"after {duration(ended.took)}"
    code = "" if goes_on else f"exit {ended.exit}"
    which = of_attempts(ended.attempt, ended.attempts) if ended.attempts > 1 else ""
    yield "  ".join(p for p in (word, state.run, ranks, took, code, which) if p), style
    if failure is not None and ended.outcome != "succeeded":
        yield from _failure(failure, state.rank_names)
        yield from _others(state, failure)
    if restarts := restart_words(state.restarts):
        yield safe(f"  again  {restarts}"), ""
    for words in ended.warnings:
        yield safe(f"  warn   {words}"), "yellow bold"
    if (last := ended.progress or state.progress) is not None:
        yield f"  last   {progress_words(last)}", ""
    if ended.network:
        yield safe(f"  net    {ended.network}"), ""
    if ended.log_dir and ended.outcome != "launch_failed":
        yield f"  logs   {ended.log_dir}", ""
    may_run = ended.outcome == "unknown" and _may_run(ended, state)
    if may_run:
        yield from _out_of_reach(ended, state)
    elif ended.outcome == "unknown":
        yield from _gone(state)
    for past in (past for past in state.past if past.attempt != ended.attempt):
        yield f"  before {of_attempts(past.attempt, past.attempts)}: {past.log_dir or 'not kept here'}", "dim"
    for left in ended.leftovers:
        yield safe(f"  left   {left}"), "yellow"
    if goes_on and ended.attempt < ended.attempts:
        yield "  note   no further attempt is begun if this one fails: that needs a distui that stays", "yellow"
    if ended.leftovers and not (goes_on or may_run):
        away = ", as soon as it can be reached" if any("may still have" in left for left in ended.leftovers) else ""
        yield f"  then   `distui stop {state.run}` removes what is left{away}", ""
    if ended.outcome == "detached" or may_run:
        yield from still_running(state.run)


def _failure(failure: Failure, names: Names) -> Iterator[Line]:
    yield f"  first  {failed_first(failure, '')}", "red"
    if together := failure.together_by(names):
        yield safe(f"  also   {together}"), "red"
    if failure.unsure:
        yield safe(f"  unsure {failure.unsure}"), "yellow"
    if failure.cause:
        yield safe(f"  cause  {failure.cause}"), ""
    if failure.hint:
        yield safe(f"  try    {failure.hint}"), ""
    for i, line in enumerate(failure.excerpt):
        yield f"  {'said' if i == 0 else '    '}   | {safe(line)}", "dim"


OTHERS = 4
"""Kinds of ends that a result names beside the first failure; the rest are in `show`."""


def _others(state: RunState, failure: Failure) -> Iterator[Line]:
    """What became of the other ranks than that which failed, those that ended the same way in one line."""
    ends: dict[str, list[int]] = {}
    for rank in state.ranks.values():
        if rank.relation in ("followed", "before", "stopped", "succeeded") and rank.rank != failure.rank:
            ends.setdefault(" ".join(part for part in (rank.words, rank.related) if part), []).append(rank.rank)
    for i, (words, ranks) in enumerate(sorted(ends.items(), key=lambda pair: pair[1])[:OTHERS]):
        yield safe(f"  {'others' if i == 0 else '      '} {ranks_words(ranks, state.rank_names)}: {words}"), "dim"


def _may_run(ended: RunEnded, state: RunState) -> bool:
    """Whether something of a run whose end is not known may still run, as far as its hosts are known here."""
    if any(r.live for r in state.ranks.values()) or any(h.connection == "lost" for h in state.hosts.values()):
        return True
    return not state.ranks or _not_asked(ended)


def _not_asked(ended: RunEnded) -> bool:
    """Whether it is warned of hosts that did not answer: that says more than that there are such."""
    return any(NOBODY_ANSWERED in text for text in ended.warnings)


def _out_of_reach(ended: RunEnded, state: RunState) -> Iterator[Line]:
    """Which hosts, and ranks there, are out of reach."""
    hosts = sorted({r.host for r in state.ranks.values() if r.state == "lost"})
    hosts = hosts or sorted(h.host for h in state.hosts.values() if h.connection == "lost")
    ranks = sorted(r.rank for r in state.ranks.values() if r.state == "lost")
    if hosts or not _not_asked(ended):
        which = f"{fold(hosts) or 'contact'}{f' ({ranks_words(ranks, state.rank_names)})' if ranks else ''}"
        yield safe(f"  lost   {which}: what runs there may still run"), "red"


def _gone(state: RunState) -> Iterator[Line]:
    """The ranks whose ends nobody knows because they were removed."""
    for rank in sorted(state.ranks.values(), key=lambda rank: rank.rank):
        if rank.state == "removed":
            yield safe(f"  gone   {rank_words(rank.rank, rank.name)} on {rank.host}: {rank.words}"), "red"


def still_running(run: str) -> Iterator[Line]:
    """How to get back to a run that goes on, and how to end it."""
    yield f"  follow `distui attach {run}`   logs `distui logs -f {run}`", ""
    yield f"  stop   `distui stop {run}`", ""
