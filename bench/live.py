"""Following logs while they are printed, beside `ssh host docker logs -f -t >file` for each rank, in turns.

    python bench/live.py [--lines 500000] [--seconds 15] [--rounds 5]

One rank at full speed, eight at 1,000 lines a second, 64 at 100. What is measured of distui is the controller in this
process, without Python's start, from its connection to the end of the run; of its peer all clients of OpenSSH. Wall
time runs from the moment at which ranks begin to print to the end of the run; "until all is read" to when distui had
the last line and knew how the last rank ended, which is nearest to what the end of the peer's clients says. `helper`
is the CPU of distui's helper on the host as a share of what dockerd takes for the peer's same lines. Latency is from a
line's print to its event. Needs root and Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from bench.follow import Runs, Take, enter  # noqa: E402
from bench.measure import machine_busy  # noqa: E402
from bench.processes import HELPER, cpu_of, of_lab  # noqa: E402
from distui.runs.lines.events import Event, LogLine, LogLines, RankChanged  # noqa: E402
from lab.lab import Lab  # type: ignore[import-not-found,unused-ignore]  # noqa: E402

NAME = "benchlog"
DOCKERD = b"dockerd\0"
PROGRAM = """
import os, sys, time
at, lines, size, rate = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
pad = "x" * (size - 27)
time.sleep(max(0, at - time.time()))
for i in range(lines):
    if rate:
        time.sleep(max(0, at + i / rate - time.time()))
    text = "%.6f %08d %s\\n" % (time.time(), i, pad)
    if rate:
        os.write(1, text.encode())
    else:
        sys.stdout.write(text)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What is printed: by so many ranks, `rate` lines a second each (0: as fast as they can) of `size` bytes."""

    ranks: int
    lines: int
    size: int
    rate: int

    def argv(self, at: float) -> tuple[str, ...]:
        """The program that begins to print at a moment."""
        return ("python3", "-c", PROGRAM, f"{at:.3f}", str(self.lines), str(self.size), str(self.rate))

    def __str__(self) -> str:
        speed = f"{self.rate} lines/s" if self.rate else "full speed"
        return f"{self.ranks} x {self.lines} lines of {self.size} bytes, {speed}"


@dataclass(slots=True)
class Cost:
    """Seconds; `late` in seconds, too. `helper` and `late` are distui's only; the peer has read all at its end."""

    wall: float
    read: float
    client: float
    dockerd: float
    missing: int
    helper: float = 0.0
    late: list[float] = field(default_factory=list)


class Read(Take):
    """Notes when the last lines came, and the first word of how each rank ended."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.ended: set[int] = set()

    async def batch(self, batch: Sequence[Event]) -> None:
        """Take the next events."""
        ended = {e.rank for e in batch if isinstance(e, RankChanged) and e.state == "exited"}
        if not ended <= self.ended or any(isinstance(e, LogLines) for e in batch):
            self.at = time.time()
            self.ended |= ended


class Late(Read):
    """Notes when each batch came, too."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[tuple[float, Sequence[LogLine]]] = []

    async def batch(self, batch: Sequence[Event]) -> None:
        """Take the next events."""
        await super().batch(batch)
        now = time.time()
        self.came += [(now, e.lines) for e in batch if isinstance(e, LogLines)]

    def each(self) -> list[float]:
        """How late each line came, in seconds. Worked out when all is over: who follows does not look at lines."""
        return [now - float(line.text.split(" ")[0]) for now, lines in self.came for line in lines]


@contextmanager
def watched(words: bytes) -> Iterator[Callable[[], float]]:
    """CPU of the process with these words that begins to run meanwhile, to some 0.2 s before its end."""
    seen, stop = [0.0], threading.Event()

    def watch() -> None:
        pids: list[int] = []
        while not stop.wait(0.2 if pids else 1.0):
            pids = pids or of_lab(NAME, words)
            with suppress(OSError):
                seen[0] = max(seen[0], sum(map(cpu_of, pids)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: seen[0]
    finally:
        stop.set()
        thread.join()


def dockerd() -> float:
    """Seconds of CPU that the host's dockerd has taken."""
    return sum(map(cpu_of, of_lab(NAME, DOCKERD)))


def by_ssh(lab: Any, home: Path, case: Case) -> Cost:
    """A client of OpenSSH and one of docker for each rank."""
    names = [f"peer-{n}" for n in range(case.ranks)]
    at = time.time() + 3 + case.ranks / 2
    for name in names:
        lab.host("h1").exec("docker", "run", "-d", "--name", name, "lab/python:1", *case.argv(at))
    engine, before = dockerd(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ssh = ("ssh", "-F", str(home / ".ssh/config"), "h1", "docker", "logs", "-f", "-t")
    clients = []
    for name in names:
        with (home / name).open("wb") as file:
            clients.append(subprocess.Popen((*ssh, name), stdout=file, stderr=subprocess.DEVNULL))
        time.sleep(0.1 if case.ranks > 8 else 0)  # sshd lets no more than ten log in at once
    for client in clients:
        client.wait()
    wall, after = time.time() - at, resource.getrusage(resource.RUSAGE_CHILDREN)
    client_cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    engine = dockerd() - engine
    got = sum((home / name).read_bytes().count(b"\n") for name in names)
    lab.host("h1").exec("docker", "rm", "-f", *names, timeout=300)
    return Cost(wall, wall, client_cpu, engine, case.ranks * case.lines - got)


def by_distui(lab: Any, runs: Runs, case: Case) -> Cost:
    """The controller."""
    at = time.time() + 6 + case.ranks
    made = asyncio.run(runs.start(case.ranks, *case.argv(at)[1:]))
    take, engine = Late() if case.rate else Read(), dockerd()
    with watched(HELPER) as helper:
        cpu = time.thread_time()
        stored = asyncio.run(runs.follow(made, take))
        cpu = time.thread_time() - cpu
    wall, engine = time.time() - at, dockerd() - engine
    late = take.each() if isinstance(take, Late) else []
    got = sum(stored.rank_log(rank).read_bytes().count(b"\n") for rank in range(case.ranks))
    lab.host("h1").exec("docker", "rm", "-f", *(task.container for task in made.tasks), timeout=300)
    return Cost(wall, take.at - at, cpu, engine, case.ranks * case.lines - got, helper(), late)


def spread(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """The median, with the least and the most."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def measure(lab: Any, home: Path, case: Case, rounds: int) -> None:
    """One case, by both in turns, first the one and then the other."""
    runs, mine, peer = Runs(home), [], []
    print(f"\n{case}", flush=True)
    with machine_busy() as busy:
        for turn in range(rounds):
            if turn % 2:
                peer.append(by_ssh(lab, home, case))
            mine.append(by_distui(lab, runs, case))
            if not turn % 2:
                peer.append(by_ssh(lab, home, case))
    for name, costs in (("ssh docker logs -f -t", peer), ("distui", mine)):
        wall, client = spread([c.wall for c in costs]), spread([c.client for c in costs])
        print(f"  {name:22} wall {wall} s, client {client} s CPU, {sum(c.missing for c in costs)} lines missing")
    pairs = list(zip(mine, peer, strict=True))
    wall, client = spread([a.wall / b.wall for a, b in pairs]), spread([a.client / b.client for a, b in pairs])
    read = spread([a.read / b.read for a, b in pairs])
    engine = spread([a.dockerd / b.dockerd for a, b in pairs])
    print(f"  ratios: wall {wall}, until all is read {read}, client {client}; dockerd {engine}")
    print(f"  helper / dockerd {spread([a.helper / b.dockerd for a, b in pairs])};", end=" ")
    if late := sorted(late for cost in mine for late in cost.late):
        p99 = late[int(len(late) * 0.99)]
        print(f"latency p50 {1000 * statistics.median(late):.1f} ms, p99 {1000 * p99:.1f} ms;", end=" ")
    print(busy, flush=True)


def main() -> None:
    """All cases, on a lab of their own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, default=500_000, help="of one rank at full speed")
    parser.add_argument("--seconds", type=int, default=15, help="of ranks at a steady speed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=int, help="the case of so many ranks")
    args = parser.parse_args()
    cases = [Case(1, args.lines, size, 0) for size in (40, 116, 300)]
    cases += [Case(ranks, rate * args.seconds, 116, rate) for ranks, rate in ((8, 1000), (64, 100))]
    with Lab(NAME) as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(1)
        home = lab.ssh_home(Path(folder))
        enter(lab)
        for case in cases:
            if args.only in (None, case.ranks):
                measure(lab, home, case, args.rounds)


if __name__ == "__main__":
    main()
