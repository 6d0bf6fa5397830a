"""Whole runs over hosts in memory: plans, a follower that watches the fake containers, and a driven controller."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.attach import live_run
from distui.errors import HostError
from distui.facts.host import Address, Engine, HostFacts, Nic
from distui.plan.model import RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import to_json
from distui.runs.attempt.run_context import run_context
from distui.runs.attempt.steps import LaunchOptions
from distui.runs.control.controller import RunController
from distui.runs.follow.followed import (
    Drained,
    Emit,
    Exited,
    FollowEvent,
    FollowTarget,
    Note,
    Records,
    Removed,
    Room,
    Sampled,
    no_wait,
)  # fmt: skip
from distui.runs.follow.resume import ResumePoint
from distui.runs.hosts.link import HostLink
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import Event, RunEnded
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.watch import watch as watch_module
from distui.session import Connector
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job
from fakehosts.hosts import FakeConnector, FakeHost

LIMIT_S = 60.0
"""A run of these hosts takes less than a second, on a busy machine twenty times that."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that a run does by itself; whoever waits for ever is ended by the test's own limit."""
    while not condition():  # noqa: ASYNC110 - values change in many places, and fake hosts have no events for them
        await asyncio.sleep(0.002)


def facts_of(name: str, number: int = 11, **more: Any) -> HostFacts:
    """What a probe finds on a fake host."""
    return HostFacts(
        host=name,
        hostname=name,
        home="/home/u",
        machine_id=f"m-{name}",
        nics=(Nic("eth0", "ethernet", True, 1500, addresses=(Address(f"10.0.0.{number}", 24),)),),
        engine=Engine("docker", ("docker",)),
        default_route_nic="eth0",
        **more,
    )


def plan_for(
    *names: str,
    run_id: str = "r1",
    attempt: int = 1,
    facts: Mapping[str, HostFacts] | None = None,
    taken: Mapping[str, Collection[int]] | None = None,
    launch: str = "",
    keep: bool = False,
    **job: Any,
) -> RunPlan:
    """The plan of a small job on these hosts."""
    given = {"image": "img:1", "command": ("true",), "stop_grace": 5.0} | job
    known = facts or {name: facts_of(name, 11 + i) for i, name in enumerate(names)}
    inventory = Inventory(tuple(Host(name) for name in names))
    picks = tuple(HostPick(name) for name in names)
    who = {"run_id": run_id, "owner": "ann@desk", "version": "0", "launch": launch, "keep": keep}
    made = plan(Job("j", **given), inventory, picks, known, attempt=attempt, taken=taken, **who)
    assert isinstance(made, RunPlan), made
    return made


class FakeFollower:
    """Tells what the fake containers of one host do, and whatever is put into its host's `news`."""

    def __init__(self, host: FakeHost, emit: Emit, targets: Sequence[FollowTarget], room: Room = no_wait) -> None:
        self._host = host
        self._take = emit
        self._room = room
        self._targets = tuple(targets)
        self._emitting = asyncio.Lock()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until closed; raises what `emit` or the news raise."""
        work = [asyncio.create_task(self._task(t)) for t in self._targets]
        work += [asyncio.create_task(self._news()), asyncio.create_task(self._stop.wait())]
        try:
            while not self._stop.is_set():
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                work = [task for task in work if task not in done]
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    def ask_clock(self) -> None:
        """Noted on the host."""
        self._host.clock_asked += 1

    async def close(self) -> None:
        """End `run`."""
        self._stop.set()

    async def emit(self, event: FollowEvent) -> None:
        """One at a time, as the real one promises, and what is printed when there is room."""
        if isinstance(event, (Records, Sampled)):
            await self._room()
        async with self._emitting:
            await self._take(event)

    async def _task(self, target: FollowTarget) -> None:
        ref = target.ref or await self._find(target)
        container = next((c for c in self._host.containers if c.id == ref), None)
        if container is None:
            await self.emit(Removed(target.task))
            return
        await container.ended.wait()
        if container.status == "gone":
            await self.emit(Removed(target.task))
            return
        if said := self._host.files.get(f"log-{target.task}"):
            pieces = tuple(said.splitlines(keepends=True))
            batch = Batch((1,) * len(pieces), (b"",) * len(pieces), pieces)
            await self.emit(Records(target.task, batch, ResumePoint(written=len(said))))
        now = time.time()
        began = None if container.lasted is None else now - container.lasted
        exited = Exited(
            target.task,
            container.code,
            "exited",
            container.oom,
            started_at=began,
            finished_at=now,
            signalled=container.signalled,
        )
        await self.emit(exited)
        await self.emit(Drained(target.task, ResumePoint()))

    @staticmethod
    async def _find(target: FollowTarget) -> str | None:
        while target.find is not None:
            with contextlib.suppress(HostError):
                return await target.find()
            await asyncio.sleep(0.01)
        return None

    async def _news(self) -> None:
        while True:
            news = await self._host.news.get()
            if isinstance(news, Exception):
                raise news
            await self.emit(news)


class Cluster:
    """Fake hosts h1, h2 ... and runs on them."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.hosts = [FakeHost(f"h{i + 1}") for i in range(count)]
        self.connector = FakeConnector(*self.hosts)
        self.store = RunStore(folder)
        self.events: list[Event] = []

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [h.name for h in self.hosts]

    def plan(self, **job: Any) -> RunPlan:
        """A plan over all hosts, one rank each."""
        return plan_for(*self.names, **job)

    def controller(self, plan: RunPlan, **options: Any) -> RunController:
        """A controller with a fresh folder here."""
        stored = self.store.adopt(plan.run_id)
        facts = options.pop("facts", {name: facts_of(name) for name in plan.hosts})
        found = options.pop("found", frozenset())
        names = {field.name for field in dataclasses.fields(LaunchOptions)}
        launch = LaunchOptions(**{name: options.pop(name) for name in names & options.keys()})
        context = run_context(plan, connector=self.connector, stored=stored, **options)
        return RunController(plan, context, facts=facts, options=launch, found=found)

    async def drive(self, controller: RunController, meanwhile: Awaitable[None] | None = None) -> RunEnded:
        """Run it to its end, with something else going on; all events are in `events`."""
        beside: asyncio.Future[None] | None = None
        try:
            async with asyncio.timeout(LIMIT_S), controller:
                beside = asyncio.ensure_future(meanwhile) if meanwhile is not None else None
                async for batch in controller.batches():
                    self.events += batch
                if beside is not None:
                    await beside
        except TimeoutError:
            events = "\n".join(map(repr, self.events))
            pytest.fail(f"no end after {LIMIT_S:g} s; beside it goes on {beside}; its events:\n{events}")
        assert isinstance(self.events[-1], RunEnded)
        return self.events[-1]

    async def run(self, plan: RunPlan, meanwhile: Awaitable[None] | None = None, **options: Any) -> RunEnded:
        """Make a controller and drive it."""
        return await self.drive(self.controller(plan, **options), meanwhile)

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [e for e in self.events if isinstance(e, kind)]

    def said(self) -> str:
        """All notices as one text."""
        return "\n".join(e.text for e in self.events if type(e).__name__ == "Notice")

    def left(self) -> list[str]:
        """What is still on the hosts."""
        return [f"{h.name}: {c.name}" for h in self.hosts for c in h.containers] + [
            f"{h.name}: {path}" for h in self.hosts for path in h.files if not path.startswith("log-")
        ]


def use_fake_follower(monkeypatch: pytest.MonkeyPatch, connector: FakeConnector) -> None:
    """Put FakeFollower in the place of the real one, which has tests of its own."""

    def make(
        link: HostLink, access: object, emit: Any, *, targets: Sequence[FollowTarget], room: Room, **_: object
    ) -> FakeFollower:
        return FakeFollower(connector.hosts[link.host], emit, targets, room)

    monkeypatch.setattr(watch_module, "HostFollower", make)


def two_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts, which FakeFollower follows; runs are recorded in the folder."""
    made = Cluster(folder, 2)
    use_fake_follower(monkeypatch, made.connector)
    return made


def two_probed_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The same, and who takes a run up finds their facts at once."""

    async def probed(connector: Connector, hosts: Sequence[Host], *, parallel: int) -> dict[str, HostFacts]:
        return {host.name: facts_of(host.name) for host in hosts}

    monkeypatch.setattr(live_run, "probe_all", probed)
    return two_hosts(folder, monkeypatch)


async def ended_run(cluster: Cluster) -> StoredRun:
    """A run whose ranks have ended, and which nobody has recorded or removed."""
    plan = cluster.plan(launch="beef")
    controller = cluster.controller(plan, detach=True)
    controller.stored.write_plan(to_json(plan))
    await cluster.drive(controller)
    for host in cluster.hosts:
        host.containers[0].end(0)
    return controller.stored


__all__ = [
    "Cluster",
    "FakeFollower",
    "Note",
    "ended_run",
    "facts_of",
    "plan_for",
    "two_hosts",
    "two_probed_hosts",
    "use_fake_follower",
]
