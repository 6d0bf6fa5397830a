"""Two embedded ssh hosts on a machine with a real NVIDIA GPU, and distui's command line over them."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
SHARED: dict[str, Any] = {"gpus_per_host": 0, "env": {"CUDA_VISIBLE_DEVICES": "0"}}
"""Keys of a job whose ranks use GPU 0 although the plan gives them none: both hosts are one machine with one GPU."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the driver and torch say of this machine, asked without distui."""

    smi: str
    python: str
    """Its torch has CUDA; it runs the ranks."""
    versions: str

    def query(self, *fields: str) -> dict[str, str]:
        """What nvidia-smi says of the first GPU now."""
        argv = (self.smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        row = next(csv.reader(subprocess.check_output(argv, text=True, timeout=60).splitlines()))
        return dict(zip(fields, (cell.strip() for cell in row), strict=True))


class Cluster:
    """The two hosts, and distui over them."""

    def __init__(self, machine: Machine, home: Path, first: Path) -> None:
        self.machine, self.home = machine, home
        self.first = first
        """A folder that the hosts look for programs in before any other."""

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """distui from this checkout, with the hosts' inventory."""
        base = {"HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"}
        argv = (sys.executable, "-m", "distui.cli.main", *args)
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.home, env=base | env, stdout=pipe, stderr=pipe, text=True)

    def distui(self, *args: str, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        program = self.start(*args, **env)
        try:
            out, err = program.communicate(timeout=timeout)
        finally:
            program.kill()
        return subprocess.CompletedProcess(args, program.returncode, out, err)

    def job(self, program: str, *args: str, hosts: str = "gpu[1-2]", **keys: Any) -> Path:
        """A job file that runs one of `programs/` as a process on each host."""
        path = self.home / "job.yaml"
        command = [self.machine.python, str(PROGRAMS / program), *args]
        given = {"version": 1, "name": "gpu", "hosts": hosts, "command": command, "ranks": {"per_host": 1}}
        path.write_text(json.dumps(given | {"backend": "gloo", "fabric": {"kind": "tcp"}} | keys))
        return path

    def run(self, *flags: str, **env: str) -> tuple[dict[str, Any], str]:
        """Run the job to its end: the result, and everything that was printed."""
        done = self.distui("run", "job.yaml", "--headless", "-y", "-o", "ndjson", *flags, **env)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events, done.stderr
        return events[-1], done.stdout + done.stderr


class Loop:
    """An event loop in a thread, for the ssh servers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, work: Any) -> Any:
        """Run a coroutine there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Return as soon as `condition` holds; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


@contextmanager
def burning(machine: Machine) -> Iterator[int]:
    """A program of nobody's run that keeps the GPU busy; its pid."""
    argv = (machine.python, str(PROGRAMS / "burn.py"))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "warm\n"
            yield program.pid
        finally:
            program.kill()


def top(cluster: Cluster) -> dict[str, Any]:
    """What `distui top` says of the first host's first GPU."""
    done = cluster.distui("top", "gpu1", "--once", "-o", "json")
    assert done.returncode == 0, done.stderr
    host = json.loads(done.stdout)["hosts"][0]
    assert host["gpus"], done.stdout + done.stderr
    return dict(host["gpus"][0])
