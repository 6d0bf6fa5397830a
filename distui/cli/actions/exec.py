"""`distui exec`: a command or a shell in the container of a rank."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import replace

from distui.cli import wiring
from distui.cli.actions.ssh import become
from distui.cli.console import Console
from distui.cli.runs.execs import Marked
from distui.cli.runs.streams import pass_through
from distui.cli.settings import Settings
from distui.cli.signals import signals_end
from distui.cluster.attach import places
from distui.cluster.attach.leftover import run_there
from distui.cluster.backend.backend_hosts import ssh_login
from distui.errors import ContactLost, NotFound, SessionLost, UsageError
from distui.facts.host import Trouble
from distui.facts.troubles import shared
from distui.plan.labels import format_ranks
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.store.recorded import stored_plan
from distui.spec.hosts.inventory import Host

SHELL = ("sh", "-c", "exec bash 2>/dev/null || exec sh")


def act(settings: Settings, out: Console, run: str, rank: int | None, tty: bool, words: tuple[str, ...]) -> int:
    """See `exec --help`."""
    settings.refuse_readonly("exec")
    if not words and not sys.stdin.isatty():
        raise UsageError("there is no terminal for a shell", hint=f"distui exec {run} --rank 0 -- COMMAND")

    def execute(place: places.RunLocation) -> int:
        with signals_end(signal.SIGTERM, signal.SIGHUP):
            return wiring.run_async(_exec(settings, out, place, rank, words), limit=settings.timeout)

    def find(place: places.RunLocation) -> tuple[Host, FoundTask]:
        return wiring.run_async(_find(settings, place, rank), limit=settings.timeout)

    if words and not tty:
        return settings.places.at(out.say, run, execute)
    host, task = settings.places.at(out.say, run, find)
    argv = (*host.engine_command, "exec", "-it" if sys.stdin.isatty() else "-i", task.id, *(words or SHELL))
    return become(ssh_login(host, argv, tty=sys.stdin.isatty()))


async def _find(settings: Settings, place: places.RunLocation, rank: int | None) -> tuple[Host, FoundTask]:
    """The rank's container. Raises NotFound, ContactLost or UsageError."""

    def has_it(task: FoundTask) -> bool:
        return task.running and rank in task.labels.ranks

    async with wiring.connected(settings, place.hosts) as connector:
        others, silent = place, dict[str, Trouble]()
        if (near := _near(place, rank)) is not None:
            asked, why = await places.find_again(connector, near)
            if asked is not None and any(has_it(task) for task in asked.tasks):
                return near.hosts[0], _task(asked, rank, {})
            silent |= why
            others = replace(place, hosts=tuple(host for host in place.hosts if host.name not in why))
        asked, why = await places.find(connector, others, has_it)
        silent |= why
        found = await run_there(settings.cluster, connector, place, asked, silent)
    task = _task(found, rank, silent)
    return next(host for host in place.hosts if host.name == task.host), task


def _near(place: places.RunLocation, rank: int | None) -> places.RunLocation | None:
    """The host that has a rank by the plan recorded here: it is asked first, since others may take long to answer."""
    plan = stored_plan(place.stored) if place.stored is not None else None
    planned = {task.host for task in plan.tasks if rank in task.ranks} if plan is not None else set()
    hosts = tuple(host for host in place.hosts if host.name in planned)
    return replace(place, hosts=hosts) if len(hosts) == 1 < len(place.hosts) else None


def _task(found: FoundRun, rank: int | None, silent: Mapping[str, Trouble]) -> FoundTask:
    held = [t for t in found.tasks if rank is None or rank in t.labels.ranks]
    ranks = format_ranks(sorted(r for t in found.tasks for r in t.labels.ranks))
    if not held and silent:
        lines = (f"  {one.message}" for one in shared(silent))
        message = f"rank {rank} of {found.run} is on no host that answers (ranks there: {ranks}); not reached:"
        raise ContactLost("\n".join([message, *lines]), hint="try again when the hosts are back")
    if not held:
        raise NotFound(f"run {found.run} has no rank {rank} on its hosts (ranks there: {ranks})")
    if len(held) > 1:
        raise UsageError(f"run {found.run} has {len(held)} containers", hint="name a rank: --rank 0")
    (task,) = held
    if task.labels.engine == "process":
        raise UsageError(f"rank {rank or 0} runs without a container", hint=f"distui ssh {task.host}")
    if not task.running:
        raise UsageError(f"the container on {task.host} does not run any more ({task.status})")
    return task


async def _exec(
    settings: Settings, out: Console, place: places.RunLocation, rank: int | None, words: tuple[str, ...]
) -> int:
    """Over our own connection, whose words arrive as given whatever the login shell is."""
    host, task = await _find(settings, place, rank)
    async with wiring.connected(settings, place.hosts) as connector:
        session = await connector.connect(host.name)
        marked = Marked(host.engine_command, task.id, words)
        try:
            stdout, stderr = sys.stdout.fileno(), sys.stderr.fileno()
            return await pass_through(session, marked.argv, stdin=_stdin(), stdout=stdout, stderr=stderr)
        except BaseException as exc:  # Ctrl-C, --timeout, a reader that left: no engine tells the command
            ended = isinstance(exc, ContactLost | SessionLost)  # these say it, too
            try:
                ended = await marked.end(session) or ended
            finally:  # also after another Ctrl-C, which waits no longer
                if not ended:
                    out.warn(f"distui: the command may still run in the container on {host.name}", "yellow")
            raise
        finally:
            await session.close()


def _stdin() -> int | None:
    """The file descriptor of stdin; None when the caller closed it."""
    try:
        return sys.stdin.fileno() if sys.stdin is not None else None
    except (OSError, ValueError):
        return None
