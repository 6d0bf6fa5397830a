"""Every problem of all hosts and runs that is known now, the worst first: hosts that are gone, remarks, runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from distui.amounts import duration
from distui.facts.troubles import for_hosts, without_host
from distui.frozen import frozen
from distui.monitor.host_board import HostBoard
from distui.monitor.remarks import remarks
from distui.runs.lines.events import RunStalled, rank_words, ranks_words
from distui.runs.lines.explanation import HANGS
from distui.runs.report.history import Launched, RunRow, launch_of
from distui.runs.report.run_words import failure_words
from distui.runs.report.states import ENDED
from distui.runs.state.reducer import RunState
from distui.runs.state.standstill import Standstill, steps_done
from distui.runs.state.steps import behind
from distui.spec.hosts.names import fold

Level = Literal["wrong", "watch"]

FAILED = frozenset({"failed", "launch_failed"})
"""Outcomes that somebody has to look at."""
FAILED_S = 86_400.0
"""For so long after its end a run that failed is a problem, unless somebody looked at it."""


@frozen
class Problem:
    """One thing to look at, where it is, and what to do about it or what it means."""

    kind: Literal["host", "run"]
    name: str
    """Of the host or the run."""
    level: Level
    text: str
    hint: str = ""
    gone: bool = False
    """A host that does not answer: nothing else is known of it."""
    said: str = ""
    """What is compared with other hosts' problems, where `text` has an address of its own."""

    @property
    def weight(self) -> int:
        """Its place among others, the worst first: hosts that are gone, what is wrong, what is to be watched."""
        return 0 if self.gone else (1 if self.level == "wrong" else 3) + (self.kind == "host")


@frozen
class Alike:
    """One problem, or the same one of several hosts."""

    problems: tuple[Problem, ...]

    @property
    def first(self) -> Problem:
        """What it says is right for all but for the host's own name."""
        return self.problems[0]

    @property
    def name(self) -> str:
        """The host or run, or all the hosts: `node[01-03]`."""
        return self.first.name if len(self.problems) == 1 else fold([one.name for one in self.problems])

    @property
    def text(self) -> str:
        """What is wrong; with the names of all hosts where it names one and several have it."""
        one = self.first
        if len(self.problems) == 1:
            return one.text
        return for_hosts([several.name for several in self.problems], without_host(one.name, one.said or one.text))


def problems(
    hosts: Iterable[HostBoard],
    followed: Mapping[str, RunState],
    rows: Iterable[RunRow],
    now: float,
    looked_at: Collection[Launched] = (),
) -> list[Problem]:
    """Every problem, the worst first, equal ones in the order of the inventory and of the list of runs.

    `followed` are the runs whose events are seen here: of them more is known than `rows` tell while they go on. The
    ends of the launches in `looked_at` are known.
    """
    going = {run: state for run, state in followed.items() if state.ended is None}
    found = [problem for host in hosts for problem in of_host(host, now)]
    found += [problem for run, state in going.items() for problem in of_run(run, state, now)]
    others = [row for row in rows if row.run not in going]
    found += [problem for row in others for problem in of_row(row, now)]
    found += [problem for row in others if not _known(row, looked_at) for problem in of_end(row, now)]
    return sorted(found, key=lambda problem: problem.weight)


def of_host(host: HostBoard, now: float) -> Iterator[Problem]:
    """That it does not answer, else everything that is remarked of it."""
    if host.trouble is not None:
        words, said = host.trouble.words(host.name), host.trouble.message
        yield Problem("host", host.name, "wrong", words, host.trouble.hint, gone=True, said=said)
        return
    for remark in remarks(host, now):
        yield Problem("host", host.name, remark.level, remark.text, remark.hint)


def of_run(run: str, state: RunState, now: float) -> Iterator[Problem]:
    """What a run that goes on says of itself: a failure, who holds it up, lost hosts, silence, the wrong wire."""
    if state.ended is not None:
        return
    if (failure := state.failure) is not None:
        who = "it" if failure.rank is None else rank_words(failure.rank, failure.name)
        at = f" on {failure.host}" if failure.host else ""
        yield Problem("run", run, "wrong", f"{who}{at} failed first: {failure.cause or failure.words}", failure.hint)
    elif state.why is not None:
        found = state.why.found
        yield Problem("run", run, "wrong" if found.kind in HANGS else "watch", found.headline, found.advice)
    elif state.stalled is not None:
        yield Problem(
            "run", run, "wrong", f"{_stands(state.stalled, now, done=steps_done(state))}{_behind(state)}", _ASK
        )
    for host in (host for host in state.hosts.values() if host.connection == "lost"):
        yield Problem("run", run, "wrong", f"contact with {host.host} is lost: {host.reason}")
    if silent := [rank.rank for rank in state.ranks.values() if rank.quiet]:
        idle = ", and the GPUs do nothing" if any(state.ranks[rank].idle for rank in silent) else ""
        what = f"{ranks_words(silent, state.rank_names)} say{'s' * (len(silent) == 1)} nothing{idle}"
        yield Problem("run", run, "watch", what, _ASK)
    for warning in state.network.warnings if state.network is not None else ():
        what, _, hint = warning.partition("; ")
        yield Problem("run", run, "watch", what, hint)


def _stands(stalled: RunStalled | Standstill, now: float, *, done: bool = False) -> str:
    """For how long what does not come."""
    since = duration(max(0.0, now - stalled.since), coarse=True)
    if stalled.step is None or done:
        return f"it stands still: no line for {since}" + (", after its last step" if done else "")
    return f"it stands still: no step for {since}, the last was {stalled.step:,.0f}"


def _behind(state: RunState) -> str:
    """Who of those that go on is behind, to be appended."""
    paces = {rank: pace for rank, pace in state.steps.items() if (r := state.ranks.get(rank)) is None or r.live}
    late = behind(paces, standing=True)
    return f"; {ranks_words(late, state.rank_names)} {'is' if len(late) == 1 else 'are'} behind" if late else ""


_ASK = "w in the run asks the ranks why"
_STATES = {
    "partial": ("some of its tasks have ended, others are still running", "enter follows it"),
    "left": ("its start was broken off, and not cleaned up", "X in Runs removes what is left"),
    "unknown": ("how it ended, or whether it is still running, is not known", "enter asks its hosts"),
}


def of_row(row: RunRow, now: float) -> Iterator[Problem]:
    """What the list of runs tells of one that is not followed here: that it stands still, as another distui of this
    machine says that follows it; that it is quiet where nobody does; it may not be whole, or left something behind.
    """
    if row.stands and row.stalled is not None:
        yield Problem("run", row.run, "wrong", _stands(row.stalled, now), _ASK)
    elif row.silent and row.quiet is not None:
        since = duration(max(0.0, now - row.quiet), coarse=True)
        words = f"no rank said a line for {since}, and nobody follows it here"
        yield Problem("run", row.run, "watch", words, "enter follows it, and says whether it stands still")
    elif (problem := _STATES.get(row.state)) is not None and row.may_live:
        yield Problem("run", row.run, "watch", *problem)
    elif row.live and row.state in ENDED and (row.left or not row.cleaned):
        where = f" on {fold(row.left)}" if row.left else ""
        yield Problem("run", row.run, "watch", f"it has ended, and was not cleaned up{where}", _STATES["left"][1])


def of_end(row: RunRow, now: float) -> Iterator[Problem]:
    """That a run has failed within the last day: what happened at night is here in the morning.

    Not of a colleague's of which only folders are left, which `of_row` tells of: nothing here shows why. Nor where
    another attempt may be about to begin.
    """
    if row.state not in FAILED or row.started is None or (row.leftover and not row.recorded):
        return
    if row.live and not row.collected and row.attempt < row.attempts:
        return
    ago = max(0.0, now - row.started - (row.took or 0.0))
    if ago <= FAILED_S:
        what = failure_words(row.failure)
        end = "could not be started" if row.state == "launch_failed" else "failed"
        text = f"it {end} {duration(ago, coarse=True)} ago"
        yield Problem("run", row.run, "watch", f"{text}: {what}" if what else text, "enter shows why")


def _known(row: RunRow, looked_at: Collection[Launched]) -> bool:
    """Whether the end of that launch was looked at; where one of both is not known, that of its name."""
    launch = launch_of(row)
    return any(run == row.run and (not launch or seen in ("", launch)) for run, seen in looked_at)


def folded(found: Iterable[Problem]) -> list[Alike]:
    """Problems that several hosts have alike as one, where the first of them stands."""
    alike: dict[tuple[str, ...], list[Problem]] = {}
    for one in found:
        words = (without_host(one.name, text) for text in (one.said or one.text, one.hint))
        key = (one.kind, one.level, *words) if one.kind == "host" else (one.kind, one.level, one.name, one.text)
        alike.setdefault(key, []).append(one)
    return [Alike(tuple(several)) for several in alike.values()]


def report(found: Iterable[Problem]) -> str:
    """All of them as text for people."""
    lines = []
    for several in folded(found):
        lines.append(f"{several.first.level:<6}{several.name}: {several.text}")
        lines += [f"      do    {several.first.hint}"] if several.first.hint else []
    return "\n".join(lines)
