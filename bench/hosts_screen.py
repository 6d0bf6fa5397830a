"""What the Hosts screen costs: N hosts with 8 GPUs each, one sample a second, under a real pty of 200x50.

    python -m bench.hosts_screen [--hosts 256] [--seconds 20] [--size 200x50]

Prints CPU of the app's process in percent of one core, how late the event loop was (p50, p99, most), the time of
the first paint and what was written to the terminal. The target is under 15 % at 256 hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import random
import resource
import struct
import tempfile
import termios
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from bench.measure import Failed
from distui.facts.host import Address, Engine, Gpu, Gpus, HostFacts, IbPort, Nic, ProbeResult
from distui.monitor.figures import HostNews
from distui.runs.hosts.discover import FoundRuns
from distui.runs.lines.events import GpuReading, HostSampled
from distui.spec.hosts.inventory import Host
from distui.tui.frame.backend import Backend

GPUS = 8
TICK = 0.005
"""Seconds of the sleep whose overshoot is the loop's lag."""


def facts(name: str, number: int) -> HostFacts:
    """A host with eight GPUs and eight InfiniBand ports."""
    address = f"10.0.{number // 250}.{number % 250 + 1}"
    nics = [Nic("eno1", "ethernet", True, 1500, speed_mbps=10_000, addresses=(Address(address, 16),))]
    return HostFacts(
        name,
        name,
        rtt_ms=2.0,
        nics=tuple(nics),
        ib=tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0, f"ib{i}") for i in range(GPUS)),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{i}", "NVIDIA H100 80GB HBM3", memory_total_mib=81_559) for i in range(GPUS))),
        engine=Engine("docker", ("docker",), "27.3", "27.3", True),
        default_route_nic="eno1",
    )


def sample(name: str, rnd: random.Random) -> HostSampled:
    """One second of a busy host: every figure is another one each time."""
    cards = tuple(
        GpuReading(i, rnd.uniform(0, 100), rnd.randrange(80_000), 81_559, rnd.uniform(30, 79), rnd.uniform(90, 700))
        for i in range(GPUS)
    )
    net = {f"mlx5_{i}:1": (rnd.uniform(0, 4e10), rnd.uniform(0, 4e10)) for i in range(GPUS)}
    return HostSampled(time.time(), name, cards, {"eno1": (1e6, 1e6), **net})


class Hosts:
    """A backend of invented hosts, as far as the Hosts screen asks."""

    title = "bench/hosts.yaml"
    owner = "bench"
    readonly = False
    stop_on_exit = False
    history = None

    def __init__(self, count: int) -> None:
        self.hosts = tuple(Host(f"node{i:03d}") for i in range(count))
        self.groups: Mapping[str, tuple[str, ...]] = {}
        self.facts: Mapping[str, ProbeResult] = {h.name: facts(h.name, i) for i, h in enumerate(self.hosts)}
        self.following: Mapping[str, object] = {}

    async def probe(self, names: Sequence[str], on_result: Callable[[str, ProbeResult], None]) -> None:
        """All answer at once."""
        for name in names:
            on_result(name, self.facts[name])

    async def news(self) -> AsyncIterator[HostNews]:
        """Every host once a second, spread over the second as real ones are."""
        rnd = random.Random(1)
        due = time.monotonic()
        while True:
            for host in self.hosts:
                due += 1.0 / len(self.hosts)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                yield HostNews(host.name, "sample", sample=sample(host.name, rnd))

    async def runs(self) -> tuple[tuple[object, ...], FoundRuns]:
        """None."""
        return (), FoundRuns((), {})


async def _lags(seconds: float) -> list[float]:
    """How much later than asked the loop came back, in ms."""
    lags = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = time.monotonic()
        await asyncio.sleep(TICK)
        lags.append((time.monotonic() - before - TICK) * 1000)
    return sorted(lags)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def app(report: Path, count: int, seconds: float, started: float) -> None:
    """The child's side of the pty: run the app, measure, write the report."""
    from distui.tui.app import DistuiApp

    made = DistuiApp(cast(Backend, Hosts(count)))
    reply: dict[str, Any] = {}

    async def measure() -> None:
        reply["first_paint_s"] = time.time() - started
        await asyncio.sleep(4)
        before, at = _cpu(), time.monotonic()
        lags = await _lags(seconds)
        reply["cpu_pct"] = 100 * (_cpu() - before) / (time.monotonic() - at)
        reply["lag_ms"] = [lags[len(lags) // 2], lags[int(len(lags) * 0.99)], lags[-1]]
        reply["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        made.exit()

    made.call_after_refresh(lambda: made.run_worker(measure(), name="measure"))
    made.run()
    report.write_text(json.dumps(reply))


def measure(hosts: int, seconds: float, size: str = "200x50") -> dict[str, Any]:
    """Fork the app under a pty, drain it, give what it measured. Raises Failed."""
    width, height = (int(n) for n in size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        started = time.time()
        child, master = pty.fork()
        if child == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            app(report, hosts, seconds, started)
            os._exit(0)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        written = _drain(master)
        os.waitpid(child, 0)
        os.close(master)
        if not report.exists():
            raise Failed("the app ended before it had measured")
        return {**json.loads(report.read_text()), "rate": written / (seconds + 4)}


def main() -> None:
    """Print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", default="200x50")
    args = parser.parse_args()
    _print(measure(args.hosts, args.seconds, args.size), args.hosts, args.size)


def _drain(master: int) -> int:
    """Read what the app writes until it ends."""
    written = 0
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            return written
        if not data:
            return written
        written += len(data)


def _print(result: Mapping[str, Any], hosts: int, size: str) -> None:
    p50, p99, most = result["lag_ms"]
    print(f"{hosts} hosts x {GPUS} GPUs at 1 Hz, {size}: {result['cpu_pct']:.1f} % of a core (target 15)")
    print(
        f"lag p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.1f} ms; {result['rate'] / 1000:.0f} kB/s to the terminal"
    )
    print(f"first paint {result['first_paint_s']:.2f} s after the start; {result['rss_mb']:.0f} MB")


if __name__ == "__main__":
    main()
