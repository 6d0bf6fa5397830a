"""What every verb does: an event loop with a time limit, connections by its settings, problems reported."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from distui.amounts import duration
from distui.cli.console import Console
from distui.cli.settings import Settings, env_file_values
from distui.cli.survivors import Survivors
from distui.cluster.hosts import connecting
from distui.errors import DistuiError, ExitCode, Problem, SpecError
from distui.runs.store.open_files import raise_limit
from distui.session import Connector
from distui.spec.hosts.inventory import Host

T = TypeVar("T")

READER_SECONDS = 0.5
"""Seconds between two looks whether anybody still reads what goes on without an end."""


class TimedOut(DistuiError):
    """`--timeout` was reached by a command that has no run to stop."""

    exit_code = ExitCode.TIMEOUT


def run_async(work: Coroutine[Any, Any, T], *, limit: float | None = None) -> T:
    """Run `work` in an event loop, at most `limit` seconds. Raises TimedOut."""

    raise_limit()
    kept = Survivors(sys.argv[1:], os.environ, env_file_values())
    try:
        return asyncio.run(kept.during(within(limit, work)))
    finally:
        kept.tell()


async def within(limit: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Do `work` in at most `limit` seconds. Raises TimedOut."""
    scope = asyncio.timeout(limit)
    try:
        async with scope:
            return await work
    except TimeoutError as exc:
        if not scope.expired():
            raise
        raise TimedOut(f"not done after {duration(limit or 0)} (--timeout)") from exc


async def while_read(out: Console, work: Coroutine[Any, Any, T]) -> T:
    """Do `work`, which has no end of its own and only shows. Raises BrokenPipeError once nobody can read stdout any
    more, also where nothing is written then.
    """
    working = asyncio.ensure_future(work)
    try:
        while not working.done():
            if not out.is_read():
                raise BrokenPipeError
            await asyncio.wait([working], timeout=READER_SECONDS)
        return working.result()
    finally:
        if working.cancel():
            await asyncio.gather(working, return_exceptions=True)


def connected(settings: Settings, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
    """See `distui.cluster.hosts.connecting.connected`."""
    return connecting.connected(settings.cluster, hosts)


def tell_problems(out: Console, settings: Settings, problems: tuple[Problem, ...]) -> int:
    """Problems of files, as words on stderr or as JSON; the exit code that follows."""
    if settings.json:
        values = [dataclasses.asdict(p) for p in problems]
        out.json({"schema": "distui/problems/v1", "ok": not problems, "problems": values})
        return ExitCode.USAGE if problems else ExitCode.OK
    if problems:
        raise SpecError(problems)
    return ExitCode.OK
