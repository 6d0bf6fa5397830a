"""What a run still has on its hosts, and how much that is: what `prune` would remove, told before it does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from distui.errors import HostError
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.docker import sizes
from distui.plan.tasks import run_folder
from distui.runs.hosts.discover import FoundTask, find_runs
from distui.session import Connector, Session
from distui.spec.hosts.inventory import Host
from distui.whole import whole

_FOLDER = 'd=$HOME/$1; [ -d "$d" ] && du -sk -- "$d"; :'


@frozen
class Remain:
    """One thing that would go: on which host, what it is, and its bytes where they are known."""

    host: str
    what: str
    size: int | None = None


@frozen
class Remains:
    """Everything that was found, and the hosts that could not be asked."""

    items: tuple[Remain, ...]
    unreachable: Mapping[str, Trouble]
    ranks: tuple[int, ...] = ()
    """Ranks whose logs would go with their containers or processes."""


async def remains(connector: Connector, hosts: Sequence[Host], run: str) -> Remains:
    """Ask all hosts at once for containers and folders of a run. Removes nothing."""
    found = await find_runs(connector, hosts, run=run)
    there = found.get(run)
    tasks = there.tasks if there is not None else ()
    up = [host for host in hosts if host.name not in found.unreachable]
    answers = await asyncio.gather(*(_of(connector, h, run, [t for t in tasks if t.host == h.name]) for h in up))
    items: list[Remain] = []
    troubles = dict(found.unreachable)
    for host, answer in zip(up, answers, strict=True):
        if isinstance(answer, Trouble):
            troubles[host.name] = answer
        else:
            items += answer
    return Remains(tuple(items), troubles, tuple(sorted(rank for task in tasks for rank in task.labels.ranks)))


async def _of(connector: Connector, host: Host, run: str, tasks: Sequence[FoundTask]) -> list[Remain] | Trouble:
    try:
        session = await connector.connect(host.name)
        try:
            return [*await _containers(session, host, tasks), *await _folder(session, host, run)]
        finally:
            await session.close()
    except HostError as exc:
        return Trouble(exc.code, exc.message, exc.hint)


async def _containers(session: Session, host: Host, tasks: Sequence[FoundTask]) -> list[Remain]:
    """Containers with what they wrote; processes are in the run's folder."""
    if host.engine == "process" or not tasks:
        return []
    done = await session.run(sizes(host.engine_command, [t.id for t in tasks]))
    states = dict(line.split(maxsplit=1) for line in done.text.splitlines() if len(line.split()) == 2)
    found = []
    for task in tasks:
        message = f"{task.labels.engine} container {task.id[:12]}, task {task.labels.task}, {task.status}"
        found.append(Remain(host.name, message, whole(states.get(task.id, ""))))
    return found


async def _folder(session: Session, host: Host, run: str) -> list[Remain]:
    place = run_folder("", host.name, run).lstrip("/")
    done = await session.run(("sh", "-c", _FOLDER, "sh", place))
    words = done.text.split(maxsplit=1)
    kib = whole(words[0]) if len(words) == 2 else None
    return [] if kib is None else [Remain(host.name, f"~/{place}", kib * 1024)]
