"""Asking hosts, all at once, and an engine again: under load one fails a call now and then, and asking does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from distui.errors import HostError
from distui.facts.engine import classify_read
from distui.facts.host import Trouble
from distui.session import Completed, Connector, Session, session_on

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0)
"""Seconds before each further try."""

PASSING = frozenset({"unknown", "daemon_down"})
"""Classes of failures that may be gone the next time; all others are answers."""


async def run_with_retries(run_argv: Callable[[Sequence[str]], Awaitable[Completed]], argv: Sequence[str]) -> Completed:
    """How a command ended that asks an engine something, or ends or removes what may be gone already; never a start.

    One that fails for no reason that will stay is tried again, a bounded number of times; the last one counts.
    """
    for pause in PAUSES:
        done = await run_argv(argv)
        if done.ok or done.truncated or classify_read(done.error_text, done.status).code not in PASSING:
            return done
        await asyncio.sleep(pause)
    return await run_argv(argv)


async def ask_each(
    connector: Connector, hosts: Iterable[str], ask: Callable[[str, Session], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, Trouble]]:
    """What the hosts answer, asked all at once over a session each, and why others could not be asked."""
    found: dict[str, T] = {}
    troubles: dict[str, Trouble] = {}

    async def one(host: str) -> None:
        try:
            async with session_on(connector, host) as session:
                found[host] = await ask(host, session)
        except HostError as exc:
            troubles[host] = Trouble(exc.code, exc.message, exc.hint)

    names = tuple(hosts)
    await asyncio.gather(*map(one, names))
    return {h: found[h] for h in names if h in found}, {h: troubles[h] for h in names if h in troubles}
