"""Following a run's logs beside `ssh host docker logs >file`, in one run on one machine: read the ratios.

    python bench/follow.py [--lines 2000000] [--seconds 15]

What is measured is the controller as `distui attach` drives it: log and times written to files, checkpoints, events
folded and stored; in one more row also printed. Before them stands what the connection costs by itself. Needs root and
Linux: it brings up a lab of its own (tests/lab) with one real host, sshd and dockerd. Client, host and containers share
this machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from bench.measure import Failed, Spent  # noqa: E402
from distui.cli.printing.outlet import Outlet  # noqa: E402
from distui.cli.printing.printer import LineWriter, LogView  # noqa: E402
from distui.facts.host import HostFacts  # noqa: E402
from distui.facts.probe import probe_all  # noqa: E402
from distui.plan.model import NoPlan, RunPlan  # noqa: E402
from distui.plan.plan import plan  # noqa: E402
from distui.remote.pool import SshConnector  # noqa: E402
from distui.runs.attempt.run_context import run_context  # noqa: E402
from distui.runs.attempt.steps import LaunchOptions  # noqa: E402
from distui.runs.control.controller import RunController  # noqa: E402
from distui.runs.follow.feed import EngineAccess  # noqa: E402
from distui.runs.follow.helper import open_helper  # noqa: E402
from distui.runs.hosts.reuse import ReusingConnector  # noqa: E402
from distui.runs.lines.events import Event, LogLines  # noqa: E402
from distui.runs.store.runs import RunStore, StoredRun  # noqa: E402
from distui.spec.hosts.inventory import (  # noqa: E402
    Host,
    HostPick,
    Inventory,
)
from distui.spec.job.job import Job, RankLayout  # noqa: E402
from lab.lab import Lab  # type: ignore[import-not-found,unused-ignore]  # noqa: E402

SOCKET = "/var/run/docker.sock"
TASKS = 8
RATE = 1000
INVENTORY = Inventory((Host("h1"),))

FLOOD = 'import sys\nfor i in range(int(sys.argv[1])): print("%0105d" % i)'
PACED = """
import os, sys, time
begin = time.time()
for i in range(int(sys.argv[1])):
    time.sleep(max(0, begin + i / float(sys.argv[2]) - time.time()))
    os.write(2 if i % 10 == 0 else 1, b"%.6f %d\\n" % (time.time(), i))
"""


class Runs:
    """Starts runs on the lab's host and follows them, each time into a fresh folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.turn = 0
        self.facts: dict[str, HostFacts] = {}

    def _connector(self) -> ReusingConnector:
        return ReusingConnector(SshConnector([Host("h1")], home=self.home, system=False))

    async def start(self, ranks: int, *argv: str) -> RunPlan:
        """A run whose ranks execute python3 with `argv`; it goes on by itself."""
        connector = self._connector()
        try:
            found = await probe_all(connector, INVENTORY.hosts)
            self.facts = {name: facts for name, facts in found.items() if isinstance(facts, HostFacts)}
            job = Job(
                "bench",
                image="lab/python:1",
                command=("python3", *argv),
                ranks=RankLayout(per_host=ranks),
                pull="never",
            )
            made = plan(
                job,
                INVENTORY,
                (HostPick("h1"),),
                found,
                run_id=f"bench-{ranks}-{time.time_ns()}",
                owner="bench",
                version="0",
            )
            if isinstance(made, NoPlan):
                raise Failed("; ".join(map(str, made.problems)))
            stored = RunStore(self.home / "started").create(made.run_id)
            context = run_context(made, connector=connector, stored=stored)
            async with RunController(made, context, facts=self.facts, options=LaunchOptions(True, False)) as run:
                async for _ in run.batches():
                    pass
            if run.state.ended is None or run.state.ended.exit:
                raise Failed(f"the run did not start: {run.state.notices}")
            return made
        finally:
            await connector.close()

    async def follow(self, made: RunPlan, take: Take) -> StoredRun:
        """Adopt the run, read it to its end, leave its containers."""
        self.turn += 1
        stored = RunStore(self.home / f"followed-{self.turn}").create(made.run_id)
        connector = self._connector()
        try:
            context = run_context(made, connector=connector, stored=stored, adopted=True, keep=True)
            async with RunController(made, context, facts=self.facts) as run:
                async for batch in run.batches():
                    await take.batch(batch)
            await take.outlet.drain()
        finally:
            await connector.close()
        return stored

    async def only_receive(self, made: RunPlan) -> None:
        """The same bytes by the same helper and connection, thrown away: the floor of any follower here."""
        task = made.tasks[0]
        connector = self._connector()
        try:
            session = await connector.connect(task.host)
            feed = await open_helper(session, EngineAccess("docker", socket=SOCKET), metrics=False)
            path = f"/containers/{task.container}/logs?stdout=1&stderr=1&timestamps=1"
            stream = await feed.get(path, packed=True)
            while await stream.read():
                pass
            await feed.close()
        finally:
            await connector.close()


class Take:
    """What is done with events: nothing, printing them to /dev/null, or noting how late stamped lines came."""

    def __init__(self, *, printing: bool = False, stamped: bool = False) -> None:
        self.outlet = Outlet(os.open(os.devnull, os.O_WRONLY))
        self.printing = printing
        self.stamped = stamped
        self.late: list[float] = []
        self.writer = LineWriter(LogView(), colour=False)
        self.writer.open(dict.fromkeys(range(TASKS), "h1"))

    async def batch(self, batch: Sequence[Event]) -> None:
        """Take the next events."""
        now = time.time()
        for event in batch:
            if isinstance(event, LogLines) and self.printing:
                await self.outlet.write(self.writer.bytes(event.rank, event.host, event.lines, event.at))
            if isinstance(event, LogLines) and self.stamped:
                self.late += [now - float(line.text.split(" ")[0]) for line in event.lines]


def enter(lab: Any) -> None:
    """Move this process to the lab's login node, from where its hosts can be reached."""
    namespace = os.open(lab.command()[1].removeprefix("--net="), os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")


def by_ssh(home: Path, made: RunPlan) -> Spent:
    """OpenSSH and docker's own client."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (home / "by-ssh").open("wb") as file:
        argv = ["ssh", "-F", str(home / ".ssh/config"), "h1", "docker", "logs", "-t", made.tasks[0].container]
        subprocess.run(argv, stdout=file, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def by_distui(runs: Runs, made: RunPlan, take: Take) -> tuple[Spent, StoredRun]:
    """The controller in this process: without Python's start."""
    cpu, began = time.process_time(), time.monotonic()
    stored = asyncio.run(runs.follow(made, take))
    return Spent(time.monotonic() - began, time.process_time() - cpu), stored


def received(runs: Runs, made: RunPlan) -> Spent:
    """The connection alone, in this process too."""
    cpu, began = time.process_time(), time.monotonic()
    asyncio.run(runs.only_receive(made))
    return Spent(time.monotonic() - began, time.process_time() - cpu)


def one_flood(lab: Any, home: Path, lines: int) -> None:
    """One container that has printed much: read all of it."""
    runs = Runs(home)
    made = asyncio.run(runs.start(1, "-c", FLOOD, str(lines)))
    lab.host("h1").exec("docker", "wait", made.tasks[0].container, timeout=600)
    for turn in ("first", "second"):
        ssh = by_ssh(home, made)
        print(f"{lines} lines, {turn} time: ssh docker logs {ssh.wall:.1f} s, {ssh.cpu:.2f} s CPU")
        floor = received(runs, made)
        print(f"  the connection alone: {floor.wall:.1f} s, {floor.cpu:.2f} s CPU;", end=" ")
        print(f"ratios {floor.wall / ssh.wall:.2f}, {floor.cpu / ssh.cpu:.2f}", flush=True)
        for name, printing in (("distui", False), ("distui, printing", True)):
            own, stored = by_distui(runs, made, Take(printing=printing))
            got = stored.rank_log(0).read_bytes().count(b"\n")
            print(f"  {name}: {own.wall:.1f} s, {own.cpu:.2f} s CPU;", end=" ")
            print(f"ratios {own.wall / ssh.wall:.2f}, {own.cpu / ssh.cpu:.2f}; {got - lines:+d} lines", flush=True)
    lab.host("h1").exec("docker", "rm", made.tasks[0].container)


def many_paced(lab: Any, home: Path, seconds: int) -> None:
    """Eight containers at 1,000 lines/s, one write per line."""
    runs = Runs(home)
    made = asyncio.run(runs.start(TASKS, "-c", PACED, str(RATE * seconds), str(RATE)))
    take = Take(stamped=True)
    own, _ = by_distui(runs, made, take)
    # The containers were started before the follower: leave the backlog out.
    late = sorted(take.late[len(take.late) // 4 :])
    p99 = late[int(len(late) * 0.99)]
    print(f"{TASKS} x {RATE} lines/s: {100 * own.cpu / own.wall:.1f} % client CPU;", end=" ")
    print(f"latency p50 {1000 * statistics.median(late):.1f} ms, p99 {1000 * p99:.1f} ms;", end=" ")
    print(f"{len(take.late) - TASKS * RATE * seconds:+d} lines")
    lab.host("h1").exec("docker", "rm", "-f", *(task.container for task in made.tasks))


def main() -> None:
    """Both measures, on a lab of their own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=int, default=15)
    args = parser.parse_args()
    with Lab("bench") as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(1)
        home = lab.ssh_home(Path(folder))
        enter(lab)
        one_flood(lab, home, args.lines)
        many_paced(lab, home, args.seconds)


if __name__ == "__main__":
    main()
