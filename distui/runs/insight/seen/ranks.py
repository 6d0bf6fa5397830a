"""Each rank with the process that is it, out of what all hosts answered.

Where torchrun starts several ranks in one task, a rank is a place there, as in logs and in the verdict: with `c10d`
torchrun numbers the hosts itself, by their addresses as text, and may do so again. What torch counts by those numbers,
the members of groups, is given in the run's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.seen.answers import PAUSED, Group, HostAnswer, Process, Stack
from distui.runs.insight.seen.workers import absent, furthest_behind, in_others, own_ranks, workers

INIT = frozenset({"docker-init", "tini", "catatonit", "podman-init", "sh", "bash", "dash", "conmon", "timeout"})
"""Names of first processes that only start another one."""
MOST_NUMBERS = 4
"""Ranks of which it is said which number torch gives them."""


@frozen
class TaskRanks:
    """A task as the plan has it: where it is and which ranks are in it."""

    index: int
    host: str
    ranks: tuple[int, ...]


@frozen
class RankSeen:
    """One rank, as far as it can be seen. Moments of its collectives are put on our clock by `ahead`."""

    rank: int
    """Its number in the run; torch's own where `within` is known."""
    host: str
    process: Process | None = None
    helpers: tuple[Process, ...] = ()
    """What its process has started, such as the workers of a data loader."""
    why_not: str = ""
    """Why nothing is seen of it, in words."""
    late: bool = False
    """Whether what is not seen of it only did not come in time: asked again it may be."""
    ended: str = ""
    """How it ended, in words, for a rank that has."""
    at: float = 0.0
    """When it was looked at, on our clock."""
    ahead: float = 0.0
    doubt: float = 0.0
    """See HostAnswer."""
    in_vain: bool = False
    """Whether it said that it had waited for others in vain, or lost them: it had entered what they had not."""

    held: bool = False
    """Whether a program that traces it (a debugger) had stopped it in two answers some seconds apart. In one, that is
    how strace and py-spy look at a program that goes on.
    """
    quiet: float | None = None
    """Seconds for which nothing of it moved in any look of who asks again and again (`quiet`); None for one look."""
    within: int | None = None
    """The run's rank that it is part of, where that one has started several of torch's ranks: see `workers`."""
    beside: tuple[tuple[int, int], ...] = ()
    """The run's ranks that are in another program than most, of which not all is seen, and how many ranks that has."""

    @property
    def run_rank(self) -> int:
        """The rank of the run that it is, or is part of."""
        return self.rank if self.within is None else self.within

    @property
    def stopped(self) -> bool:
        """Whether a signal, a debugger or a pause of its container has stopped it: who waits for it waits until
        somebody lets it go on.
        """
        return self.held or (self.process is not None and self.process.state in ("T", PAUSED))

    @property
    def groups(self) -> Mapping[str, Group]:
        """Where it is in its collectives; empty when nobody knows."""
        return (self.process.groups if self.process else None) or {}

    @property
    def main_stack(self) -> Stack | None:
        """The calls of the thread that runs the program: the one whose outermost call is a module's own code.

        `python -m` has another one, and a deep stack comes without it: then the one that `threading` did not start.
        """
        return main_of(self.process.stacks) if self.process else None


OUTERMOST = ("<module>", "_run_module_as_main")
"""Where a main thread begins: in a file, or with `python -m`, as torchrun has it."""


def main_of(stacks: Sequence[Stack]) -> Stack | None:
    """The main thread's stack of those of one process; see RankSeen.main_stack."""
    stacks = [stack for stack in stacks if stack.frames]
    main = [stack for stack in stacks if stack.frames[-1].function in OUTERMOST]
    main = main or [stack for stack in stacks if stack.frames[-1].function != "_bootstrap"]
    return next(iter(main or stacks), None)


def ranks_of(
    tasks: Sequence[TaskRanks], answers: Mapping[str, HostAnswer], ended: Mapping[int, str]
) -> tuple[RankSeen, ...]:
    """Every rank of the run in its order; `ended` says in words how ranks ended that have.

    Where tasks of one rank have started several of torch's, those ranks are given in their place.
    """
    processes = _processes(tasks, answers)
    found = workers(processes)
    own = own_ranks(found)
    seen: Iterable[RankSeen]
    if own is not None:
        seen = _as_torch_counts(tasks, answers, ended, found, own)
    else:
        each = (_of_task(task, answers.get(task.host), ended, found.get(task.index, ())) for task in tasks)
        places = frozenset(rank for task in tasks if len(task.ranks) > 1 for rank in task.ranks)
        seen = _in_the_runs_numbers([rank for ranks in each for rank in ranks], found, places)
    if others := in_others(processes, found):
        beside = tuple((task.ranks[0], others[task.index]) for task in tasks if task.index in others)
        seen = [replace(one, beside=beside) for one in seen]
    return tuple(sorted(seen, key=lambda one: one.rank))


def _processes(tasks: Sequence[TaskRanks], answers: Mapping[str, HostAnswer]) -> dict[int, tuple[Process, ...]]:
    """Task -> its processes, of which torch may count some as ranks; nothing where distui starts several in one."""
    if any(len(task.ranks) > 1 for task in tasks):
        return {}
    silent = HostAnswer("")
    return {task.index: answers.get(task.host, silent).tasks.get(task.index, ()) for task in tasks}


def _as_torch_counts(
    tasks: Sequence[TaskRanks],
    answers: Mapping[str, HostAnswer],
    ended: Mapping[int, str],
    found: Mapping[int, Sequence[Process]],
    own: Mapping[int, tuple[int, Process]],
) -> Iterator[RankSeen]:
    by_index = {task.index: task for task in tasks}
    for number, (index, process) in own.items():
        task, others = by_index[index], {one.pid for one in found[index]}
        answer = answers[task.host]
        helpers = tuple(_below(process, answer.tasks[index], others))
        at = answer.at - answer.ahead
        yield RankSeen(
            number, task.host, process, helpers, late=process.late,
            at=at, ahead=answer.ahead, doubt=answer.doubt, within=task.ranks[0],
        )  # fmt: skip
    for number, missing in absent(found, own).items():
        if missing is None:
            late = any(answer.late for answer in answers.values())
            yield RankSeen(number, "", why_not="nothing is seen of it", late=late)
            continue
        task = by_index[missing]
        seen = next(_of_task(task, answers.get(task.host), ended, ()))
        why = "" if seen.ended else seen.why_not or "its process does not tell its rank"
        yield RankSeen(number, task.host, why_not=why, late=seen.late, ended=seen.ended, within=task.ranks[0])


def _in_the_runs_numbers(
    ranks: Sequence[RankSeen], found: Mapping[int, Sequence[Process]], places: frozenset[int]
) -> Sequence[RankSeen]:
    """With the members of groups as ranks of the run, where the program counts in another way; else as they are.

    `places` are ranks that torchrun started, several in a task.
    """
    several = any(len(each) > 1 for each in found.values()) or several_worlds(ranks) is not None
    own = {number: one.rank for one in ranks if (number := _number(one, places)) is not None} if not several else {}
    if not several and all(number == rank for number, rank in own.items()):
        return ranks
    left = () if several else tuple(one for one in ranks if one.rank not in own.values())
    world = max((one.process.world or 0 for one in ranks if one.process is not None), default=0)
    absent = [number for number in range(world) if number not in own]
    if len(left) == len(absent) and len({one.host for one in left}) == 1:  # one host is left for them, in its order
        own |= {number: one.rank for number, one in zip(absent, left, strict=True)}
    unsure = {one.rank for one in left if not one.ended and one.rank not in own.values()}
    return [replace(seen, process=_with_members(seen.process, own, unsure)) if seen.process else seen for seen in ranks]


def _number(seen: RankSeen, places: frozenset[int] = frozenset()) -> int | None:
    """Its number as torch counts; before torch 2.3 the one that torchrun put into its environment."""
    process = seen.process
    if process is None or process.torch_rank is not None:
        return process.torch_rank if process is not None else None
    return process.rank if seen.rank in places and process.torch else None


def _with_members(process: Process, own: Mapping[int, int], unsure: set[int]) -> Process:
    """Of a member that may be any of the ranks of which nothing is seen, all of those are said to be members."""
    groups = {
        name: replace(group, ranks=tuple(sorted(_members(group, own, unsure))))
        for name, group in (process.groups or {}).items()
    }
    return replace(process, groups=groups if process.groups is not None else None)


def _members(group: Group, own: Mapping[int, int], unsure: set[int]) -> set[int]:
    known = {own[number] for number in group.ranks if number in own}
    return known | unsure if len(known) < len(group.ranks) and own else known


def several_worlds(ranks: Sequence[RankSeen]) -> int | None:
    """How many ranks each default group has, where the program made several ones beside each other, of which nobody
    tells which ranks are together; None where it made one.
    """
    answered = [one.process for one in ranks if one.process is not None and one.within is None]
    counts = Counter((one.world, one.torch_rank) for one in answered if one.world and one.torch_rank is not None)
    return next((world for (world, _), count in counts.items() if count > 1), None)


def other_programs(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """Which ranks of the run are in other programs than most: what stands still there may not be seen."""
    each: dict[int, list[int]] = {}
    for rank, size in next((one.beside for one in ranks), ()):
        each.setdefault(size, []).append(rank)
    for size, who in each.items():
        where = f"{'is' if len(who) == 1 else 'are'} in another program, of {size} ranks"
        yield f"{named_ranks(who)} of this run {where}: what stands still there is not known"


def counted_otherwise(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """Which numbers torch gives the ranks, where that are others: what programs print."""
    own = {seen.rank: number for seen in ranks if (number := _number(seen)) is not None}
    if any(number != rank for rank, number in own.items()):
        shown = [f"rank {rank} is torch's {number}" for rank, number in sorted(own.items())[:MOST_NUMBERS]]
        yield f"torch numbers the ranks otherwise: {', '.join(shown)}{', ...' if len(own) > MOST_NUMBERS else ''}"


def _of_task(
    task: TaskRanks, answer: HostAnswer | None, ended: Mapping[int, str], started: Sequence[Process]
) -> Iterator[RankSeen]:
    if answer is None or answer.why_not:
        why, late = (answer.why_not, answer.late) if answer is not None else ("no host that answers has it", False)
        for rank in task.ranks:
            yield RankSeen(rank, task.host, why_not="" if rank in ended else why, late=late, ended=ended.get(rank, ""))
        return
    processes = answer.tasks.get(task.index, ())
    own = {task.ranks[0]: furthest_behind(started)} if started else _by_rank(task, processes)
    for rank in task.ranks:
        process = own.get(rank)
        over = ended.get(rank, "") if process is None else ""
        why = "" if process is not None or over else _unseen(task, processes, answer.engine)
        others = {one.pid for one in (*own.values(), *started)}
        helpers = tuple(_below(process, processes, others)) if process is not None else ()
        late = process.late if process is not None else answer.late and not processes
        at = answer.at - answer.ahead
        yield RankSeen(rank, task.host, process, helpers, why, late, over, at, answer.ahead, answer.doubt)


def _by_rank(task: TaskRanks, processes: Sequence[Process]) -> dict[int, Process]:
    """The ranks that said so themselves; where nobody did, a task of one rank has its first own process for it."""
    found: dict[int, Process] = {}
    for process in processes:
        rank = _said(task, process)
        if rank is not None:
            known = found.get(rank)
            if known is None or _tells(process) > _tells(known):
                found[rank] = process
    if not found and len(task.ranks) == 1:
        first = next((p for p in processes if p.name not in INIT and p.state not in ("Z", "X")), None)
        first = first or next(iter(processes), None)
        return {task.ranks[0]: first} if first is not None else {}
    return found


def _tells(process: Process) -> tuple[bool, bool]:
    """How much of a rank a process tells: one that uses torch may have been started by one that uses TensorFlow."""
    return bool(process.groups), bool(process.torch)


def _said(task: TaskRanks, process: Process) -> int | None:
    """Which rank of its task a process is, by what it says: by its place where torchrun started several ranks."""
    local = process.local_rank
    if not (process.torch or process.uses) or process.rank is None:
        return None
    if len(task.ranks) > 1 and local is not None:
        return task.ranks[local] if local < len(task.ranks) else None
    return process.rank if process.rank in task.ranks else None


def _below(process: Process, processes: Sequence[Process], others: set[int]) -> Iterator[Process]:
    """What comes from this process and is no rank itself."""
    known = {process.pid}
    for one in processes:
        if one.parent in known and one.pid not in others:
            known.add(one.pid)
            yield one


def _unseen(task: TaskRanks, processes: Sequence[Process], engine: str) -> str:
    if not processes:
        return f"its engine {engine}" if engine else "nothing of it runs"
    if len(task.ranks) == 1:
        return ""
    return (
        "which process it is can't be known: none tells that it uses torch.distributed, which it may not yet; "
        "with `insight: off` or as `python -I` it never does"
    )
