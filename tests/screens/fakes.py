"""A backend made of values for the tests of screens: six hosts, four runs, two job files, nothing over ssh."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.color import Color

from distui.cluster.hosts.first_hosts import Answer, FirstHost, FirstHosts
from distui.cluster.jobs.job_files import Draft, JobFile
from distui.cluster.why import Why
from distui.doctor.checks import check_hosts
from distui.doctor.images import Images
from distui.doctor.reach import Reached, ReachProblem, ReachReport
from distui.doctor.smoke import PairResult, rounds
from distui.errors import NotFound, SpecError
from distui.facts.host import (
    Address,
    Disk,
    Engine,
    Gpu,
    GpuProcess,
    Gpus,
    HostDown,
    HostFacts,
    IbPort,
    Nic,
    ProbeResult,
    Trouble,
)
from distui.monitor.containers import HostContainer
from distui.monitor.figures import HostNews
from distui.monitor.processes import Outcome, SeenProcess
from distui.plan.model import NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import to_json
from distui.runs.follow.fanout import Fanout
from distui.runs.hosts.discover import FoundRuns, FoundTask
from distui.runs.hosts.remains import Remains
from distui.runs.launch.gpu_users import GpuUser
from distui.runs.launch.job_record import JobRecord, record_job, record_text, recorded_job
from distui.runs.launch.preflight import Preflight, name_row
from distui.runs.lines.events import (
    Event,
    Failure,
    GpuReading,
    HostChanged,
    HostSampled,
    LogLine,
    LogLines,
    PhaseBegun,
    RankChanged,
    RunEnded,
    RunOpened,
    StopReason,
    TaskStarted,
)
from distui.runs.report.history import RunRow
from distui.runs.state.reducer import RunState
from distui.runs.store.journal import Journal
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import RunStore, StoredRun
from distui.session import Completed
from distui.spec.choose import hosts_of_job
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.imports.imported import ImportedHost
from distui.spec.job.job import Job
from distui.spec.job.read_job import read_job
from distui.tui.app import DistuiApp
from distui.tui.run.screen import RunScreen

NODES = ("node01", "node02", "node03", "node04", "node05", "gw1")
JOB = """\
version: 1
name: llm-pretrain
image: nvcr.io/nvidia/pytorch:25.01-py3
ranks: {per_host: 8}
gpus_per_host: 8
command: [python, train.py, --rank, "{rank}", --world-size, "{world_size}", --init-method, "{init_method}"]
"""
BROKEN = "version: 1\nname: broken\nimagee: x\ncommand: [python]\n"
NOW = 1_760_000_000.0


def gpu(index: int, *, busy: float = 0.0, heat: float = 34.0, owner: str = "") -> Gpu:
    """One H100."""
    processes = (GpuProcess(4000 + index, owner, 77_000, f"GPU-{index}"),) if owner else ()
    return Gpu(
        index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", "nvidia", 81_559, int(busy * 800), busy, heat,
        90 + busy * 6, "550.90", False, f"0000:{index:02x}:00.0", processes,
    )  # fmt: skip


def facts(name: str, number: int, *, gpus: int = 8, ib: int = 8, **more: Any) -> HostFacts:
    """A healthy host with GPUs and InfiniBand."""
    nics = [Nic("eno1", "ethernet", True, 1500, speed_mbps=10_000, addresses=(Address(f"10.0.0.{number}", 24),))]
    nics += [
        Nic(f"ib{i}", "infiniband", True, 4092, speed_mbps=400_000, addresses=(Address(f"10.10.{i}.{number}", 24),))
        for i in range(ib)
    ]
    base = HostFacts(
        host=name, hostname=name, kernel="6.8.0", arch="x86_64", os="Ubuntu 24.04", user="ubuntu", uid=1000,
        home="/home/ubuntu", machine_id=f"machine-{name}", boot_id=f"boot-{name}", cpus=192, cpu_model="EPYC 9654",
        memory_total_mib=1_500_000, memory_available_mib=1_400_000,
        disks=(Disk("/", 400 << 30, 900 << 30), Disk("/data", 1200 << 30, 3000 << 30)),
        clock_offset_ms=3.0, rtt_ms=2.0, connect_ms=60.0, python3="3.12.3", nics=tuple(nics),
        ib=tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0, f"ib{i}") for i in range(ib)),
        gpu=Gpus(tuple(gpu(i) for i in range(gpus))),
        engine=Engine("docker", ("docker",), "27.3", "27.3", True, "/var/run/docker.sock"),
        default_route_nic="eno1", rdma_devices=bool(ib), memlock_kib=-1,
    )  # fmt: skip
    return dataclasses.replace(base, **more)


def lab_facts() -> dict[str, ProbeResult]:
    """What the six hosts say: two busy, one with a dead rail, one half used, one refused, one without GPUs."""
    found: dict[str, ProbeResult] = {}
    for number, name in enumerate(("node01", "node02"), 1):
        cards = tuple(gpu(i, busy=96.0, heat=84.0 if (name, i) == ("node02", 5) else 70.0, owner="python")
                      for i in range(8))  # fmt: skip
        found[name] = facts(name, number, gpu=Gpus(cards))
    ports = facts("node03", 3).ib
    found["node03"] = facts("node03", 3, ib=8)
    found["node03"] = dataclasses.replace(
        found["node03"], ib=(*ports[:3], dataclasses.replace(ports[3], state="DOWN"), *ports[4:])
    )
    found["node04"] = facts("node04", 4, gpu=Gpus(tuple(gpu(i, busy=60.0 if i < 4 else 0.0) for i in range(8))))
    found["node05"] = HostDown(
        "node05", Trouble("auth", "publickey refused: offered ~/.ssh/id_ed25519 as ubuntu", "ssh -v node05")
    )
    found["gw1"] = facts("gw1", 9, gpus=0, ib=0, rtt_ms=41.0, cpus=32, memory_total_mib=128_000)
    return found


def sample(host: str, at: float = NOW, *, busy: float = 96.0, count: int = 8) -> HostSampled:
    """One second of a host."""
    cards = tuple(GpuReading(i, busy, 77_900, 81_559, 70.0 + i, 610.0) for i in range(count))
    net = {"eno1": (12e6, 9e6)} | {f"ib{i}": (2.66e9, 2.61e9) for i in range(8 if count else 0)}
    return HostSampled(at, host, cards, net, 1200 << 30)


def opened(made: RunPlan, at: float, log_dir: str) -> RunOpened:
    """The first event of a run of this plan."""
    ranks = {rank: task.host for task in made.tasks for rank in task.ranks}
    return RunOpened(
        at, made.run_id, made.job, made.launcher, made.image, ranks, {t.index: t.ranks for t in made.tasks},
        log_dir=log_dir,
    )  # fmt: skip


def launching(made: RunPlan, at: float, log_dir: str = "") -> list[Event]:
    """From the first event to every rank running."""
    events: list[Event] = [opened(made, at, log_dir), PhaseBegun(at + 0.1, "connect")]
    events += [HostChanged(at + 0.2, host, "up") for host in made.hosts]
    events += [PhaseBegun(at + 0.5, "start")]
    events += [TaskStarted(at + 1, t.index, t.host, f"{t.index:012x}") for t in made.tasks]
    events += [RankChanged(at + 1.5, rank, t.host, "running") for t in made.tasks for rank in t.ranks]
    return [*events, PhaseBegun(at + 2, "follow")]


def failing(made: RunPlan, at: float, rank: int = 13, log_dir: str = "") -> list[Event]:
    """Rank 13 fails, the others are stopped, the run ends."""
    hosts = {r: t.host for t in made.tasks for r in t.ranks}
    failure = Failure(
        rank, hosts[rank], 1, "exit 1", "CUDA error: uncorrectable ECC error encountered",
        "leave GPU 5 out or reset it",
        ("Traceback (most recent call last):", "torch.AcceleratorError: CUDA error"), at,
    )  # fmt: skip
    others = [r for r in hosts if r != rank]
    events: list[Event] = [RankChanged(at, rank, hosts[rank], "exited", 1, words="exit 1")]
    events += [RankChanged(at + 2.4, r, hosts[r], "stopped", 143, words="stopped") for r in others]
    return [*events, RunEnded(at + 4, "failed", 1, failure, log_dir, (), at + 4 - NOW)]


def lines(made: RunPlan, rank: int, at: float, *texts: str) -> LogLines:
    """Lines of one rank."""
    task = next(t for t in made.tasks if rank in t.ranks)
    return LogLines(at, task.index, rank, task.host, tuple(LogLine("stdout", text) for text in texts))


@dataclasses.dataclass
class FakeLive:
    """A followed run: `feed` is what the hosts do; stops and detaches are noted in `asked`."""

    plan: RunPlan
    stored: StoredRun
    mask: Mask = NOTHING
    fan: Fanout = dataclasses.field(default_factory=Fanout)
    asked: list[tuple[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def state(self) -> RunState:
        return self.fan.state

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        return self.fan.batches()

    def request_stop(self, reason: StopReason, *, grace: float | None = None) -> None:
        self.asked.append(("stop", grace))

    def request_detach(self) -> None:
        self.asked.append(("detach", None))

    async def feed(self, *events: Event) -> None:
        """Let this happen: log lines reach the log files first, as in a real run."""
        for event in events:
            if isinstance(event, LogLines) and event.rank is not None:
                self.stored.log_dir.mkdir(parents=True, exist_ok=True)
                with self.stored.rank_log(event.rank).open("a") as file:
                    file.writelines(f"{line.stamp} {line.text}\n" if line.stamp else f"{line.text}\n"
                                    for line in event.lines)  # fmt: skip
        self.fan.put(events)
        await asyncio.sleep(0)


class FakeBackend:
    """The backend of the app's tests. `calls` records what it was asked to do, in order."""

    def __init__(self, folder: Path, *, readonly: bool = False, hosts: Sequence[str] = NODES) -> None:
        self.title = "lab/hosts.yaml"
        self.owner = "alice@laptop"
        self.readonly = readonly
        self.hides: Mask = NOTHING
        """What hides values of secrets of all recorded runs."""
        self.history: Path | None = folder / "state" / "commands"
        self.stop_on_exit = False
        self.leaves_out = False
        self.not_stopped: tuple[str, ...] = ()
        """What a stop says is left."""
        self.hosts = tuple(Host(name) for name in hosts)
        self.groups: Mapping[str, tuple[str, ...]] = {}
        self.answers = {name: result for name, result in lab_facts().items() if name in hosts}
        self.found: dict[str, ProbeResult] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.store = RunStore(folder / "state")
        self.rows: list[RunRow] = []
        self.slow: asyncio.Event | None = None
        """Until then hosts do not answer which runs they have."""
        self.live: dict[str, FakeLive] = {}
        self.elsewhere: set[str] = set()
        """Those of them that only another terminal follows, until they are attached to."""
        self.next_attempt: asyncio.Event | None = None
        """Until then whoever attaches waits for a run's next attempt."""
        self.stream: asyncio.Queue[HostNews] = asyncio.Queue()
        self.inventory = Inventory(self.hosts)
        self.folder = folder
        self.job_texts = {"llm-pretrain": JOB, "broken": BROKEN}
        self.image_ids: dict[str, str] = {"node02": ""}
        """Image ids of hosts that are not as the others."""
        self.left = Remains((), {})
        """What is left of any run."""
        self.walls: list[tuple[str, str]] = []
        """Pairs of hosts of which the first can't reach the second."""
        self.known_containers: dict[str, tuple[HostContainer, ...]] = {}
        self.log_parts: asyncio.Queue[bytes] = asyncio.Queue()
        """What the log that is open says next; b"" ends it."""
        self.outcome: Outcome = "ended"
        """What becomes of the next process that is signalled."""
        self.reported: Why | None = None
        """What the ranks of any run tell when they are asked."""
        self.silence = asyncio.Event()
        """Until it is set, ranks that are asked do not answer."""
        self.silence.set()
        self.held = asyncio.Event()
        """Cleared, a stop, a removal and a command take as long as a test wants."""
        self.held.set()
        self.users: tuple[GpuUser, ...] = ()
        """Other runs that have GPUs."""
        self.said = ""
        """What any task on a host says last."""
        self.found_runs = FoundRuns((), {})
        """What hosts say when they are asked for runs."""
        self.status = 0
        """How the next command of a fix ends."""
        self.error: Exception | None = None
        """Raised by whatever is asked over the network next."""

    # What the app asks.

    async def probe(self, names: Sequence[str], on_result: Callable[[str, ProbeResult], None]) -> None:
        self.calls.append(("probe", *names))
        for name in names:
            self.found[name] = self.answers[name]
            on_result(name, self.answers[name])

    @property
    def facts(self) -> Mapping[str, ProbeResult]:
        return self.found

    async def images(self, names: Sequence[str] = (), hosts: Sequence[str] = ()) -> Images:
        self.calls.append(("images", tuple(names), tuple(hosts)))
        up = [name for name, found in self.found.items() if isinstance(found, HostFacts)]
        asked = [name for name in up if not hosts or name in hosts]
        return {image: {name: self.image_ids.get(name, "sha256:" + "ab" * 32) for name in asked}
                for image in names or ("nvcr.io/nvidia/pytorch:25.01-py3",)}  # fmt: skip

    async def reach(self) -> ReachReport | None:
        self.calls.append(("reach",))
        up = [name for name, found in self.found.items() if isinstance(found, HostFacts)]
        return self._report(up)

    def _report(self, names: Sequence[str]) -> ReachReport:
        """Everybody reaches everybody, but for the pairs in `walls`."""
        table = {
            a: {b: Reached("timed out") if (a, b) in self.walls else Reached("", 0.2) for b in names if b != a}
            for a in names
        }
        problems = [ReachProblem(a, b, "timed out", "a firewall?", 0, "10.0.0.1", "10.0.0.9", 29500)
                    for a, b in self.walls if a in names and b in names]  # fmt: skip
        return ReachReport(tuple(problems), sum(map(len, table.values())), (), table, len(names))

    async def smoke(self, job: Job, on_pair: Callable[[PairResult], None]) -> tuple[PairResult, ...]:
        self.calls.append(("smoke", job.name))
        up = [name for name, found in self.found.items() if isinstance(found, HostFacts)]
        done = []
        for pair in (pair for side_by_side in rounds(up) for pair in side_by_side):
            bad = "the test run ended as failed" if pair in self.walls else ""
            done.append(PairResult(pair, None if bad else 0.003, "gloo", "eno1 tcp", bad))
            on_pair(done[-1])
        return tuple(done)

    async def preflight(self, plan: RunPlan) -> Preflight:
        self.calls.append(("preflight", plan.run_id))
        self._fail()
        results = {name: self.answers[name] for name in plan.hosts}
        images = await self.images((plan.image or "",), plan.hosts)
        report = self._report(plan.hosts)
        rows = (
            name_row(plan.run_id, plan.hosts, FoundRuns((), {})),
            *check_hosts(results, images=images, reach=report),
        )
        return Preflight(rows, results, images, report)

    async def containers(self, host: str) -> tuple[HostContainer, ...]:
        self._fail()
        return self.known_containers.get(host, ())

    async def container_log(self, container: HostContainer) -> AsyncGenerator[bytes, None]:
        self.calls.append(("container_log", container.id))
        while data := await self.log_parts.get():
            yield data

    async def last_line(self, task: FoundTask) -> str:
        self.calls.append(("last_line", task.host, task.labels.ranks))
        return self.said

    async def gpu_processes(self, host: str) -> tuple[GpuProcess, ...]:
        self.calls.append(("gpu_processes", host))
        answer = self.answers[host]
        assert isinstance(answer, HostFacts)
        return tuple(process for card in answer.gpu.gpus for process in card.processes)

    async def process(self, host: str, pid: int) -> SeenProcess:
        self._fail()
        return SeenProcess(host, pid, "4711", "boot", "bob", "/usr/bin/python train.py \x1b[2J", "ubuntu")

    async def signal(self, seen: SeenProcess, *, kill: bool = False) -> Outcome:
        self.calls.append(("signal", seen.host, seen.pid, seen.start, "KILL" if kill else "TERM"))
        return self.outcome

    async def command(self, host: str, words: tuple[str, ...], *, timeout: float) -> Completed:
        self.calls.append(("command", host, words))
        await self.held.wait()
        self.calls.append(("did", host))
        self._fail()
        return Completed(words, self.status, f"said by {host}\n".encode(), b"")

    async def ssh_argv(self, host: str, container: HostContainer | None = None) -> tuple[str, ...]:
        return ("ssh", host) if container is None else ("ssh", "-t", host, "docker", "exec", container.id)

    async def news(self) -> AsyncIterator[HostNews]:
        while True:
            yield await self.stream.get()
            self.stream.task_done()

    def jobs(self) -> tuple[JobFile, ...]:
        found = []
        for name, text in self.job_texts.items():
            path = self.folder / f"{name}.yaml"
            path.write_text(text)
            draft = self.draft(text, str(path))
            found.append(JobFile(path, draft.job.name if draft.job else name, draft.problems, draft.job))
        return tuple(found)

    def draft(self, text: str, path: str, name: str | None = None) -> Draft:
        try:
            return Draft(read_job(text, path, environ={}, name=name))
        except SpecError as error:
            return Draft(None, error.problems)

    def preview(self, job: Job, picks: Sequence[HostPick], *, run_id: str) -> RunPlan | NoPlan:
        return plan(
            job, self.inventory, picks, self.found, run_id=run_id, owner=self.owner, version="0.1.0",
            started="2026-01-01T00:00:00Z",
        )  # fmt: skip

    def pick(self, job: Job, marked: Sequence[str]) -> tuple[HostPick, ...]:
        if not marked and job.hosts is not None:
            return hosts_of_job(self.inventory, job.hosts)
        return tuple(HostPick(name) for name in marked or ("node01", "node02"))

    def run_name(self, job: str) -> str:
        return f"{job[:8]}-new"

    async def gpu_users(self, plan: RunPlan) -> tuple[GpuUser, ...]:
        return tuple(user for user in self.users if user.host in plan.hosts)

    async def launch(
        self, job: Job, plan: RunPlan, *, rerun_of: str = "", force: bool = False, text: str = ""
    ) -> FakeLive:
        more = (*([rerun_of] if rerun_of else []), *(["force"] if force else []))
        self.calls.append(("launch", plan.run_id, plan.hosts, *more))
        self._fail()
        live = self.follow(plan)
        record_job(live.stored, job, [HostPick(host) for host in plan.hosts])
        record_text(live.stored, text, {})
        return live

    def recorded_job(self, run: str) -> JobRecord | None:
        stored = self.store.get(run)
        return recorded_job(stored) if stored is not None else None

    def stored(self, run: str) -> StoredRun | None:
        return self.store.get(run)

    def mask(self, stored: StoredRun) -> Mask:
        return self.hides

    async def attach(self, run: str, say: Callable[[str], None]) -> FakeLive:
        self.calls.append(("attach", run))
        self._fail()
        if self.next_attempt is not None:
            say(f"an attempt of {run} has failed; waiting whether another begins")
            await self.next_attempt.wait()
        if run not in self.live:
            raise NotFound(f"there is no run '{run}'", hint="`distui ps -a` lists the runs")
        self.elsewhere.discard(run)
        return self.live[run]

    def replay(self, run: str) -> FakeLive:
        self.calls.append(("replay", run))
        if run not in self.live:
            raise NotFound(f"the plan of run {run} can't be read here", hint=f"`distui logs {run}` prints its logs")
        return self.live[run]

    @property
    def following(self) -> Mapping[str, FakeLive]:
        own = {name: live for name, live in self.live.items() if name not in self.elsewhere}
        return {name: live for name, live in own.items() if live.state.ended is None}

    async def runs(self) -> tuple[tuple[RunRow, ...], FoundRuns]:
        self.calls.append(("runs",))
        if self.slow is not None:
            await self.slow.wait()
        self._fail()
        own = self.following
        rows = (dataclasses.replace(row, followed=True) if row.run in own else row for row in self.rows)
        return tuple(rows), self.found_runs

    async def stop(
        self, run: str, *, grace: float | None = None, of: str = "", say: Callable[[str], None] = lambda words: None
    ) -> tuple[str, ...]:
        self.calls.append(("stop", run, grace, of))
        await self.held.wait()
        self.calls.append(("stopped", run))
        self._fail()
        say(f"{run}: 2 tasks left")
        return self.not_stopped

    async def why(self, run: str, *, stacks: bool = False) -> Why:
        self.calls.append(("why", run, stacks))
        await self.silence.wait()
        self._fail()
        assert self.reported is not None
        return self.reported

    async def remains(self, run: str) -> Remains:
        self._fail()
        return self.left

    async def prune(self, run: str) -> None:
        self.calls.append(("prune", run))
        await self.held.wait()
        self.calls.append(("pruned", run))
        self._fail()
        self.rows = [row for row in self.rows if row.run != run]

    # What tests do.

    def _fail(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def plan(self, run: str = "llm-7f3", hosts: Sequence[str] = ("node01", "node02")) -> RunPlan:
        """The plan of the job of these tests, 8 ranks on each host."""
        draft = self.draft(JOB, "llm-pretrain.yaml")
        assert draft.job is not None
        before, self.found = self.found, dict(self.answers)
        for host in hosts:
            self.found[host] = facts(host, NODES.index(host) + 1)
        made = self.preview(draft.job, [HostPick(host) for host in hosts], run_id=run)
        self.found = before
        assert isinstance(made, RunPlan), made
        return made

    def follow(self, made: RunPlan) -> FakeLive:
        """Follow a run of this plan."""
        stored = self.store.get(made.run_id) or self.store.create(made.run_id)
        stored.write_plan(to_json(made))
        self.live[made.run_id] = FakeLive(made, stored)
        return self.live[made.run_id]

    def record(self, made: RunPlan, events: Sequence[Event]) -> StoredRun:
        """Write a run's folder as the controller does."""
        live = self.follow(made)
        journal = Journal(live.stored)
        journal.write(events)
        journal.close()
        live.fan.put(tuple(events))
        return live.stored

    async def say(self, *news: HostNews) -> None:
        """Let hosts say something, and wait until the app has taken it."""
        for one in news:
            self.stream.put_nowait(one)
        await self.stream.join()


class FakeFirst:
    """What the first start works at: three hosts of an ssh config, one of them behind another, one that refuses."""

    def __init__(self, hosts: Sequence[str] = ("gw1", "n1", "n2")) -> None:
        named = tuple(FirstHost(ImportedHost(name), "~/.ssh/config") for name in hosts)
        self.found = FirstHosts(named, {}, ("~/.ssh/config",) if hosts else ())
        self.target = "hosts.yaml"
        self.asked: list[list[str]] = []
        self.written: list[list[str]] = []
        self.error: Exception | None = None

    async def ask(self, hosts: Sequence[FirstHost], on_answer: Callable[[str, Answer], None]) -> None:
        self.asked.append([one.name for one in hosts])
        known = {"n1": Answer("through", "only through gw1: not tried"), "n2": Answer("no", "refuses connections")}
        for one in hosts:
            on_answer(one.name, known.get(one.name, Answer("yes", "answers in 3 ms")))

    def write(self, names: Sequence[str]) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(list(names))


def history(backend: FakeBackend) -> list[RunRow]:
    """Four rows of history, one of them alive."""
    failure = Failure(13, "node02", 1, "exit 1", "CUDA error: an illegal memory access was encountered")
    nodes = ("node01", "node02")
    return [
        RunRow("llm-7f3", "llm-pretrain", "running", nodes, 16, "alice@laptop", time.time() - 4364, live=True,
               recorded=True, size=5 << 20),
        RunRow("vit-2b1", "vit", "running", ("node04",), 4, "bob@desk", time.time() - 900, live=True),
        RunRow("llm-7f2", "llm-pretrain", "failed", nodes, 16, "alice@laptop", NOW, 190.0, 1, failure,
               recorded=True, size=1 << 20),
        RunRow("gloo-01a", "gloo-smoke", "succeeded", ("gw1",), 2, "alice@laptop", NOW - 86400, 41.0, 0,
               recorded=True, size=20 << 10),
    ]  # fmt: skip


async def settle(pilot: Any) -> None:
    """Until what was asked is shown: workers that end have ended, news have reached the screen."""
    await pilot.pause()
    await pilot.pause()
    pilot.app._show_news()
    view = pilot.app.top_view
    if isinstance(view, RunScreen) and view._stale:
        view._tick()  # a run is painted a few times a second at most
    await pilot.pause()


async def press(pilot: Any, *keys: str) -> None:
    """Keys, and what follows from them."""
    await pilot.press(*keys)
    await settle(pilot)


def screen_text(app: DistuiApp) -> str:
    """What is on the screen, as text, one line a row."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip)[:width].rstrip() for strip in strips[:height])


def colours(app: DistuiApp, words: str) -> set[Color | None]:
    """The colours of these words, wherever they stand on the screen; empty where they don't."""
    found = set()
    for strip in app.screen._compositor.render_strips():
        cells = [(char, part.style.color if part.style else None) for part in strip for char in part.text]
        text = "".join(char for char, _ in cells)
        for at in (i for i in range(len(text)) if text.startswith(words, i)):
            found |= {colour for char, colour in cells[at : at + len(words)] if char != " "}
    return found


def shot(app: DistuiApp, name: str) -> None:
    """Keep a picture of the screen in $DISTUI_SHOTS, when that is set (SVG, and PNG where rsvg-convert is)."""
    folder = os.environ.get("DISTUI_SHOTS")
    if not folder:
        return
    path = Path(folder) / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = app.export_screenshot(simplify=True)
    path.write_text(picture.replace("<text ", '<text xml:space="preserve" '))  # else leading blanks are lost
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", "-w", "1600", "-o", str(path.with_suffix(".png")), str(path)], check=True)
