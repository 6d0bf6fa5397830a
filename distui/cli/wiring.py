"""Where the rooms are joined: from settings to an inventory, hosts, connections, facts and stored runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from distui.cli.settings import Settings
from distui.errors import DistuiError, ExitCode, NotFound, Problem, SpecError, UsageError

if TYPE_CHECKING:
    from distui.cli.console import Console
    from distui.runs.attempt.attempt import Limits
    from distui.runs.store.runs import RunStore
    from distui.session import Connector
    from distui.spec.inventory import Host, HostPick, Inventory

T = TypeVar("T")


class TimedOut(DistuiError):
    """`--timeout` was reached by a command that has no run to stop."""

    exit_code = ExitCode.TIMEOUT


def run_async(work: Coroutine[Any, Any, T], *, limit: float | None = None) -> T:
    """Run `work` in an event loop, at most `limit` seconds. Raises TimedOut."""

    import asyncio  # dear, and not needed to print help

    from distui.runs.store.open_files import raise_limit

    raise_limit()
    return asyncio.run(within(limit, work))


async def within(limit: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Do `work` in at most `limit` seconds. Raises TimedOut."""
    import asyncio

    scope = asyncio.timeout(limit)
    try:
        async with scope:
            return await work
    except TimeoutError as exc:
        if not scope.expired():
            raise
        raise TimedOut(f"not done after {limit:g} s (--timeout)") from exc


def limits(settings: Settings, *, adopted: bool = False) -> Limits:
    """How long a run may take and waits for lost hosts; whoever takes up another's run does not end it by a limit."""
    from distui.runs.attempt.attempt import Limits

    return Limits(run=None if adopted else settings.timeout, lost=settings["lost_after"])


# Hosts


def inventory(settings: Settings) -> Inventory:
    """The inventory of this call: --hostfile, hosts.yaml, or else the names that -H gives.

    Raises UsageError when there is none, SpecError when it is wrong.
    """
    from distui.spec.read_inventory import inventory_from_names, load_inventory

    if settings.hostfile is not None:
        from distui.spec.hostfile import load_hostfile

        return load_hostfile(settings.hostfile)
    path = inventory_path(settings)
    if path is not None:
        return load_inventory(path)
    if settings.hosts and not any(word.lstrip().startswith("@") for word in settings.hosts):
        return inventory_from_names(settings.hosts)
    raise _no_inventory(settings)


def inventory_path(settings: Settings) -> str | None:
    """The hosts.yaml of this call; None when no place has one."""
    if settings["hosts_file"]:
        return str(settings["hosts_file"])
    if (settings.cwd / "hosts.yaml").is_file():
        return "hosts.yaml"
    return str(settings.paths.hosts_file) if settings.paths.hosts_file.is_file() else None


def need_inventory_path(settings: Settings) -> str:
    """The hosts.yaml of this call. Raises UsageError when there is none."""
    path = inventory_path(settings)
    if path is None:
        raise _no_inventory(settings)
    return path


def _no_inventory(settings: Settings) -> UsageError:
    return UsageError(
        f"there is no inventory: neither ./hosts.yaml nor {settings.paths.hosts_file}",
        hint="name hosts with -H 'node[01-04]', a file with -i, or write hosts.yaml (`distui schema hosts`)",
    )


def maybe_inventory(settings: Settings) -> Inventory | None:
    """The inventory, None when there is none to read. Raises SpecError when it is wrong."""
    if settings.hostfile is None and inventory_path(settings) is None and not settings.hosts:
        return None
    return inventory(settings)


def host_named(found: Inventory, name: str) -> Host:
    """The inventory's host of that name. Raises NotFound with the nearest one."""
    host = found.get(name)
    if host is None:
        from distui.spec.problems import did_you_mean

        known = did_you_mean(name, [h.name for h in found.hosts])
        raise NotFound(f"there is no host '{name}'{known}", hint="`distui hosts ls` lists them")
    return host


def picks(found: Inventory, settings: Settings, more: Sequence[str] = ()) -> tuple[HostPick, ...]:
    """The hosts that -H, -l and `more` (a SET argument) choose; all when nothing chooses. Raises UsageError."""
    from distui.spec.choose import choose_hosts

    return choose_hosts(found, (*settings.hosts, *more), settings.labels)


# Connections


def make_connector(settings: Settings, hosts: Sequence[Host]) -> Connector:
    """A connector for `hosts` over ssh."""
    from distui.cluster import connecting

    return connecting.make_connector(settings.cluster, hosts)


def connected(settings: Settings, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
    """See `distui.cluster.connecting.connected`."""
    from distui.runs.hosts.reuse import reusing

    return reusing(make_connector(settings, hosts))


def ssh_words(settings: Settings, host: Host) -> dict[str, Any]:
    """Where ssh will connect for `host`, and with what."""
    resolve = getattr(make_connector(settings, (host,)), "resolve", None)
    if resolve is None:
        return {}
    found = resolve(host.name)
    return {
        "host": found.hostname,
        "port": found.port,
        "user": found.user,
        "jump": list(found.jumps),
        "keys": [str(p) for p in found.identity_files if p.exists()],
        "known_hosts": [str(p) for p in found.known_hosts if p.exists()],
    }


def tell_problems(out: Console, settings: Settings, problems: tuple[Problem, ...]) -> int:
    """Problems of files, as words on stderr or as JSON; the exit code that follows."""
    if settings.json:
        values = [dataclasses.asdict(p) for p in problems]
        out.json({"schema": "distui/problems/v1", "ok": not problems, "problems": values})
        return ExitCode.USAGE if problems else ExitCode.OK
    if problems:
        raise SpecError(problems)
    return ExitCode.OK


# Runs on this machine


def store(settings: Settings) -> RunStore:
    """The runs recorded on this machine."""
    from distui.runs.store.runs import RunStore

    return RunStore(settings.paths.state)
