"""Which processes of a task are ranks of the program's own, where one rank of the run starts several. Pure.

`command: [torchrun, ...]`, `torch.multiprocessing.spawn` and launchers like them start ranks that distui does not know
of. torch counts those over the whole program, and so do people who look at it: torch's own numbers are shown then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from distui.runs.insight.seen.answers import Process


def workers(processes: Mapping[int, Sequence[Process]]) -> dict[int, tuple[Process, ...]]:
    """Task -> its processes that are in the group in which most tasks are: launchers and side programs are not.

    Groups are distinguished by their size.
    """
    inside = {index: [one for one in found if one.torch and one.world] for index, found in processes.items()}
    sizes = Counter(size for found in inside.values() for size in {one.world or 0 for one in found})
    common = max(sizes, key=lambda size: (sizes[size], size), default=0)
    return {index: tuple(one for one in found if one.world == common) for index, found in inside.items()}


def in_others(processes: Mapping[int, Sequence[Process]], found: Mapping[int, Sequence[Process]]) -> dict[int, int]:
    """Task -> how many ranks its program counts, where that is another one than what most tasks are in (`workers`)."""
    sizes = {index: max((one.world or 0 for one in processes[index] if one.torch), default=0) for index in found}
    return {index: sizes[index] for index, own in found.items() if not own and sizes[index] > 1}


def own_ranks(found: Mapping[int, Sequence[Process]]) -> dict[int, tuple[int, Process]] | None:
    """torch's number -> the task and the process; None where every task has one at most, or numbers are not known.

    Programs that each count from zero, as independent `torchrun`s, are counted one after the other.
    """
    if all(len(each) < 2 for each in found.values()):
        return None
    before = _before(found)
    numbers = {
        before.get(index, 0) + one.torch_rank: (index, _apart(one, index, before[index]) if before else one)
        for index, each in found.items()
        for one in each
        if one.torch_rank is not None
    }
    return numbers if len(numbers) == sum(map(len, found.values())) else None


def _before(found: Mapping[int, Sequence[Process]]) -> dict[int, int]:
    """Task -> how many ranks those before it have, where each is a world of its own; nothing where they are one."""
    world = _world(found)
    each = [[one.torch_rank for one in own] for own in found.values()]
    if sum(map(len, each)) <= world or any(len(set(numbers)) < len(numbers) for numbers in each):
        return {}
    return {index: place * world for place, index in enumerate(sorted(found))}


def _world(found: Mapping[int, Sequence[Process]]) -> int:
    return max((one.world or 0 for each in found.values() for one in each), default=0)


def _apart(process: Process, index: int, before: int) -> Process:
    """A process whose groups are those of its task alone, with the members of the default one."""
    groups = {}
    for name, group in (process.groups or {}).items():
        own, mark, nccl = name.partition(":")
        default = group.about == "default_pg"
        ranks = group.ranks or (tuple(range(process.world or 0)) if default else ())
        name = f"{own} of task {index}{mark}{nccl}"
        groups[name] = replace(group, name=name, ranks=tuple(before + number for number in ranks))
    return replace(process, groups=groups if process.groups is not None else None)


def absent(found: Mapping[int, Sequence[Process]], known: Iterable[int]) -> dict[int, int | None]:
    """Numbers of which no process is known -> the task that must have it, as launchers count: task by task.

    None where that does not come out even.
    """
    world, here = _world(found), set(known)
    if before := _before(found):
        places = {start + number: index for index, start in before.items() for number in range(world)}
        return {number: index for number, index in places.items() if number not in here}
    missing = [number for number in range(world) if number not in here]
    each = world // len(found)
    lacks = [index for index, there in sorted(found.items()) for _ in range(each - len(there))]
    even = len(lacks) == len(missing)
    return {number: lacks[place] if even else None for place, number in enumerate(missing)}


def furthest_behind(found: Sequence[Process]) -> Process:
    """The process of these that others wait for longest: it has begun the fewest collectives of the largest group."""
    return min(found, key=lambda one: (_begun(one), one.pid))


def _begun(process: Process) -> int:
    groups = (process.groups or {}).values()
    return next((group.enqueued for group in groups if len(group.ranks) == process.world), 0)
