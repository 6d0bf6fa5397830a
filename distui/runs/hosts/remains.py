"""What a run still has on its hosts, and how much that is: what `prune` would remove, shown before it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.command.docker import sizes
from distui.plan.command.folders import run_folder
from distui.runs.hosts.asking import ask_each
from distui.runs.hosts.discover import FoundRun, FoundTask
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


async def remains(
    connector: Connector, hosts: Sequence[Host], run: str, there: FoundRun | None, unreachable: Mapping[str, Trouble]
) -> Remains:
    """Ask all hosts at once for containers and folders of a run that was found `there`, but for those that are
    `unreachable`. Removes nothing.
    """
    tasks = there.tasks if there is not None else ()
    up = {host.name: host for host in hosts if host.name not in unreachable}

    async def ask(name: str, session: Session) -> list[Remain]:
        here = [task for task in tasks if task.host == name]
        return [*await _containers(session, up[name], here), *await _folder(session, name, run)]

    answers, troubles = await ask_each(connector, up, ask)
    ranks = sorted(rank for task in tasks for rank in task.labels.ranks)
    return Remains(tuple(chain(*answers.values())), {**unreachable, **troubles}, tuple(ranks))


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


async def _folder(session: Session, host: str, run: str) -> list[Remain]:
    place = run_folder("", host, run).lstrip("/")
    done = await session.run(("sh", "-c", _FOLDER, "sh", place))
    words = done.text.split(maxsplit=1)
    kib = whole(words[0]) if len(words) == 2 else None
    return [] if kib is None else [Remain(host, f"~/{place}", kib * 1024)]
