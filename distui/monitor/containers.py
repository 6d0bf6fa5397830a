"""Every container of a host, whoever started it, and the log of one as it goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from distui.facts.values import as_object, integer
from distui.framing import Behind
from distui.frozen import frozen
from distui.plan.command import docker
from distui.plan.labels import TaskLabels, task_from_labels
from distui.runs.hosts.discover import FoundTask, Runner, inspected, list_tasks, listed_ids, rfc3339
from distui.runs.hosts.inherited import inherited
from distui.runs.lines.text import safe, text_of
from distui.runs.store.masking import Mask
from distui.session import Session
from distui.spec.hosts.inventory import Host

Argv = tuple[str, ...]

LOG_LINES = 1000
"""Lines of a log shown before those that come."""

_READ = 256 * 1024
_BEGIN = b"distui-begin\n"
_FOLLOW = 'echo distui-begin; "$0" "$@" 2>&1 & exec >/dev/null 2>&1; cat; kill 0'
"""Ends with its stdin: a follower alone would outlive the connection (FAULTS M22). Its output ends with the log."""


@frozen
class HostContainer:
    """One container, or one process distui started where there is no engine. Times are the host's clock."""

    host: str
    id: str
    name: str
    image: str
    status: str
    """The engine's word: running, exited, created, paused, restarting, dead."""
    running: bool
    exit: int | None = None
    oom: bool = False
    since: float | None = None
    """When it started, or ended, or was made: whatever its status is since."""
    task: TaskLabels | None = None
    """Whose it is, when distui started it."""
    engine: str = "docker"


async def list_containers(run_argv: Runner, host: Host) -> tuple[HostContainer, ...]:
    """All of them, running ones first, then the newest. Raises HostCommandError with the engine's words."""
    if host.engine == "process":
        tasks = await list_tasks(run_argv, host.name, host.engine, host.engine_command)
        found = [_process(task) for task in tasks]
    else:
        ids = listed_ids(host.name, await run_argv(docker.list_ids(host.engine_command, every=True)))
        values = await inspected(run_argv, host.name, host.engine_command, ids) if ids else []
        theirs = await inherited(run_argv, host.engine_command, values)
        found = [_container(host, value) for value in values]
        found = [replace(one, task=None) if one.id in theirs else one for one in found]
    return tuple(sorted(found, key=lambda c: (not c.running, -(c.since or 0.0), c.name)))


def _container(host: Host, value: Mapping[str, Any]) -> HostContainer:
    config, state = as_object(value.get("Config")), as_object(value.get("State"))
    running = docker.runs(state)
    times = [str(state.get(key, "")) for key in (("StartedAt",) if running else ("FinishedAt", "StartedAt"))]
    since = next((at for text in (*times, str(value.get("Created", ""))) if (at := rfc3339(text)) is not None), None)
    status = str(state.get("Status", "unknown"))
    return HostContainer(
        host=host.name,
        id=str(value.get("Id", "")),
        name=str(value.get("Name", "")).removeprefix("/"),
        image=str(config.get("Image") or value.get("ImageName") or value.get("Image") or ""),
        status=status,
        running=running,
        exit=None if running or status in docker.UNSTARTED else integer(state.get("ExitCode")),
        oom=bool(state.get("OOMKilled")),
        since=since,
        task=task_from_labels({k: str(v) for k, v in as_object(config.get("Labels")).items()}),
        engine=host.engine,
    )


def _process(task: FoundTask) -> HostContainer:
    return HostContainer(
        host=task.host,
        id=task.id,
        name=f"{task.labels.run} task {task.labels.task}",
        image="",
        status=task.status,
        running=task.running,
        exit=task.exit,
        since=task.started if task.running else task.finished or task.started,
        task=task.labels,
        engine="process",
    )


async def last_line(run_argv: Runner, host: Host, task: FoundTask, mask: Mask) -> str:
    """What a task said last, also when that is not a whole line yet; empty where that can't be read."""
    if task.labels.engine == "process":
        argv: Argv = ("tail", "-n", "3", f"{task.id}/log")
    else:
        argv = docker.logs(host.engine_command, task.id, tail=3)
    done = await run_argv(("sh", "-c", 'exec "$@" 2>&1', "sh", *argv))
    said = (
        [text for line in mask.raw(done.stdout).splitlines() if (text := safe(text_of(line)).strip())]
        if done.ok
        else []
    )
    return said[-1] if said else ""


def log_argv(host: Host, container: HostContainer, *, lines: int = LOG_LINES) -> Argv:
    """The last lines and, while it runs, what comes."""
    if container.engine == "process":
        return ("tail", "-n", str(lines), *(("-f",) if container.running else ()), f"{container.id}/log")
    return docker.logs(host.engine_command, container.id, follow=container.running, tail=lines)


async def follow_log(session: Session, argv: Argv) -> AsyncGenerator[bytes, None]:
    """The log's bytes, stdout and stderr as they come; ends when the log does. Close it to stop the follower."""
    channel = await session.open(("sh", "-c", _FOLLOW, *argv))
    noise: Behind | None = Behind(_BEGIN)
    try:
        while data := await channel.read(_READ):
            if noise is not None:  # what a noisy login shell says comes first
                answer = noise.feed(data)
                if answer is None:
                    continue
                noise, data = None, answer
            if data:
                yield data
    finally:
        await channel.close()


def shell_argv(host: Host, container: HostContainer) -> Argv:
    """A shell in a running container: bash where the image has it."""
    return (*host.engine_command, "exec", "-it", container.id, "sh", "-c", "exec bash 2>/dev/null || exec sh")
