"""Each rank with the process that is it, out of what all hosts answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distui.frozen import frozen
from distui.runs.insight.answers import Group, HostAnswer, Process, Stack

INIT = frozenset({"docker-init", "tini", "catatonit", "podman-init", "sh", "bash", "dash", "conmon", "timeout"})
"""Names of first processes that only start another one."""


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
    host: str
    process: Process | None = None
    helpers: tuple[Process, ...] = ()
    """What its process has started, such as the workers of a data loader."""
    why_not: str = ""
    """Why nothing is seen of it, in words."""
    ended: str = ""
    """How it ended, in words, for a rank that has."""
    at: float = 0.0
    """When it was looked at, on our clock."""
    ahead: float = 0.0
    doubt: float = 0.0
    """See HostAnswer."""
    in_vain: bool = False
    """Whether it told that it had waited for others in vain, or lost them: it had entered what they had not."""

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


def main_of(stacks: Sequence[Stack]) -> Stack | None:
    """The main thread's stack of those of one process; see RankSeen.main_stack."""
    stacks = [stack for stack in stacks if stack.frames]
    main = [stack for stack in stacks if stack.frames[-1].function == "<module>"]
    main = main or [stack for stack in stacks if stack.frames[-1].function != "_bootstrap"]
    return next(iter(main or stacks), None)


def ranks_of(
    tasks: Sequence[TaskRanks], answers: Mapping[str, HostAnswer], ended: Mapping[int, str]
) -> tuple[RankSeen, ...]:
    """Every rank of the run in its order; `ended` says in words how ranks ended that have."""
    found = [seen for task in tasks for seen in _of_task(task, answers.get(task.host), ended)]
    return tuple(sorted(found, key=lambda seen: seen.rank))


def _of_task(task: TaskRanks, answer: HostAnswer | None, ended: Mapping[int, str]) -> Iterator[RankSeen]:
    if answer is None or answer.why_not:
        why = answer.why_not if answer is not None else "no host that answers has it"
        for rank in task.ranks:
            yield RankSeen(rank, task.host, why_not="" if rank in ended else why, ended=ended.get(rank, ""))
        return
    processes = answer.tasks.get(task.index, ())
    own = _by_rank(task, processes)
    for rank in task.ranks:
        process = own.get(rank)
        over = ended.get(rank, "") if process is None else ""
        why = "" if process is not None or over else _unseen(task, processes)
        helpers = tuple(_below(process, processes, {one.pid for one in own.values()})) if process is not None else ()
        at = answer.at - answer.ahead
        yield RankSeen(rank, task.host, process, helpers, why, over, at, answer.ahead, answer.doubt)


def _by_rank(task: TaskRanks, processes: Sequence[Process]) -> dict[int, Process]:
    """The ranks that said so themselves; where nobody did, a task of one rank has its first own process for it."""
    found: dict[int, Process] = {}
    for process in processes:
        if process.rank in task.ranks and process.torch and process.rank is not None:
            known = found.get(process.rank)
            if known is None or (not known.groups and process.groups):
                found[process.rank] = process
    if not found and len(task.ranks) == 1:
        first = next((p for p in processes if p.name not in INIT and p.state not in ("Z", "X")), None)
        first = first or next(iter(processes), None)
        return {task.ranks[0]: first} if first is not None else {}
    return found


def _below(process: Process, processes: Sequence[Process], others: set[int]) -> Iterator[Process]:
    """What comes from this process and is no rank itself."""
    known = {process.pid}
    for one in processes:
        if one.parent in known and one.pid not in others:
            known.add(one.pid)
            yield one


def _unseen(task: TaskRanks, processes: Sequence[Process]) -> str:
    if not processes:
        return "nothing of it runs"
    return "which process it is can't be told: none of them uses torch.distributed yet" if len(task.ranks) > 1 else ""
