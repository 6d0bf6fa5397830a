"""Start of a run on three hosts, from the plan to the last rank running, beside the same lines typed into ssh."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable

from bench.cluster import HOSTS, Cluster
from bench.measure import Failed, Rival, Spent, command, in_turns, side_by_side
from bench.report import Target, note, table, title
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.plan.command.env import env_file_text
from distui.plan.model import NoPlan, RunPlan
from distui.plan.plan import plan
from distui.remote.pool import SshConnector
from distui.runs.attempt.run_context import run_context
from distui.runs.attempt.steps import LaunchOptions
from distui.runs.control.controller import RunController
from distui.runs.hosts.reuse import ReusingConnector
from distui.runs.lines.events import Event, PhaseBegun, RankChanged, RunEnded
from distui.runs.store.runs import RunStore
from distui.runs.task import hook
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job, RankLayout

INVENTORY = Inventory(tuple(Host(name) for name in HOSTS))
JOB = Job("bench", image="lab/python:1", command=("sleep", "600"), ranks=RankLayout(per_host=1), pull="never")

OWN, BARE, SSH = "distui, after its probe", "distui, without preflight", "parallel ssh, docker run -d"
VERB = "distui run -d, from nothing"

JOB_FILE = """version: 1
name: bench
hosts: h[1-3]
image: lab/python:1
ranks: {per_host: 1}
pull: never
command: [sleep, "600"]
"""


def measure(cluster: Cluster, *, quick: bool) -> None:
    """The controller as `distui run` drives it, and three OpenSSH clients side by side."""
    title("start: from the plan to three containers running")
    bench = _Starts(cluster)
    rivals = [
        Rival(OWN, lambda: asyncio.run(bench.by_distui(preflight=True))),
        Rival(BARE, lambda: asyncio.run(bench.by_distui(preflight=False))),
        Rival(VERB, bench.by_verb),
        Rival(SSH, bench.by_ssh),
    ]
    table(in_turns(rivals, 3 if quick else 7), OWN, [Target(SSH, "wall", 1.3)])
    note("the verb: Python, the probe, the plan and the start; a whole program as ssh is one")
    note("ssh gets its env files and the hook for nothing, checks nothing and knows of no container afterwards")
    print("  distui's phases, ms: " + ", ".join(f"{name} {1000 * took:.0f}" for name, took in bench.phases.items()))


class _Starts:
    """Starts of runs with names of their own, each ended and removed before the next."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.turn = 0
        self.facts: dict[str, ProbeResult] = {}
        self.phases: dict[str, float] = {}

    def plan(self) -> RunPlan:
        """The plan of the next run."""
        self.turn += 1
        picks, run_id = tuple(HostPick(h) for h in HOSTS), f"bench-{os.getpid()}-{self.turn}"
        made = plan(JOB, INVENTORY, picks, self.facts, run_id=run_id, owner="bench@here", version="0")
        if isinstance(made, NoPlan):
            raise Failed("; ".join(map(str, made.problems)))
        return made

    async def by_distui(self, *, preflight: bool) -> Spent:
        """Until the last rank runs; the probe before and the end after it are not counted."""
        ssh = SshConnector(map(Host, HOSTS), home=self.cluster.home, system=False)
        connector = ReusingConnector(ssh)
        try:
            self.facts = await probe_all(connector, INVENTORY.hosts)
            made = self.plan()
            stored = RunStore(self.cluster.home / "state").create(made.run_id)
            facts = {name: found for name, found in self.facts.items() if isinstance(found, HostFacts)}
            cpu, began = time.process_time(), time.monotonic()
            context = run_context(made, connector=connector, stored=stored)
            run = RunController(made, context, facts=facts, options=LaunchOptions(preflight=preflight))
            return await self._until_running(run, cpu, began)
        finally:
            await connector.close()

    async def _until_running(self, run: RunController, cpu: float, began: float) -> Spent:
        running: set[int] = set()
        events: list[Event] = []
        spent: Spent | None = None
        async with run:
            async for batch in run.batches():
                events += batch
                running |= {e.rank for e in batch if isinstance(e, RankChanged) and e.state == "running"}
                if spent is None and len(running) == len(HOSTS):
                    spent = Spent(time.monotonic() - began, time.process_time() - cpu)
                    run.request_stop("user", grace=0)
        ended = events[-1]
        if spent is None or not isinstance(ended, RunEnded) or ended.leftovers:
            raise Failed(f"the run did not start and end: {ended}")
        self.phases = _phases(events)
        return spent

    def by_verb(self) -> Spent:
        """`distui run -d` until it has let go of the running ranks."""
        self.turn += 1
        home, run_id = self.cluster.home, f"bench-{os.getpid()}-{self.turn}"
        (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
        (home / "job.yaml").write_text(JOB_FILE)
        argv = (sys.executable, "-m", "distui.cli.main", "run", "job.yaml", "--headless", "-d", "-y", "--name", run_id)
        spent = command(argv, env=self.cluster.env, cwd=home, expect=run_id)
        for number, host in enumerate(HOSTS):
            folder = f".local/state/distui/hosts/{host}/{run_id}"
            self._ssh(host, f"docker rm -f distui-{run_id}-{number} && rm -rf {folder}")
        return spent

    def by_ssh(self) -> Spent:
        """`ssh HOST docker run -d ...` on all hosts at once, the lines of the plan as they are."""
        made = self.plan()
        for task in made.tasks:
            put = f"mkdir -p {shlex.quote(task.run_dir)} && cat >{shlex.quote(task.env_file)}"
            self._ssh(task.host, put, env_file_text(task, {}))
            if task.insight:
                argv, files = hook.put(task.run_dir, [task.insight])
                self._ssh(task.host, shlex.join(argv), files)
        spent = side_by_side([self._argv(task.host, shlex.join(task.start)) for task in made.tasks])
        for task in made.tasks:
            self._ssh(task.host, f"docker rm -f {task.container}; rm -rf {shlex.quote(task.run_dir)}")
        return spent

    def _argv(self, host: str, line: str) -> tuple[str, ...]:
        return ("ssh", "-F", str(self.cluster.home / ".ssh/config"), host, line)

    def _ssh(self, host: str, line: str, input: bytes = b"") -> None:
        done = subprocess.run(self._argv(host, line), input=input, capture_output=True, check=False)
        if done.returncode:
            raise Failed(done.stderr.decode("utf-8", "replace").strip())


def _phases(events: Iterable[Event]) -> dict[str, float]:
    """How long each phase up to following took, in seconds."""
    took: dict[str, float] = {}
    begun = [e for e in events if isinstance(e, PhaseBegun)]
    for phase, following in itertools.pairwise(begun):
        if phase.phase in ("follow", "stop", "drain", "cleanup"):
            break
        took[phase.phase] = took.get(phase.phase, 0.0) + following.at - phase.at
    return took
