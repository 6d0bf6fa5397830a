"""Somebody who wants to know how a run ends, and follows none of its logs: seen by those who do, who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from distui.errors import DistuiError
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


@contextlib.asynccontextmanager
async def looking(connector: Connector, plan: RunPlan, stored: StoredRun) -> AsyncIterator[Onlooker]:
    """An onlooker of a run while the block runs; `stored` is the folder that the run has or would have here."""
    onlooker = Onlooker(connector, plan, stored)
    try:
        yield onlooker
    finally:
        await onlooker.close()
