"""The part of the backend that works on runs: those recorded here and those on the hosts, whoever started them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from distui.amounts import counted
from distui.cluster.attach.beside import Beside
from distui.cluster.attach.ending import end_run
from distui.cluster.attach.following import LeftBehind, Leftover, Over, follow_run, open_run, over_here
from distui.cluster.attach.listing import list_runs
from distui.cluster.attach.places import NameTaken, Places, RunLocation, check_name, find_again, recorded_plan
from distui.cluster.attach.removing import remove_run
from distui.cluster.attach.run_manager import FollowedRun, RecordedRun, RunManager
from distui.cluster.backend.ending import StopInApp
from distui.cluster.backend.values import LiveRun
from distui.cluster.hosts.connecting import Connect
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.cluster.why import Why, why, why_followed
from distui.errors import UsageError
from distui.runs.control.controller import RunController
from distui.runs.hosts.discover import FoundRuns
from distui.runs.hosts.last_said import LastSaid
from distui.runs.hosts.remains import Remain, Remains, remains
from distui.runs.launch.job_record import JobRecord, recorded_job
from distui.runs.report.history import RunRow
from distui.runs.state.standstill import standstill
from distui.runs.store.masking import Mask, stored_secrets
from distui.runs.store.runs import StoredRun
from distui.runs.store.saved_hosts import saved_hosts
from distui.session import Connector
from distui.spec.hosts.inventory import Host

T = TypeVar("T")


class RunBackend(ABC):
    """What needs the records here, the hosts, or a run that is followed; `ClusterBackend` has them."""

    settings: ClusterSettings
    places: Places
    hosts: tuple[Host, ...]
    others: tuple[Host, ...] = ()
    """Hosts besides these that were asked for the runs they have: others' runs may be there, too."""
    owner: str
    leaves_out: bool
    _manager: RunManager
    _connect: Connect
    _said: LastSaid

    @abstractmethod
    def reaching(self, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
        """Connections to these hosts, which stay open for the next call."""

    def recorded_job(self, run: str) -> JobRecord | None:
        """See the protocol."""
        stored = self.settings.store.get(run)
        return recorded_job(stored) if stored is not None else None

    def stored(self, run: str) -> StoredRun | None:
        """See the protocol."""
        return self.settings.store.get(run)

    def mask(self, stored: StoredRun) -> Mask:
        """See the protocol."""
        return mask_of(self.settings, stored_secrets(stored))

    async def attach(self, run: str, say: Callable[[str], None] = lambda words: None) -> LiveRun:
        """See the protocol."""
        followed = self._manager.living.get(run)
        if followed is not None:
            return followed
        return await self._at(run, lambda place: self.attach_at(place, say))

    async def _at(self, run: str, work: Callable[[RunLocation], Awaitable[T]]) -> T:
        """Do `work` where the run is; once more where what is recorded here has lost its name to one that lives."""
        place = self._locate(run)
        try:
            return await work(place)
        except NameTaken as exc:
            again = self.places.renamed(lambda words: None, place, exc)
            hosts = {host.name: host for host in (*again.hosts, *self.hosts)}
            return await work(replace(again, hosts=tuple(hosts.values())))

    async def attach_at(self, place: RunLocation, say: Callable[[str], None]) -> LiveRun:
        """Follow the run that is there, or play one again that is over by now. Raises as `open_run`, and LeftBehind."""
        async with AsyncExitStack() as stack:
            connector = await stack.enter_async_context(self._connect(place.hosts))
            run = await open_run(self.settings, connector, say, place)
            if isinstance(run, Over):
                return await asyncio.to_thread(self.replay, place.run)
            if isinstance(run, Leftover):
                raise LeftBehind(run)

            async def keep(controller: RunController | Beside) -> FollowedRun:
                own = not isinstance(controller, Beside)
                connected = stack.pop_all() if own else contextlib.nullcontext()
                return await self._manager.keep(connected, lambda _: controller)

            return await follow_run(
                self.settings, connector, place, run, keep, connect=self._connect, folder=self._manager.folder
            )

    def _locate(self, run: str) -> RunLocation:
        """Where a run may be: its recorded hosts, else all hosts that are asked for runs."""
        check_name(run)
        stored = self.settings.store.get(run)
        hosts = saved_hosts(stored) if stored is not None else ()
        return RunLocation(run, stored, hosts or (*self.hosts, *self.others), self.leaves_out and not hosts)

    def replay(self, run: str) -> LiveRun:
        """See the protocol."""
        followed = self._manager.runs.get(run)
        if followed is not None and not self._went_on(followed):
            return followed
        stored = self.settings.store.need(run)
        return RecordedRun(recorded_plan(self.settings, run), stored, self.mask(stored))

    def _went_on(self, followed: FollowedRun) -> bool:
        """Whether it was left or lost here, and another distui of this machine has recorded its end since."""
        run, ended = followed.plan.run_id, followed.state.ended
        left = ended is not None and ended.outcome in ("detached", "unknown")
        return left and over_here(RunLocation(run, self.settings.store.get(run), ())) is not None

    @property
    def following(self) -> Mapping[str, FollowedRun]:
        """See the protocol."""
        return self._manager.living

    async def runs(self) -> tuple[tuple[RunRow, ...], FoundRuns]:
        """See the protocol."""
        listed = await list_runs(self.places, self.hosts, self.reaching, self._said)
        known = {host.name for host in self.hosts}
        others = {host.name: host for host in (*self.others, *listed.asked) if host.name not in known}
        self.others = tuple(others.values())
        rows = await asyncio.to_thread(lambda: [self._with_size(row) for row in listed.rows])
        return tuple(map(self._as_followed, rows)), listed.found

    def _with_size(self, row: RunRow) -> RunRow:
        stored = self.settings.store.get(row.run) if row.recorded else None
        return row if stored is None else replace(row, size=_files(stored.path)[1])

    def _as_followed(self, row: RunRow) -> RunRow:
        """What this backend follows it knows better than labels and records do."""
        followed = self._manager.living.get(row.run)
        if followed is None:
            return row
        state, stands = followed.state, standstill(followed.plan, followed.state, time.time())
        return replace(row, state=state.summary, live=True, attempt=state.attempt, stalled=stands, followed=True)

    async def stop(
        self, run: str, *, grace: float | None = None, of: str = "", say: Callable[[str], None] = lambda words: None
    ) -> tuple[str, ...]:
        """See the protocol."""
        self.settings.refuse_readonly(f"to stop {run}")

        async def stop(place: RunLocation) -> tuple[str, ...]:
            front = StopInApp(place, self._manager, self._connect, frozenset({self.owner, of}), say)
            word = "kill" if grace == 0 else "stop"
            async with self._connect(place.hosts) as connector:
                done = await end_run(self.settings, connector, front, place, grace=grace, word=word)
            return done.left

        return await self._at(run, stop)

    async def why(self, run: str, *, stacks: bool = False) -> Why:
        """See the protocol."""
        followed = self._manager.living.get(run)
        controller = followed.controller if followed is not None else None
        if isinstance(controller, Beside):
            controller = controller.owner
        if controller is not None:
            return await why_followed(controller, stacks=stacks)
        place = self._locate(run)
        async with self._connect(place.hosts) as connector:
            return await why(self.settings, connector, place, stacks=stacks)

    async def remains(self, run: str) -> Remains:
        """See the protocol."""
        place = self._locate(run)
        async with self._connect(place.hosts) as connector:
            found = await remains(connector, place.hosts, run, *await find_again(connector, place))
        if place.is_complete:
            found = replace(found, ranks=())
        if place.stored is None:
            return found
        count, size = await asyncio.to_thread(_files, place.stored.path)
        own = Remain("here", f"{place.stored.path}, {counted(count, 'file')}", size)
        return replace(found, items=(*found.items, own))

    async def prune(self, run: str) -> None:
        """See the protocol."""
        await self._at(run, self._prune)

    async def _prune(self, place: RunLocation) -> None:
        run = place.run
        if run in self._manager.living or (place.stored is not None and place.stored.is_followed):
            raise UsageError(f"run {run} is followed on this machine", hint="stop it first")
        async with self._connect(place.hosts) as connector:
            done = await remove_run(self.settings, connector, place)
        assert done is not None
        if not done.whole:
            failed = (f"{host}: {text}" for host, text in done.errors.items())
            left = "; ".join([*done.leftovers, *failed, *done.swept.left, *done.swept.failed])
            raise UsageError(f"run {run} is not all gone: {left}", hint="try again")
        if done.unreachable:
            raise UsageError(
                f"not reached: {', '.join(done.unreachable)}; nothing was deleted here",
                hint="try again when they are back",
            )
        if place.stored is not None:
            await asyncio.to_thread(self.settings.store.remove, run)
        self._manager.runs.pop(run, None)


def _files(folder: Path) -> tuple[int, int]:
    """How many files a run's folder has, and their bytes; others may move or remove them meanwhile."""
    sizes = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError):
                if path.is_file():
                    sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)
