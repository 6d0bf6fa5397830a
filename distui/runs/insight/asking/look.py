"""One look at where all ranks of a run are, and what it means."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from distui.frozen import frozen
from distui.runs.insight.asking.ask import ask_hosts
from distui.runs.insight.asking.task_names import with_names
from distui.runs.insight.hang.collectives import may_stand_from
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.explain_hosts import with_hosts
from distui.runs.insight.hang.ras.communicators import Counted, counted, to_be_sure
from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.insight.seen.quiet import Quiet
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks, ranks_of
from distui.runs.insight.seen.sick import Errors, health
from distui.runs.insight.slow.slow import Slow
from distui.runs.lines.explanation import STANDS, Calls, Explanation
from distui.runs.task.host_access import HostAccess

PATIENCE_S = 5.0
"""How long NCCL's RAS threads and drivers of GPUs may take. Mostly that is a second; more where one is in trouble."""

TRACED_S = 3.0
"""Seconds from one look to the next at a rank that is being traced: one that strace looks at has gone on by then."""


@frozen
class Look:
    """Each rank as it was seen, and what it means together."""

    ranks: tuple[RankSeen, ...]
    explanation: Explanation
    slow: Slow | None = None
    """What was seen where the ranks were watched for some seconds."""
    ras: tuple[Counted, ...] = ()
    """The communicators of NCCL, as it counts them."""
    hosts: Mapping[str, HostAnswer] = field(default_factory=dict)
    """What each host said beside its tasks: pressure, GPUs, and connections where something stands still."""

    @property
    def calls(self) -> tuple[Calls, ...]:
        """The calls of main threads, the rarest first: the odd one out is what people look for."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for seen in self.ranks:
            stack = seen.main_stack
            groups.setdefault(tuple(map(str, stack.frames)) if stack else (), []).append(seen.rank)
        rows = sorted(groups.items(), key=lambda item: len(item[1]))
        return tuple(Calls(tuple(ranks), frames) for frames, ranks in rows)

    @property
    def to_be_sure(self) -> float:
        """Seconds after which another look would tell more, by what NCCL's RAS says; 0 where that is no matter."""
        return 0.0 if self.explanation.kind in STANDS else to_be_sure(self.ras)

    @property
    def may_stand_from(self) -> float | None:
        """When what takes longer than usual will count as standing still; None where nothing does, or it stands."""
        return may_stand_from(self.ranks) if self.explanation.kind not in STANDS else None

    def with_stacks_of(self, other: Look) -> Look:
        """This look with the stacks of another one, of processes that are in both."""
        after = {seen.rank: seen for seen in other.ranks}
        return replace(self, ranks=tuple(_with_stacks(seen, after.get(seen.rank, seen)) for seen in self.ranks))


@frozen
class Asked:
    """Which hosts are asked where the ranks of which tasks are, and what is known of them beside."""

    hosts: Sequence[HostAccess]
    tasks: Sequence[TaskRanks]
    ids: Mapping[int, str] = field(default_factory=dict)
    """The engine's id of each task that runs."""
    ended: Mapping[int, str] = field(default_factory=dict)
    """How ranks ended that have, in words."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Why other hosts can't be asked."""
    gpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The GPUs of each rank, on its host."""
    errors: Errors = field(default_factory=dict)
    """What those had counted when the run began."""
    quiet: Quiet | None = None
    """Since when nothing of ranks has moved, for who asks again and again."""
    names: Mapping[int, str] = field(default_factory=dict)
    """What ranks are called that have a name (`task_names`)."""

    @property
    def silent(self) -> dict[str, HostAnswer]:
        """What is known of hosts that can't be asked: why."""
        return {
            host: HostAnswer(host, why_not=f"host {host} can't be asked: {why}") for host, why in self.unasked.items()
        }


async def look(
    asked: Asked,
    *,
    in_vain: Collection[int] = (),
    stacks: bool = False,
    only: Collection[int] | None = None,
    patience: float = PATIENCE_S,
    before: Sequence[Counted] = (),
) -> Look:
    """Ask all hosts where the ranks of a run are. Never raises DistuiError.

    `in_vain` are ranks that said that they had waited for others in vain. NCCL's RAS threads and drivers of GPUs may
    take `patience` seconds; `before` is what RAS threads answered earlier.

    Stacks are asked for where something stands still, or where they are wanted, then of `only` these tasks if any are
    given: a run that goes on is not disturbed.
    Positions are those from before that: what asking has set going again is no answer. A host that did not answer the
    first question is not waited for again.
    """
    hosts, tasks, ids, ended = asked.hosts, asked.tasks, asked.ids, asked.ended
    gpus = patience if asked.gpus else 0
    answers = asked.silent | await ask_hosts(hosts, ids, ras=patience, gpus=gpus)
    ranks = tuple(replace(seen, in_vain=seen.run_rank in in_vain) for seen in ranks_of(tasks, answers, ended))
    if not in_vain and (traced := _traced(ranks)):
        await asyncio.sleep(TRACED_S)
        answers = asked.silent | await ask_hosts(hosts, ids, ras=patience, gpus=gpus)
        ranks = ranks_of(tasks, answers, ended)
        held = traced & _traced(ranks)
        ranks = tuple(replace(seen, held=_who(seen) in held) for seen in ranks)
    ranks = asked.quiet.noted(ranks) if asked.quiet is not None else ranks
    ras = counted(ranks, answers, before)
    sick = health(ranks, answers, asked.gpus, asked.errors)
    stands = explain(ranks, ras).kind in STANDS
    if stacks or stands:
        silent = {host: answer for host, answer in answers.items() if answer.why_not}
        there = [one for one in hosts if one.host not in silent]
        those = ids if stands or only is None else {index: ids[index] for index in ids if index in only}
        again = silent | await ask_hosts(there, those, stacks=True)
        after = {seen.rank: seen for seen in ranks_of(tasks, again, ended)}
        late = {host for host, answer in again.items() if answer.late}
        # Where a host is silent now, ranks that one of the run has started can't be distinguished any more.
        ranks = tuple(_with_stacks(seen, after.get(seen.rank, replace(seen, late=seen.host in late))) for seen in ranks)
        answers = {host: _with_connections(answer, again.get(host)) for host, answer in answers.items()}
    found = with_names(with_hosts(explain(ranks, ras, sick), ranks, answers, asked.gpus), asked.names)
    return Look(ranks, found, ras=ras, hosts={host: _beside(answer) for host, answer in answers.items()})


def _with_connections(before: HostAnswer, after: HostAnswer | None) -> HostAnswer:
    """What a host said at first, with what waits in its connections."""
    return replace(before, connections=after.connections) if after is not None else before


def _beside(answer: HostAnswer) -> HostAnswer:
    """A host's answer without what it says of its tasks, which is in the ranks."""
    return replace(answer, tasks={}, networks=())


def _traced(ranks: Sequence[RankSeen]) -> set[tuple[int, int]]:
    """Those that a program which traces them has stopped just now, and that used no CPU just before."""
    return {_who(s) for s in ranks if s.process is not None and s.process.state == "t" and s.process.cpu == 0}


def _who(seen: RankSeen) -> tuple[int, int]:
    """A rank and its process, which may be another one later."""
    return seen.rank, seen.process.pid if seen.process is not None else 0


def _with_stacks(before: RankSeen, after: RankSeen) -> RankSeen:
    """A rank as it was, with the stacks that its process answered when it was asked for them."""
    one, other = before.process, after.process
    if one is None or other is None or one.pid != other.pid:
        return replace(before, late=before.late or after.late)
    unasked = tuple(dict.fromkeys((*one.unasked, *other.unasked)))
    return replace(before, process=replace(one, stacks=other.stacks, unasked=unasked), late=after.late)
