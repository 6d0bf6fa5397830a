"""Somebody who wants to know how a run ends, and follows none of its logs: seen by those who do, who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping

from distui.errors import DistuiError
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.hosts.readers import Act, Visit, waiter_id
from distui.runs.store.end_record import EndRecord, read_record
from distui.runs.store.runs import StoredRun
from distui.runs.task.host_run import HostRun
from distui.session import Connector


class Onlooker:
    """Looks for the verdict of one attempt on its hosts."""

    def __init__(self, connector: Connector, plan: RunPlan, stored: StoredRun) -> None:
        self._hosts = [HostRun(host, plan, connector) for host in plan.hosts]
        self.attempt = plan.attempt
        """Which attempt's verdict it looks for."""
        self.is_judged = False
        """Whether somebody still reads the run who will record how it ended, when that was looked for last."""
        self.is_begun = False
        """Whether somebody follows the run who begins its next attempt, when its folder was seen last."""
        self._token = plan.token
        self._reader = waiter_id(stored)
        for host in self._hosts:
            host.reconnect_timeout = 0.0

    async def look(self) -> EndRecord | None:
        """The verdict, once somebody has written it; until then a mark says that it is waited for.

        Where another attempt may follow, that one is waited for, too, also before it is seen.
        """
        visits = await self._visit("mark")
        self.is_judged = any(seen.judges for seen in visits)
        if any(seen.ours for seen in visits):
            self.is_begun = any(seen.begins for seen in visits)
        records = (read_record(seen.verdict, self._token) for seen in visits)
        found = next((record for record in records if record is not None), None)
        if found is not None:
            await self._visit("next" if found.may_go_on else "leave")
        return found

    async def _visit(self, act: Act) -> list[Visit]:
        async def one(host: HostRun) -> Visit:
            with contextlib.suppress(DistuiError):
                return await host.notes.visit(self._reader, act)
            return Visit(ours=False)

        return await asyncio.gather(*(one(host) for host in self._hosts))

    async def close(self) -> None:
        """Take the marks away and let go of the hosts."""
        await self._visit("leave")
        await asyncio.gather(*(host.link.close() for host in self._hosts))


@frozen
class ReadBy:
    """Who reads a run, or waits for its end, just now."""

    names: frozenset[str]
    """Who says so; some may not say who they are."""
    count: int
    """How many there are on one host, at most."""
    unasked: Mapping[str, str]
    """Hosts that did not tell, and why."""


async def read_by(connector: Connector, plan: RunPlan, names: Iterable[str], reader: str) -> ReadBy:
    """Ask these hosts of a run who reads it but for `reader`; leaves no mark."""
    hosts = [HostRun(host, plan, connector) for host in names]
    unasked: dict[str, str] = {}

    async def one(host: HostRun) -> Visit:
        host.reconnect_timeout = 0.0
        try:
            await host.connect()
            return await host.notes.visit(reader)
        except DistuiError as exc:
            unasked[host.host] = exc.message
            return Visit(ours=False, known=False)

    try:
        seen = await asyncio.gather(*(one(host) for host in hosts))
    finally:
        await asyncio.gather(*(host.link.close() for host in hosts))
    said = frozenset(name for visit in seen for name in visit.names)
    return ReadBy(said, max((visit.others for visit in seen), default=0), unasked)


@contextlib.asynccontextmanager
async def looking(connector: Connector, plan: RunPlan, stored: StoredRun) -> AsyncIterator[Onlooker]:
    """An onlooker of a run while the block runs; `stored` is the folder that the run has or would have here."""
    onlooker = Onlooker(connector, plan, stored)
    try:
        yield onlooker
    finally:
        await onlooker.close()
