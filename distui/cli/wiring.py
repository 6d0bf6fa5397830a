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


def limits(told: Settings, *, adopted: bool = False) -> Limits:
    """How long a run may take and waits for lost hosts; whoever takes up another's run does not end it by a limit."""
    from distui.runs.attempt.attempt import Limits

    return Limits(run=None if adopted else told.timeout, lost=told["lost_after"])


# Hosts


def inventory(told: Settings) -> Inventory:
    """The inventory of this call: --hostfile, hosts.yaml, or else the names that -H gives.

    Raises UsageError when there is none, SpecError when it is wrong.
    """
    from distui.spec.read_inventory import inventory_from_names, load_inventory

    if told.hostfile is not None:
        from distui.spec.hostfile import load_hostfile

        return load_hostfile(told.hostfile)
    path = inventory_path(told)
    if path is not None:
        return load_inventory(path)
    if told.hosts and not any(word.lstrip().startswith("@") for word in told.hosts):
        return inventory_from_names(told.hosts)
    raise _no_inventory(told)


def inventory_path(told: Settings) -> str | None:
    """The hosts.yaml of this call; None when no place has one."""
    if told["hosts_file"]:
        return str(told["hosts_file"])
    if (told.cwd / "hosts.yaml").is_file():
        return "hosts.yaml"
    return str(told.paths.hosts_file) if told.paths.hosts_file.is_file() else None


def need_inventory_path(told: Settings) -> str:
    """The hosts.yaml of this call. Raises UsageError when there is none."""
    path = inventory_path(told)
    if path is None:
        raise _no_inventory(told)
    return path


def _no_inventory(told: Settings) -> UsageError:
    return UsageError(
        f"there is no inventory: neither ./hosts.yaml nor {told.paths.hosts_file}",
        hint="name hosts with -H 'node[01-04]', a file with -i, or write hosts.yaml (`distui schema hosts`)",
    )


def maybe_inventory(told: Settings) -> Inventory | None:
    """The inventory, None when there is none to read. Raises SpecError when it is wrong."""
    if told.hostfile is None and inventory_path(told) is None and not told.hosts:
        return None
    return inventory(told)


def host_named(found: Inventory, name: str) -> Host:
    """The inventory's host of that name. Raises NotFound with the nearest one."""
    host = found.get(name)
    if host is None:
        from distui.spec.problems import did_you_mean

        known = did_you_mean(name, [h.name for h in found.hosts])
        raise NotFound(f"there is no host '{name}'{known}", hint="`distui hosts ls` lists them")
    return host


def picks(found: Inventory, told: Settings, more: Sequence[str] = ()) -> tuple[HostPick, ...]:
    """The hosts that -H, -l and `more` (a SET argument) choose; all when nothing chooses. Raises UsageError."""
    from distui.spec.choose import choose_hosts

    return choose_hosts(found, (*told.hosts, *more), told.labels)


# Connections


def make_connector(told: Settings, hosts: Sequence[Host]) -> Connector:
    """A connector for `hosts` over ssh."""
    from distui.cluster import connecting

    return connecting.make_connector(told.cluster, hosts)


def connected(told: Settings, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
    """See `distui.cluster.connecting.connected`."""
    from distui.runs.hosts.reuse import reusing

    return reusing(make_connector(told, hosts))


def ssh_words(told: Settings, host: Host) -> dict[str, Any]:
    """Where ssh will connect for `host`, and with what."""
    resolve = getattr(make_connector(told, (host,)), "resolve", None)
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


def tell_problems(out: Console, told: Settings, problems: tuple[Problem, ...]) -> int:
    """Problems of files, as words on stderr or as JSON; the exit code that follows."""
    if told.json:
        values = [dataclasses.asdict(p) for p in problems]
        out.json({"schema": "distui/problems/v1", "ok": not problems, "problems": values})
        return ExitCode.USAGE if problems else ExitCode.OK
    if problems:
        raise SpecError(problems)
    return ExitCode.OK


# Runs on this machine


def store(told: Settings) -> RunStore:
    """The runs recorded on this machine."""
    from distui.runs.store.runs import RunStore

    return RunStore(told.paths.state)
