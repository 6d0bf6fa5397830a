"""What grows with hosts, ranks and lines: reading answers, planning, folding events, printing. No network."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.measure import here
from bench.report import note, title
from distui.cli.printing.outlet import Outlet
from distui.cli.printing.printer import LineWriter, LogView
from distui.facts.host import Address, Engine, Gpu, Gpus, HostFacts, IbPort, Nic, ProbeResult
from distui.facts.probe import probe_all, script
from distui.plan.model import NoPlan
from distui.plan.plan import plan
from distui.runs.lines.events import Event, LogLine, LogLines, RankChanged, RunOpened
from distui.runs.state.reducer import RunState, apply
from distui.runs.verdict.evidence import End, Evidence, Line, TaskSeen
from distui.runs.verdict.judge import judge
from distui.session import Completed
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job, RankLayout

SIZES = (10, 100, 1000)
GPUS = 8
LINEAR = 2.0
"""With ten times as many, one may cost this much more before it counts as growing: larger states miss the caches."""


def measure(*, quick: bool) -> None:
    """Each with 10, 100 and 1,000 hosts of eight ranks."""
    title("scale: 10, 100 and 1,000 simulated hosts, eight ranks each")
    rounds = 3 if quick else 5
    _row("probe_all(): reading the answers, per host", SIZES, _probing(), rounds)
    _row("plan(), per host", SIZES, _planning, rounds)
    _row("reducer, per event (a line and a change)", tuple(n * GPUS for n in SIZES), _folding, rounds)
    _row("judge(), 200 lines a rank, per rank", SIZES, _judging, rounds)
    _printing(200_000 if quick else 1_000_000)


Work = Callable[[int], tuple[Callable[[], object], int]]
"""For a size: what to do, and by how many its cost is divided."""


def _row(name: str, sizes: Sequence[int], work: Work, rounds: int) -> None:
    """One line: cost at each size, and whether it stays the same."""
    costs = []
    for size in sizes:
        act, parts = work(size)
        costs.append(min(here(act).cpu for _ in range(rounds)) / parts)
    shown = "  ".join(f"{size}: {1e6 * cost:.0f} us" for size, cost in zip(sizes, costs, strict=True))
    grown = costs[-1] / costs[1]
    verdict = "linear" if grown <= LINEAR else "NOT LINEAR"
    print(f"  {name:44} {shown}   {sizes[-1]}/{sizes[1]} = {grown:.2f}, {verdict}", flush=True)


def facts(number: int) -> HostFacts:
    """A GPU server with Ethernet and InfiniBand."""
    high, low = divmod(number, 250)
    name = f"node{number:04}"
    return HostFacts(
        host=name,
        hostname=name,
        home="/home/u",
        machine_id=f"m-{name}",
        nics=(
            Nic("lo", "loopback", True, addresses=(Address("127.0.0.1", 8, "host"),)),
            Nic("eth0", "ethernet", True, 1500, speed_mbps=10_000, addresses=(Address(f"10.77.{high}.{low + 1}", 16),)),
            Nic("ib0", "infiniband", True, 4092, addresses=(Address(f"10.78.{high}.{low + 1}", 16),)),
        ),
        ib=(IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0, "ib0"),),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{name}-{i}", "H100") for i in range(GPUS))),
        engine=Engine("docker", ("docker",), nvidia_runtime=True),
        default_route_nic="eth0",
    )


def _planning(size: int) -> tuple[Callable[[], object], int]:
    found: dict[str, ProbeResult] = {f.host: f for f in map(facts, range(size))}
    inventory = Inventory(tuple(Host(name) for name in found))
    picks = tuple(HostPick(name) for name in found)
    job = Job("scale", image="i", command=("python", "train.py"), ranks=RankLayout(per_gpu=1), backend="nccl")

    def act() -> None:
        made = plan(job, inventory, picks, found, run_id="scale-1", owner="a@b", version="0")
        assert not isinstance(made, NoPlan), made
        assert made.world_size == size * GPUS

    return act, size


class _Simulated:
    """A connector to hosts that all answer what this machine answered once."""

    def __init__(self) -> None:
        done = subprocess.run(("sh",), input=script("0" * 24).encode(), capture_output=True, check=True)
        self.answer = done.stdout
        self.host, self.connected_ms = "", 1.0

    async def connect(self, host: str) -> _Simulated:
        """There is nothing to connect to."""
        await asyncio.sleep(0)
        return self

    async def run_script(self, text: str, *, timeout: float | None = None, limit: int = 0) -> Completed:
        """The answer, framed as this question asks for it."""
        match = re.search(r"^N='(\w+)'", text, re.MULTILINE)
        assert match
        return Completed(("sh",), 0, self.answer.replace(b"0" * 24, match[1].encode()), b"")

    async def close(self) -> None:
        """There is nothing to close."""


def _probing() -> Work:
    hosts: Any = _Simulated()

    def work(size: int) -> tuple[Callable[[], object], int]:
        asked = [Host(f"node{n}") for n in range(size)]

        def act() -> None:
            results = asyncio.run(probe_all(hosts, asked))
            assert all(isinstance(r, HostFacts) for r in results.values())

        return act, size

    return work


def _judging(ranks: int) -> tuple[Callable[[], object], int]:
    """While they are followed: the first failed, all others have ended well."""
    tasks = []
    for rank in range(ranks):
        said = tuple(Line(float(n), f"[rank{rank}] step {n} loss {1 / (n + 1):.3f} lr 0.001") for n in range(200))
        tasks.append(TaskSeen(rank, f"node{rank // GPUS}", (rank,), end=End(int(not rank), 300.0), lines={rank: said}))
    known = Evidence(tuple(tasks), all_in=False)
    return lambda: judge(known), ranks


def _folding(ranks: int) -> tuple[Callable[[], object], int]:
    where: Mapping[int, str] = {rank: f"node{rank // GPUS}" for rank in range(ranks)}
    begun = apply(RunState(), RunOpened(0.0, "r", "j", "env", "i", where, {r: (r,) for r in where}))
    count = 4000
    events: list[Event] = []
    for n in range(count // 2):
        rank = n * 7919 % ranks
        events.append(RankChanged(1.0, rank, where[rank], "running"))
        events.append(LogLines(1.0, rank, rank, where[rank], (LogLine("stdout", f"step {n}"),)))

    def act() -> None:
        state = begun
        for event in events:
            state = apply(state, event)

    return act, count


def _printing(lines: int) -> None:
    """Lines of 64 ranks through the printer into /dev/null, beside Python writing the same bytes."""
    batch = [
        LogLines(
            1.0, r, r, f"node{r // GPUS}", tuple(LogLine("stdout", f"step {n:06} loss 0.12345678") for n in range(50))
        )
        for r in range(64)
    ]
    writer = LineWriter(LogView(), colour=True)
    writer.open({e.rank: e.host for e in batch if e.rank is not None})
    sink = os.open(os.devnull, os.O_WRONLY)
    rounds = max(1, lines // (64 * 50))

    async def act() -> None:
        outlet = Outlet(sink)
        for _ in range(rounds):
            await outlet.write(b"".join(writer.bytes(e.rank, e.host, e.lines) for e in batch))
        await outlet.drain()

    began = time.process_time()
    asyncio.run(act())
    took = time.process_time() - began
    os.close(sink)
    print(f"  printer: {rounds * 64 * 50 / took:,.0f} lines a second of CPU", flush=True)
    if sys.flags.optimize:
        note("Python runs with -O: assertions were off")
